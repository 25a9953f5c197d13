"""The source in a real Spark, against a real broker."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from spark_streams import run_to_its_end

from tidelog import Admin, TopicPartition
from tidelog.spark import stream_options

Fill = Callable[..., None]
Read = Callable[..., Any]


@pytest.fixture
def read(spark: SparkSession, bootstrap: str, topic: str) -> Read:
    def reader(**options: str) -> Any:
        made = spark.read.format("tidelog").option("kafka.bootstrap.servers", bootstrap)
        return made.options(
            **({"subscribe": topic} | options if "assign" not in options else options)
        )

    return reader


def numbers(frame: DataFrame) -> list[int]:
    return sorted(int(row.value) for row in frame.select("value").collect())


def test_a_topic_has_the_columns_of_sparks_own_connector(
    read: Read, fill: Fill, topic: str
) -> None:
    fill(range(3), timestamp=1_700_000_000_123)
    frame = read().load()
    assert frame.dtypes == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("timestampType", "int"),
    ]
    row = frame.orderBy("partition", "offset").selectExpr("*", "unix_millis(timestamp) ms").first()
    assert row is not None
    assert (bytes(row.key), bytes(row.value), row.topic) == (b"k0", b"0", topic)
    assert (row.partition, row.offset, row.ms, row.timestampType) == (0, 0, 1_700_000_000_123, 0)


def test_headers_are_null_where_there_are_none(read: Read, fill: Fill) -> None:
    fill(range(1), headers={"h": b"x"})
    fill(range(1, 2))
    rows = read(includeHeaders="true").load().orderBy("partition").collect()
    assert rows[0].headers == [Row(key="h", value=bytearray(b"x"))]
    assert rows[1].headers is None


def test_offsets_splits_and_few_columns(read: Read, fill: Fill, topic: str) -> None:
    fill(range(100))
    some = read(
        assign=json.dumps({topic: [1]}),
        startingOffsets=json.dumps({topic: {"1": 10}}),
        endingOffsets=json.dumps({topic: {"1": 20}}),
        minPartitions="3",
    )
    frame = some.schema("offset bigint, value binary").load()
    assert frame.rdd.getNumPartitions() == 3
    assert [row.offset for row in frame.orderBy("offset").collect()] == list(range(10, 20))
    assert numbers(frame) == list(range(21, 41, 2))


def test_times_become_offsets(read: Read, fill: Fill) -> None:
    for second in range(10):
        fill(range(second, second + 1), partitions=1, timestamp=1_700_000_000_000 + 1000 * second)
    some = read(
        startingTimestamp="1700000004000",
        endingTimestamp="1700000007000",
        startingOffsetsByTimestampStrategy="latest",
    ).load()
    assert numbers(some) == [4, 5, 6]


def test_a_frame_used_twice_is_not_narrowed_by_its_first_use(read: Read, fill: Fill) -> None:
    fill(range(100))
    frame = read().load()
    assert frame.where("partition = 1 and offset >= 45 and offset < 48").count() == 3
    assert frame.where("partition = 1").count() == 50
    assert frame.count() == 100
    with pytest.raises(PySparkException, match="pushdown is not an option any more"):
        read(pushdown="true").load().count()


def test_a_frame_and_a_view_see_what_was_written_since(
    read: Read, fill: Fill, spark: SparkSession, admin: Admin, topic: str
) -> None:
    """Spark plans a batch frame once; Spark's own connector sees new records all the same."""
    frame = read(minPartitions="4").load()
    frame.createOrReplaceTempView("clicks")
    assert frame.count() == 0
    for end in (100, 200):
        fill(range(end - 100, end))
        assert numbers(frame) == list(range(end))
        assert spark.sql("select count(*) from clicks").first()[0] == end  # type: ignore[index]
    first = read(endingOffsets=json.dumps({topic: {"0": 10, "1": 10}})).load()
    assert (first.count(), frame.count()) == (20, 200)
    fill(range(200, 300))
    assert (first.count(), frame.count()) == (20, 300)
    admin.delete_records({TopicPartition(topic, 0): 4})
    assert frame.count() == 296, "what retention took is not missed by a query of what there is"


def test_a_topic_with_nothing_in_it(read: Read, fill: Fill) -> None:
    assert read().load().collect() == []
    fill(range(5))
    assert read().load().where("offset > 99").collect() == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribe": "nowhere"}, "nowhere"),
        ({"startingOffset": "earliest"}, "startingOffsets is"),
        ({"startingOffsets": '{"TOPIC": {"0": 99, "1": 0}}'}, "after the end"),
        ({"endingOffsets": '{"TOPIC": {"0": 99, "1": 0}}'}, "data was lost"),
    ],
)
def test_what_is_wrong_is_told(
    read: Read, topic: str, options: dict[str, str], message: str
) -> None:
    given = {name: text.replace("TOPIC", topic) for name, text in options.items()}
    with pytest.raises(PySparkException, match=message):
        read(**given).load().count()


