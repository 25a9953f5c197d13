"""The sink: a batch that is written again is not written twice."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import tidelog
from tidelog import Admin
from tidelog.errors import TidelogError
from tidelog.spark.options import sink_options
from tidelog.spark.sink import write_task

Fill = Callable[..., None]


@pytest.fixture
def target(admin: Admin, topic: str) -> str:
    admin.create_topics({f"{topic}-out": 2})
    return f"{topic}-out"


@pytest.fixture
def written(bootstrap: str, target: str) -> Callable[[], list[bytes]]:
    def values() -> list[bytes]:
        found = tidelog.read(target, bootstrap=bootstrap, isolation="read_committed")
        return sorted(found.column("value").to_pylist())

    return values


@pytest.fixture
def write(bootstrap: str, target: str) -> Callable[..., Any]:
    options = sink_options({"kafka.bootstrap.servers": bootstrap, "topic": target})

    def one(batch: int, values: list[bytes], task: int = 0, sink: str = "s") -> Any:
        rows = pa.RecordBatch.from_pydict({"value": values})
        return write_task(options, f"{target}-{sink}", task, batch, iter([rows]))

    return one


def test_a_task_that_is_done_again_writes_once(
    write: Callable[..., Any], written: Callable[[], list[bytes]]
) -> None:
    assert write(0, [b"a", b"b"]).rows == 2
    assert write(0, [b"a", b"b"]).rows == 0
    assert write(1, [b"c"]).rows == 1
    assert write(0, [b"a", b"b"]).rows == 0
    assert write(1, [b"d"], task=1).rows == 1
    assert written() == [b"a", b"b", b"c", b"d"]


def test_of_two_attempts_at_once_one_counts(
    write: Callable[..., Any],
    written: Callable[[], list[bytes]],
    bootstrap: str,
    target: str,
) -> None:
    """A speculative attempt begins and ends while the first is in the middle of its rows."""

    def slow() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"value": [b"a"]})
        assert write(0, [b"a", b"b"]).rows == 2
        yield pa.RecordBatch.from_pydict({"value": [b"b"]})

    options = sink_options({"kafka.bootstrap.servers": bootstrap, "topic": target})
    with pytest.raises(TidelogError):
        write_task(options, f"{target}-s", 0, 0, slow())
    assert written() == [b"a", b"b"]


def test_a_task_that_fails_leaves_nothing(
    write: Callable[..., Any], written: Callable[[], list[bytes]], bootstrap: str, target: str
) -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"value": [b"a"]})
        raise ZeroDivisionError

    options = sink_options({"kafka.bootstrap.servers": bootstrap, "topic": target})
    with pytest.raises(ZeroDivisionError):
        write_task(options, f"{target}-s", 0, 0, broken())
    assert written() == []
    assert write(0, [b"a"]).rows == 1
    assert written() == [b"a"]


def test_a_frame_is_written(
    spark: SparkSession,
    bootstrap: str,
    target: str,
    written: Callable[[], list[bytes]],
    admin: Admin,
) -> None:
    frame = spark.range(20).selectExpr("cast(id as string) value", "cast(id % 2 as int) partition")
    out = frame.write.format("tidelog").option("kafka.bootstrap.servers", bootstrap)
    out.option("topic", target).mode("append").save()
    assert written() == sorted(b"%d" % number for number in range(20))
    assert not [each for each in admin.list_groups() if "tidelog-sink-batch" in str(each)]
    with pytest.raises(PySparkException, match="the option topic is missing"):
        frame.write.format("tidelog").option("kafka.bootstrap.servers", bootstrap).mode(
            "append"
        ).save()
    wrong = frame.withColumnRenamed("value", "valeu").write.format("tidelog").mode("append")
    with pytest.raises(PySparkException, match="valeu"):
        wrong.options(**{"kafka.bootstrap.servers": bootstrap, "topic": target}).save()


def test_a_stream_whose_last_batch_is_replayed(
    spark: SparkSession,
    bootstrap: str,
    fill: Fill,
    topic: str,
    target: str,
    written: Callable[[], list[bytes]],
    tmp_path: Path,
) -> None:
    """As after a crash between the sink's commit and Spark's own: the checkpoint lacks the commit of the last batch."""
    from spark_streams import run_to_its_end

    fill(range(30))
    source = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
    source |= {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "20"}

    def run() -> None:
        frame = spark.readStream.format("tidelog").options(**source).load()
        writer = frame.select("key", "value").writeStream.format("tidelog")
        writer.options(**{"kafka.bootstrap.servers": bootstrap, "topic": target})
        run_to_its_end(writer.option("checkpointLocation", str(tmp_path)))

    run()
    os.unlink(tmp_path / "commits" / "1")
    (tmp_path / "commits" / ".1.crc").unlink(missing_ok=True)
    run()
    assert written() == sorted(b"%d" % number for number in range(30))
