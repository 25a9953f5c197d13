"""Runs of small Produce requests: what a producer that does not wait for its answers sends, many in one read.

The usual frame of such a run, with the client id and the name of the topic as they are:

    size | key 0 | version 9-12 | correlation id | client id | no tags |
    no transactional id | acks -1, 0 or 1 | timeout | 1 topic | name | 1 partition | index | one batch | no tags, three times

A frame that differs in anything, or whose batch has an attribute beside its codec or any fault, ends the run: the decoder
of `requests` and the checks of `batches` say what is wrong with it, if anything is.
"""

import tidelog.kernel.primitives as primitives
from tidelog.kernel.primitives import Buffer

SmallProduce = tuple[bytes, int, int, int, int, int, int, int]

_LEAST_FRAME_BYTES = 4 + 10 + 1 + 1 + 6 + 1 + 2 + 1 + 4 + 1 + 61 + 3
_LEAST_RECORD_BYTES = 7
_ZSTD = 4


def scan_produces(buf: Buffer, pos: int, end: int, largest: int) -> tuple[list[SmallProduce], int]:
    """The run of frames of at most `largest` bytes that begins at `pos`, and where it stops.

    A frame is told as (place, correlation id, acks, start, stop, records, max timestamp, producer id): its batch lies from
    `start` to `stop`, and `place` is the name of the topic with its length, the count of one partition and the index, in
    the bytes in which an answer repeats them.
    """
    view = primitives.view(buf)
    data = primitives.start(view)
    found: list[SmallProduce] = []
    if pos < 0 or end > primitives.length(view):
        return found, pos
    while end - pos >= _LEAST_FRAME_BYTES:
        size = primitives.i32(data, pos)
        stop = pos + 4 + size
        if size < _LEAST_FRAME_BYTES - 4 or size > largest - 4 or stop > end:
            break
        if primitives.i16(data, pos + 4) != 0:
            break
        version = primitives.i16(data, pos + 6)
        if version < 9 or version > 12:
            break
        correlation_id = primitives.i32(data, pos + 8)
        at = primitives.i16(data, pos + 12)
        at = pos + 14 + (at if at > 0 else 0)
        # tags and transactional id, acks, timeout, count of topics, length of the name
        if at + 10 > stop or data[at] != 0 or data[at + 1] != 0 or data[at + 8] != 2:
            break
        acks = primitives.i16(data, at + 2)
        if acks < -1 or acks > 1:
            break
        place = at + 9
        at = data[place]
        if at < 2 or at > 127:  # names of 1 to 126 bytes
            break
        at += place
        # count of partitions, index, and two bytes at least of the length of the batch
        if at + 7 > stop or data[at] != 2:
            break
        batch = at + 5
        # The length of a batch is one to three bytes here, and ends with the first below 128.
        length = data[batch] & 127
        if data[batch] > 127:
            batch += 1
            length += (data[batch] & 127) << 7
            if data[batch] > 127:
                batch += 1
                if batch >= stop or data[batch] > 127:
                    break
                length += data[batch] << 14
        batch += 1
        length -= 1
        if length < 61 or batch + length + 3 != stop:
            break
        if data[stop - 3] != 0 or data[stop - 2] != 0 or data[stop - 1] != 0:  # tags
            break
        count = _records(data, batch, length)
        if count == 0:
            break
        found.append(
            (
                primitives.copy(data, place, at + 5),
                correlation_id,
                acks,
                batch,
                batch + length,
                count,
                primitives.i64(data, batch + 35),
                primitives.i64(data, batch + 43),
            )
        )
        pos = stop
    return found, pos


def _records(data: primitives.Data, pos: int, length: int) -> int:
    """How many records the batch at `pos` has; 0 if it is not as everybody's are."""
    count = primitives.i32(data, pos + 57)
    attributes = primitives.i16(data, pos + 21)
    if (
        primitives.i32(data, pos + 8) != length - 12
        or primitives.i8(data, pos + 16) != 2
        or attributes < 0
        or attributes > _ZSTD
        or (
            primitives.i64(data, pos + 43) >= 0  # producer id; then epoch and sequence belong to it
            and (primitives.i16(data, pos + 51) < 0 or primitives.i32(data, pos + 53) < 0)
        )
        or count < 1
        or primitives.i32(data, pos + 23) != count - 1  # last offset delta
        or (attributes == 0 and count > (length - 61) // _LEAST_RECORD_BYTES)
    ):
        return 0
    crc = primitives.u32(data, pos + 17)
    return count if primitives.checksum(data, pos + 21, pos + length, 0) == crc else 0
