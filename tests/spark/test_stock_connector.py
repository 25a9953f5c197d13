"""Spark's own Kafka connector against our broker: batch and stream, read and write; and ours beside it."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from spark_streams import run_to_its_end
from stock_connector import connector

import tidelog
from tidelog import Admin, TopicPartition

Fill = Callable[..., None]


@pytest.fixture(autouse=True)
def stock() -> None:
    if not connector().jars:
        pytest.skip(connector().reason)


@pytest.fixture
def target(admin: Admin, topic: str) -> str:
    admin.create_topics({f"{topic}-out": 2})
    return f"{topic}-out"


def test_both_connectors_read_the_same(
    spark: SparkSession, fill: Fill, bootstrap: str, topic: str, admin: Admin
) -> None:
    fill(range(200), timestamp=1_700_000_000_123, headers={"h": b"x"})
    fill(range(200, 300))
    admin.delete_records({TopicPartition(topic, 0): 7})
    part = json.dumps({topic: {"0": 20, "1": -2}})
    for options in (
        {"subscribePattern": f"{topic}$", "includeHeaders": "true"},
        {"assign": json.dumps({topic: [1]}), "minPartitions": "3"},
        {"subscribe": topic, "startingOffsets": part, "kafka.isolation.level": "read_committed"},
        {
            "subscribe": topic,
            "startingTimestamp": "1700000000000",
            "endingTimestamp": "1700000000124",
        },
    ):
        theirs, ours = (
            spark.read.format(kind)
            .options(**{"kafka.bootstrap.servers": bootstrap}, **options)
            .load()
            for kind in ("kafka", "tidelog")
        )
        assert theirs.dtypes == ours.dtypes
        rows = [
            sorted(frame.collect(), key=lambda row: (row.partition, row.offset))
            for frame in (theirs, ours)
        ]
        assert rows[0] == rows[1]
        assert rows[1], options


def test_it_writes_a_frame(spark: SparkSession, bootstrap: str, target: str) -> None:
    frame = spark.range(500).selectExpr(
        "cast(id as string) value",
        "cast(concat('k', id) as binary) key",
        "cast(id % 2 as int) partition",
        "array(struct('h' as key, cast('x' as binary) as value)) headers",
    )
    out = frame.write.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    out.option("topic", target).option("includeHeaders", "true").save()
    rows = tidelog.read(target, bootstrap=bootstrap).to_pylist()
    assert sorted(int(row["value"]) for row in rows) == list(range(500))
    assert all(int(row["value"]) % 2 == row["partition"] for row in rows)
    assert all(row["headers"] for row in rows)


def test_its_streams(
    spark: SparkSession,
    fill: Fill,
    bootstrap: str,
    topic: str,
    target: str,
    tmp_path: Path,
) -> None:
    """From topic to topic in several batches, stopped and started again."""
    where = {"kafka.bootstrap.servers": bootstrap}

    def run() -> None:
        frame = spark.readStream.format("kafka").options(**where, subscribe=topic)
        frame = frame.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", "80")
        writer = frame.load().select("key", "value").writeStream.format("kafka")
        writer = writer.options(**where, topic=target)
        run_to_its_end(writer.option("checkpointLocation", str(tmp_path)))

    fill(range(200))
    run()
    fill(range(200, 300))
    run()
    values = tidelog.read(target, bootstrap=bootstrap).column("value").to_pylist()
    assert sorted(map(int, values)) == list(range(300))
