"""Building a batch from records."""

from collections.abc import Iterable, Sequence
from typing import Any

from tidelog.kernel import crc32c, encode_records
from tidelog.kernel.primitives import Buffer
from tidelog.records.batch import (
    CONTROL,
    DELETE_HORIZON,
    HEADER,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
)
from tidelog.records.compression import Codec, compress

NewRecord = tuple[int, Any, Any, Iterable[tuple[str, Any]]]
"""Timestamp in ms, key, value, headers."""

_CRC_STARTS = 21
"""The CRC covers everything from the attributes on."""


def build_batch(
    records: Iterable[NewRecord],
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    offset_deltas: Sequence[int] | None = None,
    last_offset_delta: int | None = None,
    log_append_time: int | None = None,
    delete_horizon_ms: int | None = None,
    max_timestamp: int | None = None,
) -> bytearray:
    """One batch of `(timestamp_ms, key, value, headers)`.

    `offset_deltas` and `last_offset_delta` are for batches with gaps, as compaction leaves them; without any record
    the batch only keeps the producer's place.  `log_append_time` is then every record's time.
    """
    rows = list(records)
    if offset_deltas is not None and len(offset_deltas) != len(rows):
        raise ValueError(f"{len(rows)} records have {len(offset_deltas)} offset deltas")
    attributes = int(codec)
    base_timestamp = rows[0][0] if rows else NO_TIMESTAMP
    if max_timestamp is None:
        max_timestamp = max((row[0] for row in rows), default=NO_TIMESTAMP)
    if transactional:
        attributes |= TRANSACTIONAL
    if control:
        attributes |= CONTROL
    if log_append_time is not None:
        attributes |= LOG_APPEND_TIME
        max_timestamp = log_append_time
    if delete_horizon_ms is not None:
        attributes |= DELETE_HORIZON
        base_timestamp = delete_horizon_ms
    if last_offset_delta is None:
        last_offset_delta = (offset_deltas[-1] if offset_deltas else len(rows) - 1) if rows else 0
    body: Buffer = encode_records(rows, base_timestamp, offset_deltas) if rows else b""
    if rows:
        body = compress(codec, body, level)
    header = BatchHeader(
        base_offset=base_offset,
        length=0,
        leader_epoch=leader_epoch,
        magic=2,
        crc=0,
        attributes=attributes,
        last_offset_delta=last_offset_delta,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        count=len(rows),
    )
    return assemble(header, body)


def assemble(header: BatchHeader, body: Buffer) -> bytearray:
    """A whole batch of this header and these (already compressed) records; length and CRC are set anew."""
    out = bytearray(HEADER_BYTES)
    out += body
    write_header(out, 0, header._replace(length=len(out) - LOG_OVERHEAD))
    return out


def write_header(buf: bytearray | memoryview, pos: int, header: BatchHeader) -> BatchHeader:
    """Write the header of the whole batch at `pos`, with the CRC that its bytes then have; returns it."""
    HEADER.pack_into(buf, pos, *header)
    with memoryview(buf) as view:
        crc = crc32c(view[pos + _CRC_STARTS : pos + header.size])
    sealed = header._replace(crc=crc)
    HEADER.pack_into(buf, pos, *sealed)
    return sealed
