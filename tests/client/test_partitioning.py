"""The partition of a key is the one that Kafka's other clients choose."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as their_murmur2

from tidelog.client.partitioning import next_sticky, partition_of
from tidelog.kernel import murmur2


@given(st.binary(max_size=100))
def test_murmur2_is_theirs(data: bytes) -> None:
    assert murmur2(data) == their_murmur2(data) & 0xFFFFFFFF


@pytest.mark.parametrize(
    ("key", "hashed"),
    # The vectors of UtilsTest.testMurmur2 of Apache Kafka.
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_of_the_java_client(key: bytes, hashed: int) -> None:
    assert murmur2(key) == hashed & 0xFFFFFFFF
    assert partition_of(key, 7) == (hashed & 0x7FFFFFFF) % 7


def test_a_memoryview_is_hashed_as_its_bytes() -> None:
    assert murmur2(memoryview(b"xfoobar")[1:]) == murmur2(b"foobar")


def test_sticky_partitions_change() -> None:
    assert next_sticky(range(1), 0) == 0
    for last in range(3):
        assert {next_sticky(range(3), last) for _ in range(50)} == {0, 1, 2} - {last}
