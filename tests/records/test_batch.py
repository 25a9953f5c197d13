import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.errors import CorruptMessage, InvalidRecord, UnsupportedCompressionType
from tidelog.kernel import check_batch
from tidelog.records import Codec, build_batch, iterate_batches, parse_header, read_records
from tidelog.records.batch import MAX_RECORDS, first_not_older
from tidelog.records.builder import assemble
from tidelog.records.compression import compress

ROWS = [(1000, b"k", b"v", ()), (990, None, b"", (("h", None), ("h", b"2")))]


def test_what_follows_from_a_header():
    batch = build_batch(
        ROWS,
        base_offset=50,
        producer_id=0,
        producer_epoch=1,
        base_sequence=2**31 - 1,
        transactional=True,
        codec=Codec.GZIP,
    )
    header = parse_header(b"abc" + batch, 3)
    assert (header.last_offset, header.size, header.count) == (51, len(batch), 2)
    assert header.codec is Codec.GZIP
    assert header.is_transactional
    assert header.has_producer
    assert not header.is_control
    assert not header.is_log_append_time
    assert not header.has_delete_horizon
    assert header.last_sequence == 0  # numbers go on from 0
    assert (header.base_timestamp, header.max_timestamp) == (1000, 1000)
    assert parse_header(build_batch(ROWS)).last_sequence == -1


def test_records_keep_the_difference_of_null_and_empty():
    first, second = read_records(build_batch(ROWS, base_offset=5))
    assert first == (5, 1000, b"k", b"v", ())
    assert second == (6, 990, None, b"", (("h", None), ("h", b"2")))


def test_batches_with_gaps_and_without_records():
    batch = build_batch(
        ROWS, base_offset=10, offset_deltas=[1, 4], last_offset_delta=7, codec=Codec.LZ4
    )
    assert [record.offset for record in read_records(batch)] == [11, 14]
    assert parse_header(batch).last_offset == 17
    for codec in Codec:
        empty = build_batch(
            [], base_offset=10, last_offset_delta=7, codec=codec, producer_id=4, max_timestamp=99
        )
        assert read_records(empty) == []
        assert check_batch(empty, 0, len(empty)) == parse_header(empty)
        assert (parse_header(empty).last_offset, parse_header(empty).max_timestamp) == (17, 99)


def test_a_delete_horizon_leaves_the_times_of_records_alone():
    batch = build_batch(ROWS, delete_horizon_ms=123_456)
    header = parse_header(batch)
    assert header.has_delete_horizon
    assert header.base_timestamp == 123_456
    assert [record.timestamp for record in read_records(batch)] == [1000, 990]


def test_deltas_must_be_as_many_as_records():
    with pytest.raises(ValueError):
        build_batch(ROWS, offset_deltas=[1])


def test_iterating_stops_before_a_batch_that_is_cut_off():
    first, second = build_batch(ROWS), build_batch(ROWS, base_offset=2, codec=Codec.ZSTD)
    whole = first + second
    assert [pos for pos, _ in iterate_batches(whole)] == [0, len(first)]
    for cut in (1, len(second) - 1, len(second)):
        assert [pos for pos, _ in iterate_batches(memoryview(whole)[: len(whole) - cut])] == [0]


def test_damaged_headers_are_corrupt():
    batch = build_batch(ROWS)
    for broken in (
        b"",
        batch[:60],
        batch[:16] + b"\1" + batch[17:],
        batch[:8] + bytes(4) + batch[12:],
    ):
        with pytest.raises(CorruptMessage):
            parse_header(broken)
    with pytest.raises(CorruptMessage, match="cut off"):
        read_records(batch[:-1])


def test_an_unknown_codec_is_refused():
    batch = build_batch(ROWS)
    batch[22] |= 7
    with pytest.raises(UnsupportedCompressionType):
        read_records(batch)


def test_a_forged_count_is_refused_before_anything_is_made():
    batch = build_batch(ROWS, codec=Codec.ZSTD)
    forged = assemble(parse_header(batch)._replace(count=2**31 - 1), batch[61:])
    with pytest.raises(InvalidRecord, match="cannot fit"):
        read_records(forged)


@given(
    codec=st.sampled_from(Codec),
    changes=st.lists(st.tuples(st.integers(0), st.integers(0, 255)), min_size=1, max_size=4),
)
def test_damaged_batches_raise_our_errors_only(codec, changes):
    batch = build_batch([(1, b"key", b"value" * 50, ())] * 5, codec=codec)
    for place, byte in changes:
        batch[place % len(batch)] = byte
    with contextlib.suppress(CorruptMessage, InvalidRecord, UnsupportedCompressionType):
        read_records(batch, limit_bytes=100_000)


def test_more_records_than_anyone_sends_are_not_looked_into():
    body = bytes.fromhex("0c0000000100 00") * (MAX_RECORDS + 1)
    header = parse_header(build_batch(ROWS))._replace(
        attributes=int(Codec.ZSTD), count=MAX_RECORDS + 1, last_offset_delta=MAX_RECORDS
    )
    batch = assemble(header, compress(Codec.ZSTD, body))
    with pytest.raises(InvalidRecord, match="are the most"):
        read_records(batch)


@given(
    times=st.lists(st.integers(0, 50), min_size=1, max_size=20),
    target=st.integers(0, 60),
    start=st.integers(0, 25),
    codec=st.sampled_from(Codec),
    appended=st.booleans(),
)
def test_the_first_record_that_is_not_older(times, target, start, codec, appended):
    rows = [(time, None, b"v", ()) for time in times]
    batch = build_batch(rows, base_offset=5, codec=codec, log_append_time=30 if appended else None)
    expected = next(
        (
            (record.timestamp, record.offset)
            for record in read_records(batch)
            if record.timestamp >= target and record.offset >= start
        ),
        None,
    )
    assert first_not_older(batch, 0, target, from_offset=start) == expected
