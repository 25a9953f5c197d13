"""Segments read by other people's parsers: they are plain v2 batches."""

import os

import pytest
from kafka.record.memory_records import MemoryRecords

from tidelog.records.compression import Codec


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.LZ4, Codec.SNAPPY, Codec.ZSTD])
def test_kafka_python_reads_our_segments(bench, codec):
    log = bench.open(segment_bytes=2000)
    values = [os.urandom(40) for _ in range(60)]
    for first in range(0, 60, 3):
        bench.append(log, values[first : first + 3], codec=codec, epoch=first // 20)
    found = []
    for segment in log.segments:
        with open(segment.path, "rb") as file:
            records = MemoryRecords(file.read())
        while records.has_next():
            batch = records.next_batch()
            assert batch.validate_crc()
            found += [(each.offset, bytes(each.value), each.timestamp) for each in batch]
    assert found == [(i, value, bench.clock.now_ms()) for i, value in enumerate(values)]


def test_aiokafka_reads_our_segments(bench):
    aiokafka = pytest.importorskip("aiokafka.record.memory_records")
    log = bench.open()
    bench.append(log, [b"a", b"b"])
    bench.append(log, [b"c"])
    with open(log.segments[0].path, "rb") as file:
        records = aiokafka.MemoryRecords(file.read())
    found = []
    while records.has_next():
        batch = records.next_batch()
        assert batch.validate_crc()
        found += [(each.offset, each.value) for each in batch]
    assert found == [(0, b"a"), (1, b"b"), (2, b"c")]
