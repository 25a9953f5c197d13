"""Reading a segment from one end to the other, in chunks: for recovery, index rebuilds and producer state.

`scan` checks the CRC of every batch; `producer_batches` is content with headers.
Memory is bounded by a chunk, or by the one batch that is larger than a chunk.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from tidelog.errors import CorruptMessage
from tidelog.kernel import scan_batches
from tidelog.records.batch import LOG_OVERHEAD, BatchHeader, parse_header
from tidelog.storage.files import File
from tidelog.storage.segment import Segment

CHUNK_BYTES = 1 << 20
TORN = "torn"
ZEROS = "nothing but zeros: reserved space, or data that never reached the disk"

_LENGTH = struct.Struct(">i")
# | leader epoch | magic, crc | attributes | deltas and timestamps | producer id |
_WRITER = struct.Struct(">i5xh20xq")
_WRITER_AT = 12


class Scanned(NamedTuple):
    """A batch that passed its checks."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    max_timestamp: int
    leader_epoch: int
    header: BatchHeader | None
    """Only for batches with a producer id."""
    data: memoryview
    """The batch itself, valid until the next step."""


class Tail:
    """Where a scan stopped, and why; filled in when the scan is over."""

    __slots__ = ("position", "reason")

    def __init__(self) -> None:
        self.position = 0
        self.reason = ""


def scan(segment: Segment, tail: Tail, *, position: int = 0) -> Iterator[Scanned]:
    """Every good batch from `position` to the first that is torn or corrupt, which `tail` tells of."""
    file = segment.file()
    chunk_bytes = CHUNK_BYTES
    tail.position = position
    while position < segment.size:
        chunk = file.pread(min(chunk_bytes, segment.size - position), position)
        view = memoryview(chunk)
        places, stop, reason = scan_batches(chunk, 0, len(chunk))
        for at, size, base, last, timestamp in places:
            leader_epoch, _, producer_id = _WRITER.unpack_from(chunk, at + _WRITER_AT)
            header = parse_header(chunk, at) if producer_id >= 0 else None
            yield Scanned(
                position + at,
                size,
                base,
                last,
                timestamp,
                leader_epoch,
                header,
                view[at : at + size],
            )
        position += stop
        tail.position = position
        at_end = position - stop + len(chunk) >= segment.size
        if reason and (at_end or reason != TORN):
            tail.reason = ZEROS if _only_zeros(segment, position) else reason
            return
        if stop == 0:
            # One batch is larger than the chunk: take all of it, if the file can hold it.
            claimed = LOG_OVERHEAD + _LENGTH.unpack_from(chunk, 8)[0] if len(chunk) >= 12 else 0
            if claimed > segment.size - position:
                tail.reason = TORN
                return
            chunk_bytes = max(claimed, 2 * chunk_bytes)
        else:
            chunk_bytes = CHUNK_BYTES


def _only_zeros(segment: Segment, position: int) -> bool:
    """Whether nothing was ever written from `position` on."""
    file = segment.file()
    while position < segment.size:
        chunk = file.pread(min(CHUNK_BYTES, segment.size - position), position)
        if not chunk or chunk != bytes(len(chunk)):
            return False
        position += len(chunk)
    return True


def producer_batches(
    file: File, size: int, from_offset: int, to_offset: int
) -> Iterator[tuple[BatchHeader, memoryview]]:
    """The batches with a producer in [from_offset, to_offset) of a log file, and their bytes; `CorruptMessage` where none begins.

    Reads with no help of an index, and may run in a thread.
    """
    position = 0
    while position < size:
        chunk = file.pread(min(CHUNK_BYTES, size - position), position)
        places, stop, reason = scan_batches(chunk, 0, len(chunk))
        if reason.startswith("corrupt") or not stop:
            # Damage inside of a batch does not hide the ones behind it, and one that is larger than a chunk need not be read.
            places = [*places, _place(chunk, stop)]
            stop += places[-1][1]
            if position + stop > size:
                raise CorruptMessage(f"{file.path}: the batch at {places[-1][0]} is cut off")
        for at, length, base, last, _ in places:
            if base >= to_offset:
                return
            if last >= from_offset and _WRITER.unpack_from(chunk, at + _WRITER_AT)[2] >= 0:
                yield parse_header(chunk, at), memoryview(chunk)[at : at + length]
        position += stop


def _place(chunk: bytes, at: int) -> tuple[int, int, int, int, int]:
    """As `scan_batches` tells a batch, by its header alone."""
    header = parse_header(chunk, at)
    return at, header.size, header.base_offset, header.last_offset, header.max_timestamp
