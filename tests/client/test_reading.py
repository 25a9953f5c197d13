"""`tidelog.read`, `tidelog.scan`, `read_arrow` and `PartitionReader` against a real broker."""

import inspect
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import duckdb
import polars
import pyarrow as pa
import pytest

import tidelog
from tidelog import Admin, Consumer, Producer, TopicPartition, aio
from tidelog.client.reading import PartitionReader
from tidelog.errors import (
    KafkaError,
    OffsetOutOfRange,
    RequestTimedOut,
    SettingsError,
    UnknownTopicOrPartition,
)

START = 1_700_000_000_000
"""The time of each partition's first record; one follows every second."""


@pytest.fixture(scope="module")
def orders(bootstrap: str, admin: Admin) -> str:
    """Three partitions: a hundred records, fifty, and none."""
    name = f"orders-{time.time_ns()}"
    admin.create_topics({name: 3})
    for partition, count, codec in ((0, 100, "lz4"), (1, 50, "none")):
        with Producer(
            bootstrap_servers=bootstrap, compression_type=codec, batch_size=1000
        ) as producer:
            for number in range(count):
                producer.send(
                    name,
                    b"value %d" % number,
                    key=b"key %d" % (number % 7) if number % 3 else None,
                    headers={"n": b"%d" % number} if number % 2 else (),
                    timestamp=START + 1000 * number,
                    partition=partition,
                )
    return name


@pytest.fixture
def read(bootstrap: str, orders: str) -> Callable[..., pa.Table]:
    return lambda **question: tidelog.read(orders, bootstrap=bootstrap, **question)


def places(table: pa.Table) -> list[tuple[int, int]]:
    columns = (table.column(name).to_pylist() for name in ("partition", "offset"))
    return list(zip(*columns, strict=True))


def test_everything_in_order(read: Callable[..., pa.Table]) -> None:
    table = read()
    table.validate(full=True)
    assert table.column_names == ["partition", "offset", "timestamp", "key", "value", "headers"]
    assert places(table) == [(0, n) for n in range(100)] + [(1, n) for n in range(50)]
    row = table.slice(107, 1).to_pylist()[0]
    assert row == {
        "partition": 1,
        "offset": 7,
        "timestamp": datetime.fromtimestamp(START / 1000 + 7, UTC),
        "key": b"key 0",
        "value": b"value 7",
        "headers": [{"key": "n", "value": b"7"}],
    }


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ({"since": START + 98_000}, {0: range(98, 100)}),
        ({"since": START + 47_500, "until": START + 49_500}, {0: range(48, 50), 1: range(48, 50)}),
        ({"until": datetime.fromtimestamp(START / 1000 + 2, UTC)}, {0: range(2), 1: range(2)}),
        ({"until": "2023-11-14T22:13:21+00:00"}, {0: range(1), 1: range(1)}),
        ({"until": "1000w", "since": "2000w"}, {}),
        ({"until": timedelta(days=7000)}, {}),
        ({"since": {0: 95}, "partitions": [0]}, {0: range(95, 100)}),
        ({"since": {0: 95}}, {0: range(95, 100), 1: range(50)}),
        ({"since": "offset:45", "until": "offset:47"}, {0: range(45, 47), 1: range(45, 47)}),
        ({"since": "offset:70"}, {0: range(70, 100)}),
        ({"until": {0: 1_000_000, 1: 3}}, {0: range(100), 1: range(3)}),
        ({"since": "offset:5", "until": "offset:2"}, {}),
        ({"since": "now"}, {}),
        ({"partitions": 1, "until": "offset:2"}, {1: range(2)}),
        ({"partitions": [2]}, {}),
    ],
)
def test_bounds(read: Callable[..., pa.Table], question: dict, expected: dict) -> None:
    found = places(read(columns=["partition", "offset"], **question))
    assert found == [(part, offset) for part, offsets in expected.items() for offset in offsets]