def test_what_retention_took_is_told(read: Read, fill: Fill, admin: Admin, topic: str) -> None:
    fill(range(20))
    admin.delete_records({TopicPartition(topic, 0): 4})
    zero = json.dumps({topic: {"0": 0, "1": 0}})
    with pytest.raises(PySparkException, match="offsets 0 to 3 are gone"):
        read(startingOffsets=zero).load().count()
    assert read(startingOffsets=zero, failOnDataLoss="false").load().count() == 16
    assert read().load().count() == 16


@pytest.fixture
def run(spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path) -> Callable[..., Any]:
    """Runs a stream into Parquet until it has all that there is."""
    checkpoint = str(tmp_path / "checkpoint")

    def stream(**options: str) -> Any:
        frame = (
            spark.readStream.format("tidelog")
            .options(**{"kafka.bootstrap.servers": bootstrap, "subscribe": topic})
            .options(**stream_options(checkpoint, f"{topic}-group"))
            .options(**options)
            .load()
        )
        writer = frame.writeStream.format("parquet").option("path", str(tmp_path / "out"))
        return run_to_its_end(writer.option("checkpointLocation", checkpoint))

    return stream


def test_a_stream_goes_on_where_it_stopped(
    run: Callable[..., Any],
    fill: Fill,
    spark: SparkSession,
    admin: Admin,
    topic: str,
    tmp_path: Path,
) -> None:
    fill(range(100))
    query = run(startingOffsets="earliest", maxOffsetsPerTrigger="40")
    assert len([each for each in query.recentProgress if each.numInputRows]) == 3
    group = f"{topic}-group"
    told = {tp: each.offset for tp, each in admin.group_offsets(group).items()}
    assert told == {TopicPartition(topic, 0): 50, TopicPartition(topic, 1): 50}

    admin.add_partitions(topic, 3)
    fill(range(100, 130), partitions=3)
    run(startingOffsets="latest")
    assert numbers(spark.read.parquet(str(tmp_path / "out"))) == list(range(130))


def test_where_a_stream_began_is_remembered(
    fill: Fill, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    from tidelog.spark.options import source_options
    from tidelog.spark.stream import TidelogStreamReader

    def first_batch() -> dict[str, Any]:
        options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
        options |= stream_options(str(tmp_path))
        reader = TidelogStreamReader(source_options(options, streaming=True), ["value"])
        return reader.initialOffset()

    fill(range(10))
    began = first_batch()
    fill(range(10, 16))
    assert first_batch() == began
    assert began[topic] == {"0": 5, "1": 5}


def test_a_stream_that_lost_data_says_so(
    run: Callable[..., Any],
    fill: Fill,
    admin: Admin,
    topic: str,
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    fill(range(20))
    run(startingOffsets="earliest")
    fill(range(20, 40))
    admin.delete_records({TopicPartition(topic, 0): 15})
    with pytest.raises(PySparkException, match="offsets 10 to 14 are gone"):
        run(startingOffsets="earliest")
    run(startingOffsets="earliest", failOnDataLoss="false")
    lost = set(range(20, 30, 2))
    assert numbers(spark.read.parquet(str(tmp_path / "out"))) == sorted(set(range(40)) - lost)


def test_a_topic_created_again_is_not_taken_for_the_old_one(
    run: Callable[..., Any],
    fill: Fill,
    admin: Admin,
    topic: str,
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    """The new topic is as long as the old one was, so its offsets alone say that there is nothing to do."""
    fill(range(20))
    run(startingOffsets="earliest")
    old = str(admin.describe_topics([topic])[topic].id)
    admin.delete_topics([topic])
    admin.create_topics({topic: 2})
    new = str(admin.describe_topics([topic])[topic].id)
    fill(range(100, 120))
    with pytest.raises(PySparkException, match=f"of id {old}, it has {new}"):
        run(startingOffsets="earliest")
    run(startingOffsets="earliest", failOnDataLoss="false")
    expected = [*range(20), *range(100, 120)]
    assert numbers(spark.read.parquet(str(tmp_path / "out"))) == expected


def test_a_stream_waits_for_enough(fill: Fill, bootstrap: str, topic: str) -> None:
    from tidelog.spark.options import source_options
    from tidelog.spark.stream import TidelogStreamReader

    options = {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": topic,
        "minOffsetsPerTrigger": "10",
    }
    options["startingOffsets"] = "earliest"
    reader = TidelogStreamReader(source_options(options, streaming=True), ["value"])
    start = reader.initialOffset()
    fill(range(9))
    assert reader.latestOffset(start, reader.getDefaultReadLimit()) == start
    fill(range(9, 10))
    assert reader.latestOffset(start, reader.getDefaultReadLimit())[topic] == {"0": 5, "1": 5}
