"""What of a fetch is sent on, and as what."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.client.batch import ReadyBatch
from tidelog.client.decoding import Chunk, decode_chunk
from tidelog.mirror.passing import SMALL_BYTES, pass_on
from tidelog.names import TopicPartition
from tidelog.records import Codec
from tidelog.records.batch import parse_header, read_records
from tidelog.records.builder import build_batch

PLACE = TopicPartition("t", 0)
BIG = b"x" * SMALL_BYTES


def chunk(*batches: bytearray, start: int = 0, aborted=None) -> Chunk:
    return Chunk(PLACE, start, memoryview(bytes(b"".join(batches))), aborted, 1_000)


def rows(found):
    return [
        (r.timestamp, r.key, r.value, r.headers) for each in found for r in read_records(each.data)
    ]


def test_a_large_batch_goes_on_byte_for_byte() -> None:
    batch = build_batch(
        [(5, bytes(str(n), "ascii"), bytes(str(n * 7919), "ascii") * 20, ()) for n in range(900)],
        base_offset=7,
    )
    [found] = pass_on(chunk(batch, start=7))
    assert (found.data, found.first, found.end, found.count, found.rebuilt) == (
        batch,
        7,
        907,
        900,
        False,
    )


def test_small_neighbours_travel_together_and_a_lone_one_as_it_is() -> None:
    small = [build_batch([(n, None, b"v%d" % n, ())], base_offset=n) for n in range(3)]
    [found] = pass_on(chunk(*small))
    assert (found.count, found.first, found.end, found.rebuilt) == (3, 0, 3, True)
    [found] = pass_on(chunk(small[0]))
    assert found.data == small[0]


@pytest.mark.parametrize(
    ("batch", "start"),
    [
        (
            build_batch(
                [(1, b"a", b"1", ()), (2, b"b", BIG, ())], offset_deltas=[0, 5], last_offset_delta=9
            ),
            0,
        ),
        (build_batch([(1, b"a", b"1", ()), (2, b"b", BIG, ())], log_append_time=77), 0),
        (build_batch([(1, b"a", b"1", ()), (2, b"b", BIG, ())], delete_horizon_ms=99), 0),
        (build_batch([(1, b"a", b"1", ()), (2, b"b", BIG, ())], codec=Codec.GZIP), 1),
    ],
    ids=["gaps", "broker's time", "delete horizon", "asked from the middle"],
)
def test_what_no_producer_may_send_is_built_anew(batch: bytearray, start: int) -> None:
    seen = decode_chunk(chunk(batch, start=start))
    [found] = pass_on(chunk(batch, start=start))
    assert found.rebuilt
    assert rows([found]) == [(m.timestamp, m.key, m.value, tuple(m.headers)) for m in seen]
    assert found.end == parse_header(batch).last_offset + 1
    ReadyBatch(PLACE, 0, 0, found.data)  # which refuses what a broker would


def test_a_producer_refuses_batches_that_a_broker_would() -> None:
    gaps = build_batch([(1, b"a", b"1", ())], last_offset_delta=9)
    with pytest.raises(ValueError, match="gaps"):
        ReadyBatch(PLACE, 0, 0, gaps)


def test_a_ready_batch_is_numbered_and_keeps_its_codec() -> None:
    batch = build_batch([(3, b"k", BIG, ())] * 4, base_offset=9, codec=Codec.ZSTD)
    ready = ReadyBatch(PLACE, 0, 0, batch)
    ready.number(Codec.NONE, 12, 3, 40, transactional=True)
    header = parse_header(ready.data)
    assert (header.codec, header.producer_id, header.producer_epoch, header.base_sequence) == (
        Codec.ZSTD,
        12,
        3,
        40,
    )
    assert header.is_transactional
    assert [r.value for r in read_records(ready.data)] == [BIG] * 4


record = st.tuples(
    st.integers(0, 100), st.none() | st.binary(max_size=3), st.binary(max_size=9), st.just(())
)


@given(
    st.lists(
        st.tuples(
            st.lists(record, min_size=1, max_size=5),
            st.sampled_from([Codec.NONE, Codec.GZIP]),
            st.integers(0, 3),
        ),
        max_size=8,
    ),
    st.integers(0, 20),
    st.booleans(),
)
def test_everything_that_a_reader_would_see_is_passed_on_in_order(
    parts, start, with_header
) -> None:
    batches, offset = [], 0
    for records, codec, gap in parts:
        batches.append(
            build_batch(
                records, base_offset=offset, codec=codec, last_offset_delta=len(records) - 1 + gap
            )
        )
        offset += len(records) + gap
    seen = decode_chunk(chunk(*batches, start=start))
    found = pass_on(chunk(*batches, start=start), "o" if with_header else None)
    headers = [((("o", b"%d" % m.offset),) if with_header else ()) for m in seen]
    assert rows(found) == [
        (m.timestamp, m.key, m.value, h) for m, h in zip(seen, headers, strict=True)
    ]
    assert sum(each.count for each in found) == len(seen)