def test_a_limit(read: Callable[..., pa.Table]) -> None:
    assert read(limit=0).num_rows == 0
    assert read(limit=7).num_rows == 7
    assert places(read(limit=7, partitions=1)) == [(1, n) for n in range(7)]
    assert read(limit=10_000).num_rows == 150


def test_nothing_still_has_its_schema(read: Callable[..., pa.Table]) -> None:
    assert read(partitions=2).schema == read().schema


def test_pandas_polars_and_duckdb_are_one_call_away(read: Callable[..., pa.Table]) -> None:
    found = read()
    frame = found.to_pandas()
    assert frame["value"].iloc[3] == b"value 3"
    assert frame.groupby("partition").size().to_dict() == {0: 100, 1: 50}
    lazy = polars.from_arrow(found).with_columns(polars.col("value").cast(polars.String))
    assert lazy.filter(polars.col("value") == "value 99").height == 1
    counted = duckdb.sql(
        "select partition, count(*), count(key), max(timestamp) from found group by 1 order by 1"
    ).fetchall()
    assert [row[:3] for row in counted] == [(0, 100, 66), (1, 50, 33)]


def test_a_scan_goes_to_duckdb_without_a_table(bootstrap: str, orders: str) -> None:
    stream = tidelog.scan(orders, bootstrap=bootstrap, columns=["value", "offset"])
    assert isinstance(stream, pa.RecordBatchReader)
    assert duckdb.sql('select sum("offset"), count(*) from stream').fetchall() == [(6175, 150)]


def test_a_scan_that_is_left_lets_go(bootstrap: str, orders: str) -> None:
    stream = tidelog.scan(orders, bootstrap=bootstrap)
    assert stream.read_next_batch().num_rows
    del stream
    with tidelog.scan(orders, bootstrap=bootstrap) as stream:
        stream.read_next_batch()


async def test_the_async_twins(bootstrap: str, orders: str) -> None:
    table = await aio.read(orders, bootstrap=bootstrap, since={0: 98}, partitions=[0, 2])
    assert places(table) == [(0, 98), (0, 99)]
    rows = 0
    async for batch in aio.scan(orders, bootstrap=bootstrap, limit=120):
        rows += batch.num_rows
    assert rows == 120
    async with aio.Consumer(
        bootstrap_servers=bootstrap, topics=orders, auto_offset_reset="earliest"
    ) as consumer:
        assert (await consumer.read_arrow(30, timeout=60)).num_rows <= 30
        async for batch in consumer.arrow_batches(columns=["value"]):
            assert batch.schema.names == ["value"]
            break
    with pytest.raises(UnknownTopicOrPartition, match="no topic 'nothing-here'"):
        await aio.read("nothing-here", bootstrap=bootstrap)


def test_the_signature_is_the_questions() -> None:
    names = list(inspect.signature(tidelog.read).parameters)
    assert names[:5] == ["topic", "since", "until", "partitions", "limit"]
    assert "isolation" in (tidelog.scan.__doc__ or "")


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ({"since": "yesterday"}, "since: 'yesterday' is no time"),
        ({"until": object()}, "until: .* is no time"),
        ({"since": 500}, r"since=500 would be 500 ms after 1970; .*'offset:500'"),
        ({"since": "offset:x"}, "must have a number"),
        ({"since": {7: 1}}, "partition 7"),
        ({"since": {0: -1}}, "no offset -1"),
        ({"limit": -1}, "limit=-1"),
        ({"columns": ["valeu"]}, "no column 'valeu'; there are topic, partition"),
        ({"isolation": "committed"}, "isolation.level"),
        ({"fetch_max_byte": 1}, "fetch.max.bytes is"),
    ],
)
def test_a_question_that_makes_no_sense_is_told(
    read: Callable[..., pa.Table], question: dict, told: str
) -> None:
    with pytest.raises(SettingsError, match=told):
        read(**question)


