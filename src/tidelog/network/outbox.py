"""Sends the pieces of answers: gathered writes for bytes and small regions, `sendfile` for large regions.

Small regions are read, because a system call of their own costs more than copying them: measured, `sendfile`
pays from about 128 KB on.
"""

import os
import socket
from itertools import islice
from typing import TYPE_CHECKING

from .flow import FLUSH_BYTES

if TYPE_CHECKING:
    from .answer import Piece, ReadableFile

SENDFILE_MIN_BYTES = 128 * 1024
_GATHER_PIECES = 512  # below IOV_MAX
_GATHER_BYTES = 1 << 20
_JOIN_BYTES = 64 * 1024
_WHOLE = (bytes, bytearray)
_PLAIN = frozenset({bytes, bytearray, memoryview})
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


def send_some(sock: socket.socket, out: "list[Piece]") -> bool:
    """Send from the front of `out`, removing what was sent; True when all is sent.

    False means that the socket takes no more now, or that it is time for others.  Raises OSError when the
    connection or the file is broken.
    """
    if len(out) == 1 and isinstance(out[0], _WHOLE):
        return _send_one(sock, out, out[0])
    budget = FLUSH_BYTES
    while out:
        if budget <= 0:
            return False
        first = out[0]
        if first.__class__ in _PLAIN or first.length < SENDFILE_MIN_BYTES:  # type: ignore[union-attr]
            sent, whole = _send_gathered(sock, out)
        else:
            sent, whole = _send_region(sock, out)
        if not whole:
            return False
        budget -= sent
    return True


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


def _send_gathered(sock: socket.socket, out: "list[Piece]") -> tuple[int, bool]:
    """Send the bytes and small regions at the front of `out` with one system call."""
    gathered: list[bytes | bytearray | memoryview] = []
    total = 0
    for piece in islice(out, _GATHER_PIECES):
        if piece.__class__ not in _PLAIN:
            if piece.length >= SENDFILE_MIN_BYTES:  # type: ignore[union-attr]
                break
            piece = _read(piece)
        gathered.append(piece)
        total += len(piece)
        if total >= _GATHER_BYTES:
            break
    taken = len(gathered)
    # More follows at once: let the kernel fill its packets.
    flags = _MORE if taken < len(out) else 0
    try:
        if taken == 1:
            sent = sock.send(gathered[0], flags)
        elif total <= _JOIN_BYTES:
            sent = sock.send(b"".join(gathered), flags)
        else:
            sent = sock.sendmsg(gathered, (), flags)
    except (BlockingIOError, InterruptedError):
        sent = 0
    if sent == total:
        del out[:taken]
        return sent, True
    out[:taken] = _after(gathered, sent)
    return sent, False


def _send_region(sock: socket.socket, out: "list[Piece]") -> tuple[int, bool]:
    """Send the region at the front of `out` from its file."""
    region = out[0]
    assert not isinstance(region, bytes | bytearray | memoryview)
    try:
        sent = os.sendfile(sock.fileno(), region.file.fileno(), region.position, region.length)
    except (BlockingIOError, InterruptedError):
        return 0, False
    if sent == 0:
        raise Truncated(f"{region.length} bytes at {region.position} are not in the file")
    if sent == region.length:
        del out[0]
    else:
        out[0] = Rest(region.file, region.position + sent, region.length - sent)
    return sent, True


def _read(region: "Piece") -> bytes:
    assert not isinstance(region, bytes | bytearray | memoryview)
    data = region.file.pread(region.length, region.position)
    if len(data) != region.length:
        raise Truncated(f"{region.length} bytes at {region.position} are not in the file")
    return data


def _after(
    pieces: list[bytes | bytearray | memoryview], sent: int
) -> "list[bytes | bytearray | memoryview]":
    """What remains of `pieces` after `sent` bytes."""
    for at, piece in enumerate(pieces):
        if sent < len(piece):
            return [memoryview(piece)[sent:], *pieces[at + 1 :]]
        sent -= len(piece)
    return []
