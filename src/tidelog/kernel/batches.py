"""Whole v2 batches: checking them, walking them, stamping the leader's fields into them.

    0  base offset      int64     27  base timestamp   int64
    8  length           int32     35  max timestamp    int64
    12 leader epoch     int32     43  producer id      int64
    16 magic            int8      51  producer epoch   int16
    17 crc              uint32    53  base sequence    int32
    21 attributes       int16     57  record count     int32
    23 last offset delta int32    61  records, perhaps compressed

`length` counts what follows it; the CRC-32C covers everything from the attributes on, so the base offset and
the leader epoch can be written without a new checksum.  Records are not looked into here.
"""

import tidelog.kernel.primitives as primitives
from tidelog.errors import CorruptMessage, InvalidRecord
from tidelog.kernel.primitives import Buffer

BatchFields = tuple[int, int, int, int, int, int, int, int, int, int, int, int, int]
BatchPlace = tuple[int, int, int, int, int]

_LEAST_RECORD_BYTES = 7
"""The smallest record: length, attributes, two deltas, null key, null value, no headers."""

_HIGHEST_OFFSET = 1 << 62
"""No log gets that far; it keeps sums of offsets and deltas within 64 bits."""


def check_batch(buf: Buffer, pos: int, end: int) -> BatchFields:
    """The header of the batch at `pos`, once its length, magic, CRC and counts are found right.

    The fields come in the order of `tidelog.records.BatchHeader`.  More bytes may follow the batch before `end`.
    A batch may be empty (count 0) or have gaps, as compaction leaves them: what a client may send is for
    `records.validate` to say.
    """
    view = primitives.view(buf)
    data = primitives.start(view)
    if pos < 0 or end > primitives.length(view) or end - pos < 61:
        raise CorruptMessage(
            f"a batch needs 61 bytes for its header; {max(end - pos, 0)} are there"
        )
    length = primitives.i32(data, pos + 8)
    magic = primitives.i8(data, pos + 16)
    if magic != 2:
        raise _wrong_magic(magic)
    if length < 49 or length > end - pos - 12:
        raise CorruptMessage(
            f"the batch claims a length of {length}; {end - pos - 12} bytes are there, and 49 is the least"
        )
    crc = primitives.u32(data, pos + 17)
    found = primitives.checksum(data, pos + 21, pos + 12 + length, 0)
    if found != crc:
        raise CorruptMessage(f"the batch's CRC is {crc:#010x}, but its bytes give {found:#010x}")
    attributes = primitives.i16(data, pos + 21)
    last_offset_delta = primitives.i32(data, pos + 23)
    count = primitives.i32(data, pos + 57)
    if count < 0 or last_offset_delta < 0 or count - 1 > last_offset_delta:
        raise InvalidRecord(
            f"the batch claims {count} records and a last offset delta of {last_offset_delta}"
        )
    if attributes & 7 == 0 and count > (length - 49) // _LEAST_RECORD_BYTES:
        raise InvalidRecord(f"{count} records cannot fit into {length - 49} bytes")
    return (
        primitives.i64(data, pos),
        length,
        primitives.i32(data, pos + 12),
        magic,
        crc,
        attributes,
        last_offset_delta,
        primitives.i64(data, pos + 27),
        primitives.i64(data, pos + 35),
        primitives.i64(data, pos + 43),
        primitives.i16(data, pos + 51),
        primitives.i32(data, pos + 53),
        count,
    )


def skip_batches(
    buf: Buffer, pos: int, first_offset: int, offset: int, limit: int
) -> tuple[int, int]:
    """Pass over the batches from `pos` on whose records are all below `offset` and that end at `limit` or before.

    Returns where it stopped, and the offset after the last batch passed (-1 if there was none).  It stops at the first
    batch that is not passed, at bytes that are no batch of a log from `first_offset` on, and where the buffer ends
    within a header.  No checksum is looked at, and a batch may reach beyond the buffer.
    """
    view = primitives.view(buf)
    data = primitives.start(view)
    held = primitives.length(view)
    after = -1
    while pos >= 0 and pos + 27 <= held:
        base_offset = primitives.i64(data, pos)
        length = primitives.i32(data, pos + 8)
        last_offset_delta = primitives.i32(data, pos + 23)
        if length < 49 or last_offset_delta < 0:
            break
        if base_offset < first_offset or base_offset > _HIGHEST_OFFSET:
            break
        if base_offset + last_offset_delta >= offset or length > limit - pos - 12:
            break
        pos += length + 12
        after = base_offset + last_offset_delta + 1
    return pos, after


def stamp_batch(buf: Buffer, pos: int, base_offset: int, leader_epoch: int) -> None:
    """Write the base offset and the leader epoch of the batch at `pos`, in place."""
    view = primitives.view(buf)
    target = primitives.writable(view)
    if pos < 0 or primitives.length(view) - pos < 61:
        raise CorruptMessage(f"there is no batch at {pos}")
    primitives.put_i64(target, pos, base_offset)
    primitives.put_i32(target, pos + 12, leader_epoch)


def scan_batches(buf: Buffer, pos: int, end: int) -> tuple[list[BatchPlace], int, str]:
    """Walk whole batches, checking each: `(places, stop, reason)`.

    A place is (position, size, base offset, last offset, max timestamp).  `stop` is the position after the last
    good batch; `reason` is "" when that is `end`, "torn" when the next batch is cut off there, and otherwise
    "corrupt: " with what is wrong with it.
    """
    view = primitives.view(buf)
    data = primitives.start(view)
    if pos < 0 or pos > end or end > primitives.length(view):
        raise CorruptMessage(f"{pos} to {end} lies outside of the buffer")
    places: list[BatchPlace] = []
    while pos < end:
        left = end - pos
        if left < 12:
            return places, pos, "torn"
        length = primitives.i32(data, pos + 8)
        if length < 49:
            return places, pos, f"corrupt: a length of {length}"
        if length > left - 12:
            # A wrong magic tells garbage from a batch that was cut off while it was written.
            if left > 16 and primitives.i8(data, pos + 16) != 2:
                return places, pos, f"corrupt: magic {primitives.i8(data, pos + 16)}"
            return places, pos, "torn"
        if primitives.i8(data, pos + 16) != 2:
            return places, pos, f"corrupt: magic {primitives.i8(data, pos + 16)}"
        crc = primitives.u32(data, pos + 17)
        if primitives.checksum(data, pos + 21, pos + 12 + length, 0) != crc:
            return places, pos, "corrupt: the CRC does not match"
        base_offset = primitives.i64(data, pos)
        last_offset_delta = primitives.i32(data, pos + 23)
        if base_offset < 0 or base_offset > _HIGHEST_OFFSET or last_offset_delta < 0:
            return places, pos, f"corrupt: offsets {base_offset} + {last_offset_delta}"
        max_timestamp = primitives.i64(data, pos + 35)
        places.append(
            (pos, length + 12, base_offset, base_offset + last_offset_delta, max_timestamp)
        )
        pos += length + 12
    return places, pos, ""


def _wrong_magic(magic: int) -> Exception:
    if magic in (0, 1):
        return InvalidRecord(
            f"the batch has message format {magic}; only format 2 (Kafka 0.11 and later) is accepted"
        )
    return CorruptMessage(f"the batch has magic {magic}; 2 is the only one known")