def test_what_is_not_there_is_told(read: Callable[..., pa.Table], bootstrap: str) -> None:
    with pytest.raises(UnknownTopicOrPartition, match="partitions 0 to 2, not 9"):
        read(partitions=[0, 9])
    with pytest.raises(UnknownTopicOrPartition, match="no topic 'nothing-here'"):
        tidelog.read("nothing-here", bootstrap=bootstrap)
    with pytest.raises(KafkaError, match=r"127\.0\.0\.1:1"):
        tidelog.scan("t", bootstrap="127.0.0.1:1", retry_backoff_ms=1)


def test_without_pyarrow_the_cure_is_told() -> None:
    code = "import sys; sys.modules['pyarrow'] = None; import tidelog; tidelog.read('t')"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.stderr.rstrip().endswith("pip install 'tidelog[arrow]'")


def test_the_times_of_records_decide_where_they_are_out_of_order(
    bootstrap: str, topic: str
) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        for second in (5, 1, 7, 3, 9):
            producer.send(topic, b"%d" % second, partition=0, timestamp=START + 1000 * second)
    found = tidelog.read(topic, since=START + 4000, bootstrap=bootstrap, columns=["value"])
    assert found.column("value").to_pylist() == [b"5", b"7", b"9"]


def test_gaps_and_aborted_transactions(
    bootstrap: str, topic: str, admin: Admin, unique: Callable[[str], str]
) -> None:
    with Producer(bootstrap_servers=bootstrap, transactional_id=unique("tx")) as producer:
        for number in range(4):
            producer.begin_transaction()
            producer.send_many(topic, [b"%d" % number] * 3, partition=0)
            producer.flush()
            (producer.abort_transaction if number % 2 else producer.commit_transaction)()
    admin.delete_records({TopicPartition(topic, 0): 2})
    ask = {"bootstrap": bootstrap, "columns": ["offset", "value"], "partitions": 0}
    every = tidelog.read(topic, **ask)
    assert every.column("offset").to_pylist() == [2, 4, 5, 6, 8, 9, 10, 12, 13, 14]
    committed = tidelog.read(topic, isolation="read_committed", **ask)
    assert committed.column("value").to_pylist() == [b"0", b"2", b"2", b"2"]
    assert tidelog.read(topic, since="offset:3", until="offset:4", **ask).num_rows == 0


def test_one_partition_from_here_to_there(bootstrap: str, orders: str, admin: Admin) -> None:
    with PartitionReader(
        orders, 0, 10, 95, bootstrap=bootstrap, columns=("offset",), unit="us"
    ) as reader:
        assert reader.schema.names == ["offset"]
        found = [offset for batch in reader for offset in batch.column("offset").to_pylist()]
    assert found == list(range(10, 95))
    with PartitionReader(orders, 0, 10, 10, bootstrap=bootstrap) as reader:
        assert list(reader) == []
    with pytest.raises(SettingsError, match="start=9 and end=3"):
        PartitionReader(orders, 0, 9, 3, bootstrap=bootstrap)
    with pytest.raises(UnknownTopicOrPartition, match="not 7"):
        PartitionReader(orders, 7, 0, 3, bootstrap=bootstrap)


def test_what_was_deleted_is_told_and_not_skipped(bootstrap: str, topic: str, admin: Admin) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send_many(topic, [b"x"] * 10, partition=0)
    admin.delete_records({TopicPartition(topic, 0): 5})
    with (
        PartitionReader(topic, 0, 2, 10, bootstrap=bootstrap) as reader,
        pytest.raises(OffsetOutOfRange, match=f"deleted.*{topic}-0 has no offset 2"),
    ):
        list(reader)
    assert tidelog.read(topic, since={0: 2}, bootstrap=bootstrap).num_rows == 5


def test_an_end_that_never_comes_is_told(bootstrap: str, topic: str) -> None:
    with (
        PartitionReader(topic, 0, 0, 3, bootstrap=bootstrap, default_api_timeout_ms=100) as reader,
        pytest.raises(RequestTimedOut, match=f"{topic}-0 up to 3"),
    ):
        list(reader)


