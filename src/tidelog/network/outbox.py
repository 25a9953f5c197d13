"""Sends the pieces of answers: bytes and regions of files are put together in one buffer, and leave with one system call.

The buffer is that of the hub, for all connections, so that a fetch costs no fresh memory; what the socket does not take
is read again when it does.  Large regions go by `sendfile`, which spares two copies, unless the peer is on this machine and
all goes well: there reading and sending is quicker at any size (`docs/decisions/hot-path.md`).
"""

import os
import socket
from typing import TYPE_CHECKING

from .flow import FLUSH_BYTES

if TYPE_CHECKING:
    from .answer import FileRegion, Piece, ReadableFile

SENDFILE_MIN_BYTES = 128 * 1024
_WHOLE = (bytes, bytearray)
_PLAIN = (bytes, bytearray, memoryview)
_MORE = getattr(socket, "MSG_MORE", 0)


class Rest:
    """What is left to send of a region."""

    __slots__ = ("file", "length", "position")

    def __init__(self, file: "ReadableFile", position: int, length: int) -> None:
        self.file = file
        self.position = position
        self.length = length


class Truncated(OSError):
    """A file is shorter than the region that was promised from it."""


def send_some(
    sock: socket.socket, out: "list[Piece]", buffer: memoryview, *, is_near: bool
) -> bool:
    """Send from the front of `out`, removing what was sent; True when all is sent.

    False means that the socket takes no more now, or that it is time for others.  Raises OSError when the
    connection or the file is broken.  `buffer` may hold anything before and after.  With `is_near` large regions are read
    too.
    """
    if len(out) == 1 and isinstance(out[0], _WHOLE):
        return _send_one(sock, out, out[0])
    budget = FLUSH_BYTES
    while out:
        if budget <= 0:
            return False
        first = out[0]
        if is_near or isinstance(first, _PLAIN) or first.length < SENDFILE_MIN_BYTES:
            sent, whole = _send_gathered(sock, out, buffer, is_near)
        else:
            sent, whole = _send_region(sock, out, first)
        if not whole:
            return False
        budget -= sent
    return True


def drop_sent(out: "list[Piece]", sent: int) -> None:
    """Remove the first `sent` bytes of what is owed."""
    done = 0
    for piece in out:
        length = len(piece) if isinstance(piece, _PLAIN) else piece.length
        if sent < length:
            if sent:
                out[done] = _after(piece, sent)
            break
        sent -= length
        done += 1
    del out[:done]


def _send_one(sock: socket.socket, out: "list[Piece]", piece: bytes | bytearray) -> bool:
    """Send the only piece of `out`, which is what most answers are."""
    try:
        sent = sock.send(piece)
    except (BlockingIOError, InterruptedError):
        return False
    if sent == len(piece):
        out.clear()
        return True
    out[0] = memoryview(piece)[sent:]
    return False


def _send_gathered(
    sock: socket.socket, out: "list[Piece]", buffer: memoryview, is_near: bool
) -> tuple[int, bool]:
    """Send what fits into the buffer, up to a region for `sendfile`, with one system call."""
    room = len(buffer)
    filled = taken = 0
    for piece in out:
        start = filled
        if isinstance(piece, _PLAIN):
            length = len(piece)
            filled = min(start + length, room)
            buffer[start:filled] = piece if start + length <= room else piece[: room - start]
        else:
            length = piece.length
            if length >= SENDFILE_MIN_BYTES and not is_near:
                break
            filled = min(start + length, room)
            if piece.file.pread_into(buffer[start:filled], piece.position) < filled - start:
                raise _truncated(piece)
        if filled - start < length:
            break
        taken += 1
    # More follows at once: let the kernel fill its packets.
    flags = _MORE if taken < len(out) else 0
    try:
        sent = sock.send(buffer[:filled], flags)
    except (BlockingIOError, InterruptedError):
        return 0, False
    if taken == len(out) and sent == filled:
        out.clear()
        return sent, True
    drop_sent(out, sent)
    return sent, sent == filled


def _send_region(sock: socket.socket, out: "list[Piece]", region: "FileRegion") -> tuple[int, bool]:
    """Send the region at the front of `out` from its file."""
    try:
        sent = os.sendfile(sock.fileno(), region.file.fileno(), region.position, region.length)
    except (BlockingIOError, InterruptedError):
        return 0, False
    if sent == 0:
        raise _truncated(region)
    drop_sent(out, sent)
    return sent, True


def _after(piece: "Piece", sent: int) -> "Piece":
    """What remains of a piece."""
    if isinstance(piece, _PLAIN):
        return memoryview(piece)[sent:]
    return Rest(piece.file, piece.position + sent, piece.length - sent)


def _truncated(region: "FileRegion") -> Truncated:
    return Truncated(f"{region.length} bytes at {region.position} are not in the file")
