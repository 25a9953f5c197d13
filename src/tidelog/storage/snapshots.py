"""Producer snapshots in Kafka's format, one `<offset>.snapshot` file for the state below that offset.

| version int16 = 1 | crc32c uint32 of what follows | count int32 |
then for each producer
| id int64 | epoch int16 | last sequence int32 | last offset int64 | offset delta int32 | timestamp int64 |
| coordinator epoch int32 | first offset of its open transaction int64, or -1 |
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from tidelog.kernel import crc32c

_HEAD = struct.Struct(">hIi")
_ENTRY = struct.Struct(">qhiqiqiq")
_VERSION = 1
_CHECKED_FROM = 6  # the CRC covers everything after itself


class CorruptSnapshot(Exception):
    """The snapshot cannot be used; an older one, or the log itself, has to do."""


class SnapshotEntry(NamedTuple):
    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    """-1 when only markers are known of the producer."""
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    transaction_first_offset: int


def encode_snapshot(entries: Sequence[SnapshotEntry]) -> bytes:
    body = b"".join(_ENTRY.pack(*each) for each in entries)
    data = bytearray(_HEAD.pack(_VERSION, 0, len(entries)) + body)
    struct.pack_into(">I", data, 2, crc32c(memoryview(data)[_CHECKED_FROM:]))
    return bytes(data)


def decode_snapshot(data: bytes) -> list[SnapshotEntry]:
    if len(data) < _HEAD.size:
        raise CorruptSnapshot(f"only {len(data)} bytes")
    version, crc, count = _HEAD.unpack_from(data)
    if version != _VERSION:
        raise CorruptSnapshot(f"version {version} is not known")
    if len(data) != _HEAD.size + count * _ENTRY.size:
        raise CorruptSnapshot(f"{len(data)} bytes do not hold {count} producers")
    if crc32c(memoryview(data)[_CHECKED_FROM:]) != crc:
        raise CorruptSnapshot("its CRC is wrong")
    return [
        SnapshotEntry(*_ENTRY.unpack_from(data, _HEAD.size + i * _ENTRY.size)) for i in range(count)
    ]