def test_read_arrow_goes_on_where_it_stopped(bootstrap: str, orders: str) -> None:
    found: list[tuple[int, int]] = []
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        assert consumer.read_arrow(timeout=0.0).schema.names[0] == "topic"
        consumer.assign([(orders, 0), (orders, 1)])
        while len(found) < 150:
            table = consumer.read_arrow(13, timeout=60)
            assert 0 < table.num_rows <= 13
            found += places(table)
            assert all(
                consumer.position(orders, part) == max(o for p, o in found if p == part) + 1
                for part in {part for part, _ in places(table)}
            )
        assert consumer.read_arrow(timeout=0.05).num_rows == 0
    assert sorted(found) == [(0, n) for n in range(100)] + [(1, n) for n in range(50)]


def test_columns_and_messages_may_be_mixed(bootstrap: str, orders: str) -> None:
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([(orders, 0)])
        found = [each.offset for each in consumer.poll(max_records=5, timeout=60)]
        found += consumer.read_arrow(5, timeout=60, columns=["offset"]).column(0).to_pylist()
        for message in consumer:
            found.append(message.offset)
            break
        for batch in consumer.arrow_batches(columns=["value", "offset"]):
            found += batch.column("offset").to_pylist()
            if found[-1] == 99:
                break
    assert found == list(range(100))


def test_a_group_commits_what_it_read_in_columns(
    bootstrap: str, orders: str, unique: Callable[[str], str]
) -> None:
    group = unique("group")
    with Consumer(
        bootstrap_servers=bootstrap, group_id=group, topics=orders, auto_offset_reset="earliest"
    ) as consumer:
        rows = 0
        while rows < 150:
            rows += consumer.read_arrow(timeout=60).num_rows
    with Consumer(bootstrap_servers=bootstrap, group_id=group) as consumer:
        committed = consumer.committed(TopicPartition(orders, 0), TopicPartition(orders, 1))
        assert [each.offset for each in committed.values()] == [100, 50]


@pytest.fixture(scope="module")
def large(bootstrap: str, admin: Admin) -> str:
    """48 MB in three partitions."""
    name = f"large-{time.time_ns()}"
    admin.create_topics({name: 3})
    with Producer(bootstrap_servers=bootstrap) as producer:
        for _ in range(48):
            producer.send_many(name, [bytes(1000)] * 1000)
    return name


MB = 1024 * 1024
SMALL = {"prefetch_max_bytes": 2 * MB, "max_partition_fetch_bytes": MB // 2, "fetch_max_bytes": MB}


def test_a_scan_of_any_size_needs_the_same_memory(bootstrap: str, large: str) -> None:
    tracemalloc.start()
    try:
        rows = sum(each.num_rows for each in tidelog.scan(large, bootstrap=bootstrap, **SMALL))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert rows == 48_000
    # What is fetched ahead, the answer that is coming in, and the rows of one chunk and of the one before.
    assert peak < 8 * MB


def test_a_consumer_holds_no_more_than_its_prefetch(bootstrap: str, large: str) -> None:
    tracemalloc.start()
    try:
        with Consumer(
            bootstrap_servers=bootstrap, topics=large, auto_offset_reset="earliest", **SMALL
        ) as consumer:
            rows, most = 0, 0
            while rows < 48_000:
                rows += len(consumer.poll(max_records=500, timeout=60))
                most = max(most, consumer.core.assignment.buffered_bytes)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # An answer may bring a batch from each partition more than there was room for.
    assert most <= SMALL["prefetch_max_bytes"] + 3 * MB // 2
    assert peak < 8 * MB


def test_a_table_holds_no_more_than_the_prefetch(bootstrap: str, large: str) -> None:
    sizes: list[int] = []
    with Consumer(
        bootstrap_servers=bootstrap, topics=large, auto_offset_reset="earliest", **SMALL
    ) as consumer:
        rows = 0
        while rows < 48_000:
            table = consumer.read_arrow(1_000_000, timeout=60)
            rows += table.num_rows
            sizes.append(table.nbytes)
    assert rows == 48_000
    # The last chunk of a table may go beyond it, by the bytes of one partition in an answer.
    assert max(sizes) <= SMALL["prefetch_max_bytes"] + MB
