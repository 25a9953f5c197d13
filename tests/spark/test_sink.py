"""The sink: a batch that is written again is not written twice."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import tidelog
from tidelog import Admin
from tidelog.errors import SettingsError, TidelogError
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

    def one(batch: int, values: list[bytes], task: int = 0, query: str = "") -> Any:
        rows = pa.RecordBatch.from_pydict({"value": values})
        return write_task(options, f"{target}-s", task, batch, iter([rows]), query)

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


def test_a_batch_that_is_split_in_another_way_is_refused(
    write: Callable[..., Any], written: Callable[[], list[bytes]]
) -> None:
    """Four tasks, two of which were done; then two tasks: their numbers say nothing of their rows."""
    write(3, [b"a"], task=0)
    write(3, [b"b"], task=1)
    for task, values in enumerate([[b"a", b"b"], [b"c", b"d"]]):
        with pytest.raises(TidelogError, match=f"task {task} has other rows now.*minPartitions"):
            write(3, values, task=task)
    assert written() == [b"a", b"b"]
    for task, value in enumerate([b"a", b"b", b"c", b"d"]):
        assert write(3, [value], task=task).rows == (task > 1)
    assert written() == [b"a", b"b", b"c", b"d"]


def test_a_name_that_another_query_has_used_is_refused(
    write: Callable[..., Any], written: Callable[[], list[bytes]]
) -> None:
    """A new checkpoint counts its batches from zero: they would be taken for written."""
    write(7, [b"a"], query="old")
    with pytest.raises(SettingsError, match=r"up to 7 of another query .id old; this is new"):
        write(0, [b"b"], query="new")
    assert write(8, [b"b"], query="old").rows == 1
    assert written() == [b"a", b"b"]


def test_a_task_that_takes_too_long_says_so(
    bootstrap: str, target: str, admin: Admin, written: Callable[[], list[bytes]]
) -> None:
    given = {"kafka.bootstrap.servers": bootstrap, "topic": target}
    options = sink_options({**given, "kafka.transaction.timeout.ms": "500"})
    name = f"tidelog-sink-{target}-s-0"

    def slow() -> Iterator[pa.RecordBatch]:
        for value in (b"a", b"b"):
            yield pa.RecordBatch.from_pydict({"value": [value] * 20_000})
            while "Abort" not in str(admin.describe_transactions([name])[name].state):
                time.sleep(0.05)

    with pytest.raises(TidelogError, match=r"longer than kafka.transaction.timeout.ms=500"):
        write_task(options, f"{target}-s", 0, 0, slow())
    assert written() == []


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
