"""From the bytes of a fetch to Arrow: the same records as messages show, and only what was asked for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.client.arrow import COLUMNS, Bounds, Layout, layout_of, pa, record_batches, to_table
from tidelog.client.decoding import Chunk, decode_chunk
from tidelog.errors import CorruptMessage, InvalidRecord, SettingsError
from tidelog.names import TopicPartition
from tidelog.records import Codec, build_batch
from tidelog.records.control import EndTransactionMarker

TP = TopicPartition("t", 3)
EVERYTHING = Layout(COLUMNS)

maybe_bytes = st.none() | st.binary(max_size=50)
batches = st.lists(
    st.tuples(
        st.lists(
            st.tuples(
                st.integers(0, 2**45),
                maybe_bytes,
                maybe_bytes,
                st.lists(st.tuples(st.text(max_size=4), maybe_bytes), max_size=2).map(tuple),
            ),
            min_size=1,
            max_size=8,
        ),
        st.sampled_from(list(Codec)),
        st.sampled_from([None, 77]),
        st.sampled_from(["plain", "committed", "aborted"]),
        st.integers(0, 3),
    ),
    max_size=6,
)


def marker(base: int, producer: int, commit: bool) -> bytes:
    made = EndTransactionMarker(commit=commit, coordinator_epoch=0)
    return bytes(
        made.build(producer_id=producer, producer_epoch=0, timestamp_ms=1, base_offset=base)
    )


def rows_of(chunk: Chunk, layout: Layout = EVERYTHING, **options: object) -> list[dict]:
    found = list(record_batches(chunk, layout, **options))  # type: ignore[arg-type]
    for batch in found:
        batch.validate(full=True)
        assert batch.schema.equals(layout.schema)
        assert batch.num_rows
    return to_table(found, layout).to_pylist()


@given(
    made=batches,
    first=st.integers(0, 40),
    stop=st.integers(0, 60),
    committed_only=st.booleans(),
    max_rows=st.sampled_from([1, 3, 1000]),
    cut=st.integers(0, 30),
)
def test_the_same_records_as_messages_show(made, first, stop, committed_only, max_rows, cut):
    data, aborted, offset = b"", [], 0
    for producer, (rows, codec, append_time, kind, gap) in enumerate(made):
        offset += gap
        numbered = kind != "plain"
        data += build_batch(
            rows,
            base_offset=offset,
            codec=codec,
            log_append_time=append_time,
            transactional=numbered,
            producer_id=producer if numbered else -1,
            producer_epoch=0 if numbered else -1,
            base_sequence=0 if numbered else -1,
        )
        if kind == "aborted":
            aborted.append((producer, offset))
        offset += len(rows)
        if numbered:
            data += marker(offset, producer, kind == "committed")
            offset += 1
    hidden = tuple(aborted) if committed_only else None
    chunk = Chunk(TP, first, memoryview(bytes(data[: len(data) - cut])), hidden, -1)
    messages = [each for each in decode_chunk(chunk) if each.offset < stop]
    found = rows_of(chunk, bounds=Bounds(stop=stop), max_rows=max_rows, max_bytes=200)
    assert [
        (
            row["topic"],
            row["partition"],
            row["offset"],
            round(row["timestamp"].timestamp() * 1000),
            row["key"],
            row["value"],
            tuple((each["key"], each["value"]) for each in row["headers"]),
        )
        for row in found
    ] == [tuple(each) for each in messages]


def plain(base: int, count: int = 3, **options: object) -> bytes:
    rows = [(1000 + base + place, None, b"%d" % (base + place), ()) for place in range(count)]
    return bytes(build_batch(rows, base_offset=base, **options))  # type: ignore[arg-type]


def chunk_of(data: bytes, first: int = 0) -> Chunk:
    return Chunk(TP, first, memoryview(data), None, -1)


def test_the_columns_come_as_they_are_asked_for() -> None:
    layout = Layout(("value", "timestamp", "partition"), "us")
    (batch,) = record_batches(chunk_of(plain(0)), layout)
    assert batch.schema == pa.schema(
        [
            ("value", pa.binary()),
            ("timestamp", pa.timestamp("us", "UTC")),
            ("partition", pa.int32()),
        ]
    )
    assert batch.column("value").to_pylist() == [b"0", b"1", b"2"]
    assert batch.column("timestamp").cast(pa.int64()).to_pylist() == [1000_000, 1001_000, 1002_000]
    assert batch.column("partition").to_pylist() == [3, 3, 3]


def test_no_columns_are_rows_all_the_same() -> None:
    (batch,) = record_batches(chunk_of(plain(0)), Layout(("partition",)))
    assert batch.num_rows == 3


def test_bounds_hold_row_by_row() -> None:
    chunk = chunk_of(plain(0) + plain(3, codec=Codec.ZSTD) + plain(6))
    layout = Layout(("offset",))
    ask = [row["offset"] for row in rows_of(chunk, layout, bounds=Bounds(first=1, stop=5))]
    assert ask == [1, 2, 3, 4]
    by_time = Bounds(oldest_ms=1002, until_ms=1007)
    assert [row["offset"] for row in rows_of(chunk, layout, bounds=by_time)] == [2, 3, 4, 5, 6]


def test_batches_outside_of_the_bounds_are_not_unfolded() -> None:
    damaged = bytearray(plain(3, codec=Codec.LZ4))
    damaged[70:] = bytes(len(damaged) - 70)
    data = plain(0) + bytes(damaged) + plain(6)
    for bounds in (Bounds(stop=3), Bounds(first=6), Bounds(oldest_ms=1006)):
        assert len(rows_of(chunk_of(data), bounds=bounds, check_crcs=False)) == 3
    with pytest.raises(InvalidRecord, match="t-3: the batch's lz4 data is damaged"):
        rows_of(chunk_of(data), check_crcs=False)


def test_damage_names_its_place() -> None:
    data = bytearray(plain(5))
    data[-1] ^= 1
    with pytest.raises(CorruptMessage, match="t-3: the batch at offset 5 is damaged"):
        rows_of(chunk_of(bytes(data)))


def test_many_small_batches_become_one_and_a_large_one_several() -> None:
    small = chunk_of(b"".join(plain(place, 1) for place in range(100)))
    assert [each.num_rows for each in record_batches(small, EVERYTHING)] == [100]
    large = chunk_of(plain(0, 10))
    sizes = [each.num_rows for each in record_batches(large, EVERYTHING, max_rows=4)]
    assert sizes == [4, 4, 2]


def test_the_buffers_are_not_copied() -> None:
    before = pa.total_allocated_bytes()
    (batch,) = record_batches(chunk_of(plain(0, 1000)), Layout(("offset", "key", "value")))
    assert batch.get_total_buffer_size() > 10_000
    assert pa.total_allocated_bytes() == before


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        (["offset", "valeu"], "no column 'valeu'"),
        (["key", "key"], "named twice"),
        ("value", r"must be a list, as in columns=\['value'\]"),
    ],
)
def test_wrong_columns_are_told(columns: list[str], told: str) -> None:
    with pytest.raises(SettingsError, match=told):
        layout_of(columns, COLUMNS)
    with pytest.raises(SettingsError, match="unit"):
        Layout(unit="ns")
