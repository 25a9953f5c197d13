"""The load: every message in the table exactly once, whatever is killed."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tidelog import Admin, TopicPartition
from tidelog.errors import SettingsError
from tidelog.spark import jobs
from tidelog.spark.jobs.loading import _Job
from tidelog.spark.lake import LoadRefused
from tidelog.spark.planning import DataLost
from tidelog.spark.writing import load_range

Fill = Callable[..., None]

KILLS = int(os.environ.get("TIDELOG_LOAD_KILLS", "4"))
MASTER = os.environ.get("TIDELOG_LOAD_MASTER", "none")


@pytest.fixture
def lake(tmp_path: Path) -> str:
    return str(tmp_path / "lake")


@pytest.fixture
def kafka(bootstrap: str) -> dict[str, str]:
    return {"bootstrap.servers": bootstrap}


def messages(lake: str) -> list[tuple[int, int, bytes, bytes]]:
    """What any reader of Delta sees, in order."""
    found: pa.Table = DeltaTable(lake).to_pyarrow_table()
    columns = (found.column(name).to_pylist() for name in ("partition", "offset", "key", "value"))
    return sorted(zip(*columns, strict=True))


def expected(count: int) -> list[tuple[int, int, bytes, bytes]]:
    return sorted((n % 2, n // 2, b"k%d" % n, b"%d" % n) for n in range(count))


def test_a_load_goes_on_where_the_table_ends(
    fill: Fill, lake: str, kafka: dict[str, str], topic: str, admin: Admin
) -> None:
    fill(range(50), timestamp=1_700_000_000_000)
    first = jobs.load([topic], lake, kafka, max_offsets_per_commit=30)
    assert [step.rows for step in first.steps] == [30, 20]
    fill(range(50, 60), timestamp=1_700_003_600_000)
    assert jobs.load([topic], lake, kafka).rows == 10
    assert jobs.load([topic], lake, kafka).steps == ()
    assert messages(lake) == expected(60)
    assert {dict(each)["hour"] for each in DeltaTable(lake).partitions()} == {"22", "23"}
    told = admin.group_offsets("lake-lake")
    assert [each.offset for tp, each in told.items() if tp.topic == topic] == [30, 30]


def test_what_does_not_decode_is_kept_apart(
    fill: Fill, lake: str, kafka: dict[str, str], topic: str, bootstrap: str
) -> None:
    from tidelog import Producer

    with Producer(bootstrap_servers=bootstrap) as producer:
        values = [b'{"a": 1}', b"poison", b"\xff\xfe", None, b'\0\0\0\0\1{"b": 2}']
        for value in values:
            producer.send(topic, value, partition=0)
    result = jobs.load([topic], lake, kafka, decode="json")
    assert (result.rows, result.quarantined) == (5, 2)
    rows = DeltaTable(lake).to_pyarrow_table().sort_by("offset").to_pylist()
    assert [row["json"] for row in rows] == ['{"a": 1}', None, None, None, '{"b": 2}']
    assert [row["value"] for row in rows] == values
    assert [bool(row["error"]) for row in rows] == [False, True, True, False, False]


def test_until_a_time(fill: Fill, lake: str, kafka: dict[str, str], topic: str) -> None:
    fill(range(10), timestamp=1_700_000_000_000)
    fill(range(10, 20), timestamp=1_700_000_100_000)
    assert jobs.load([topic], lake, kafka, until="1700000100000").rows == 10
    assert jobs.load([topic], lake, kafka).rows == 10
    assert messages(lake) == expected(20)


def test_a_dry_run_leaves_no_trace(
    fill: Fill, lake: str, kafka: dict[str, str], topic: str
) -> None:
    fill(range(10))
    planned = jobs.load([topic], lake, kafka, dry_run=True)
    assert planned.end == {topic: {"0": 5, "1": 5}}
    assert not Path(lake).exists()


@pytest.mark.parametrize("before", [0, 10])
def test_of_two_loads_at_once_one_is_refused(
    fill: Fill, lake: str, kafka: dict[str, str], topic: str, before: int
) -> None:
    fill(range(before))
    jobs.load([topic], lake, kafka)
    fill(range(before, 20))
    slow = _Job([topic], lake, kafka, "raw", "", False)
    start, goal = slow.bounds(None)
    rounds = slow.rounds(start, goal, 1000, lambda tasks: [load_range(task) for task in tasks])
    jobs.load([topic], lake, kafka)
    with pytest.raises(LoadRefused, match="another load of the same topics"):
        next(rounds)
    assert messages(lake) == expected(20)


def test_what_was_deleted_before_it_was_loaded_is_told(
    fill: Fill, lake: str, kafka: dict[str, str], topic: str, admin: Admin
) -> None:
    fill(range(10))
    jobs.load([topic], lake, kafka)
    fill(range(10, 20))
    admin.delete_records({TopicPartition(topic, 0): 7})
    with pytest.raises(DataLost, match="offsets 5 to 6 are gone"):
        jobs.load([topic], lake, kafka)
    assert jobs.load([topic], lake, kafka, on_gap="skip").rows == 8


def test_a_lake_of_somebody_else_is_left_alone(
    lake: str, kafka: dict[str, str], topic: str, tmp_path: Path
) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "one.txt").write_text("dear")
    with pytest.raises(SettingsError, match="not empty and not a Delta table"):
        jobs.load([topic], str(tmp_path / "letters"), kafka)
    DeltaTable.create(lake, pa.schema([("a", pa.int64())]))
    with pytest.raises(SettingsError, match="a table of something else"):
        jobs.load([topic], lake, kafka)


def test_compacting_changes_nothing_but_the_files(
    fill: Fill, lake: str, kafka: dict[str, str], topic: str
) -> None:
    for start in range(0, 40, 10):
        fill(range(start, start + 10), timestamp=1_700_000_000_000)
        jobs.load([topic], lake, kafka)
    done = jobs.compact(lake)
    assert (done.files_before, done.files_after) == (8, 1)
    with pytest.raises(SettingsError, match="an hour or more"):
        jobs.compact(lake, vacuum_after=timedelta(minutes=5))
    assert messages(lake) == expected(40)
    assert [each.lag for each in jobs.status([topic], lake, kafka)] == [0, 0]
    assert jobs.load([topic], lake, kafka).steps == ()


def test_a_load_that_is_killed_again_and_again(
    fill: Fill, lake: str, bootstrap: str, topic: str
) -> None:
    """The driver is killed when it has written so many more files, at random; then one load is let through."""
    dice = random.Random(os.environ.get("TIDELOG_LOAD_SEED", "7"))
    count = 1000 * KILLS  # so that there is something left to load at the last kill
    fill(range(count))
    command = [sys.executable, "-m", "tidelog", "spark", "load", topic, "--table", lake]
    command += ["-b", bootstrap, "--master", MASTER, "--max-offsets", "250", "--json"]
    killed = 0
    for _ in range(KILLS):
        enough = _files(lake) + dice.randint(1, 7)
        child = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
        )
        while child.poll() is None and _files(lake) < enough:
            with suppress(subprocess.TimeoutExpired):
                child.wait(0.005)
        with suppress(ProcessLookupError):
            os.killpg(child.pid, 9)
        _, complaint = child.communicate()
        killed += child.returncode == -9
        assert child.returncode in (-9, 0), complaint.decode()
    assert killed > KILLS // 2
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.splitlines()[-1])["end"] == {
        topic: {"0": count // 2, "1": count // 2}
    }
    assert messages(lake) == expected(count)


def _files(lake: str) -> int:
    return sum(1 for _ in Path(lake).rglob("*.parquet"))


def test_spark_does_the_work_and_reads_the_table(
    spark: SparkSession, fill: Fill, lake: str, kafka: dict[str, str], topic: str, admin: Admin
) -> None:
    fill(range(200))
    result = jobs.load([topic], lake, kafka, spark=spark, max_offsets_per_commit=150)
    assert (result.rows, len(result.steps)) == (200, 2)
    assert messages(lake) == expected(200)
    assert jobs.table(spark, lake).count() == 200
    assert jobs.table(spark, lake, version=1).count() == 150

    copy = f"{topic}-copy"
    admin.create_topics({copy: 2})
    where = {**kafka, "linger.ms": "5"}
    assert jobs.replay(spark, lake, copy, where, where="offset < 50") == 100
    rows = (
        spark.read.format("tidelog")
        .options(**{"kafka.bootstrap.servers": kafka["bootstrap.servers"], "subscribe": copy})
        .option("kafka.isolation.level", "read_committed")
        .load()
        .select("partition", "value")
        .collect()
    )
    assert sorted(int(row.value) for row in rows) == list(range(100))
    assert all(int(row.value) % 2 == row.partition for row in rows)
