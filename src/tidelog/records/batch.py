"""A batch as it lies in a segment or a request: its header, and its records when they are asked for."""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from tidelog.errors import CorruptMessage, InvalidRecord
from tidelog.kernel import decode_records, latest_time, times_outside
from tidelog.kernel.primitives import Buffer
from tidelog.records.compression import (
    DECOMPRESSED_LIMIT_BYTES,
    Codec,
    codec_of,
    decompress,
)

HEADER_BYTES = 61
"""The header of a v2 batch, up to its records."""

LOG_OVERHEAD = 12
"""Base offset and length, which the length does not count."""

HEADER = struct.Struct(">qiibIhiqqqhii")
"""All thirteen fields in the order of `BatchHeader`."""

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

MAX_RECORDS = 1_000_000
"""More than this in one batch are not looked into: a record of 7 bytes becomes an object of 200."""

NO_PRODUCER_ID = -1
NO_TIMESTAMP = -1
_FIRST_TIMESTAMP, _LAST_TIMESTAMP = -1 << 63, (1 << 63) - 1


class BatchHeader(NamedTuple):
    """The thirteen fields of a v2 batch header, and what follows from them."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int  # type: ignore[assignment]  # Kafka's word; the tuple's own method is not missed

    @property
    def last_offset(self) -> int:
        """Offset of the last record, or of the last that was there before compaction."""
        return self.base_offset + self.last_offset_delta

    @property
    def size(self) -> int:
        """All bytes of the batch."""
        return self.length + LOG_OVERHEAD

    @property
    def codec(self) -> Codec:
        """Compression of the records; UnsupportedCompressionType if it is none that we know."""
        return codec_of(self.attributes & CODEC_MASK)

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL != 0

    @property
    def has_producer(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    @property
    def is_log_append_time(self) -> bool:
        return self.attributes & LOG_APPEND_TIME != 0

    @property
    def has_delete_horizon(self) -> bool:
        """Whether the base timestamp says when tombstones and markers may go (KIP-534)."""
        return self.attributes & DELETE_HORIZON != 0

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record; numbers go on from 0 after 2^31 - 1."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF


class Record(NamedTuple):
    """One record with its place in the log."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def parse_header(buf: Buffer, pos: int = 0) -> BatchHeader:
    """The header at `pos`; lengths and magic are checked, the CRC is not, nor that the whole batch is there."""
    if pos < 0 or memoryview(buf).nbytes - pos < HEADER_BYTES:
        raise CorruptMessage(f"there are no {HEADER_BYTES} bytes for a batch header at {pos}")
    header = BatchHeader._make(HEADER.unpack_from(buf, pos))
    if header.magic != 2:
        raise CorruptMessage(
            f"the batch at {pos} has magic {header.magic}; 2 is the only one accepted"
        )
    if (
        header.length < HEADER_BYTES - LOG_OVERHEAD
        or header.count < 0
        or header.last_offset_delta < 0
    ):
        raise CorruptMessage(
            f"the batch at {pos} claims a length of {header.length}, {header.count} records "
            f"and a last offset delta of {header.last_offset_delta}"
        )
    return header


def iterate_batches(buf: Buffer, pos: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Each whole batch and its position; a batch that is cut off at the end, as a fetch may leave it, ends it."""
    end = memoryview(buf).nbytes
    while end - pos >= HEADER_BYTES:
        header = parse_header(buf, pos)
        if header.size > end - pos:
            return
        yield pos, header
        pos += header.size


def read_records(
    buf: Buffer, pos: int = 0, *, limit_bytes: int = DECOMPRESSED_LIMIT_BYTES
) -> list[Record]:
    """The records of the batch at `pos`, decompressed to at most `limit_bytes`; the CRC is not checked."""
    header = parse_header(buf, pos)
    rows = decode_records(*records_of(buf, pos, header, limit_bytes=limit_bytes))
    if header.is_log_append_time:
        timestamp = header.max_timestamp
        return [Record(row[0], timestamp, row[2], row[3], row[4]) for row in rows]
    return list(map(Record._make, rows))


def first_not_older(
    buf: Buffer,
    pos: int,
    target_ms: int,
    *,
    from_offset: int = 0,
    limit_bytes: int = DECOMPRESSED_LIMIT_BYTES,
) -> tuple[int, int] | None:
    """(timestamp, offset) of the first record of the batch with that time or a later one, from `from_offset` on."""
    header = parse_header(buf, pos)
    if header.max_timestamp < target_ms:
        return None
    place = records_of(buf, pos, header, limit_bytes=limit_bytes)
    first_delta = max(from_offset - header.base_offset, 0)
    # Under LogAppendTime all records have the batch's time, whatever stands beside them: take the first.
    below = _LAST_TIMESTAMP if header.is_log_append_time else _FIRST_TIMESTAMP
    found = times_outside(
        *place[:4], header.base_timestamp, below, target_ms - 1, first_delta, 1, False
    )
    if not found:
        return None
    _, delta, timestamp = found[0]
    if header.is_log_append_time:
        timestamp = header.max_timestamp
    return timestamp, header.base_offset + delta


def latest_between(
    buf: Buffer, pos: int, first: int, up_to: int, *, limit_bytes: int = DECOMPRESSED_LIMIT_BYTES
) -> int:
    """The largest timestamp of the records from the offset `first` to before `up_to`; -1 if there is none."""
    header = parse_header(buf, pos)
    place = records_of(buf, pos, header, limit_bytes=limit_bytes)
    base = header.base_offset
    latest = latest_time(*place[:4], header.base_timestamp, first - base, up_to - base)
    return header.max_timestamp if latest > NO_TIMESTAMP and header.is_log_append_time else latest


def records_of(
    buf: Buffer, pos: int, header: BatchHeader, *, limit_bytes: int = DECOMPRESSED_LIMIT_BYTES
) -> tuple[Buffer, int, int, int, int, int]:
    """What `kernel.decode_records` takes for this batch: uncompressed bytes and where the records are in them."""
    start, end = pos + HEADER_BYTES, pos + header.size
    if end > memoryview(buf).nbytes:
        raise CorruptMessage(f"the batch at {pos} is cut off: it claims {header.size} bytes")
    codec = header.codec
    if codec is not Codec.NONE and header.count:
        buf = decompress(codec, memoryview(buf)[start:end], limit_bytes)
        start, end = 0, memoryview(buf).nbytes
    elif codec is not Codec.NONE:
        end = start  # an empty batch keeps its codec but has nothing to unfold
    if header.count > (end - start) // 7:
        raise InvalidRecord(f"{header.count} records cannot fit into {end - start} bytes")
    if header.count > MAX_RECORDS:
        raise InvalidRecord(f"the batch has {header.count} records; {MAX_RECORDS} are the most")
    return buf, start, end, header.count, header.base_offset, header.base_timestamp
