"""The lake's formats, its disk, and what it tells the audit; without Spark, which only says where tasks run."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import polars as pl
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tidelog import Admin, Producer
from tidelog.audit.ledger import Ledger
from tidelog.audit.reading import AuditReader
from tidelog.errors import SettingsError, TidelogError
from tidelog.schemas import AvroSerializer, RegistryClient
from tidelog.schemas.local_registry import LocalRegistry
from tidelog.spark import jobs, parquet_lake, writing
from tidelog.spark.failures import reason
from tidelog.spark.jobs import auditing
from tidelog.spark.jobs.loading import _Job
from tidelog.spark.lake import LoadRefused
from tidelog.spark.writing import load_range

Fill = Callable[..., None]
HOUR = 1_700_000_000_000


@pytest.fixture
def lake(tmp_path: Path) -> str:
    return str(tmp_path / "lake")


@pytest.fixture
def kafka(bootstrap: str) -> dict[str, str]:
    return {"bootstrap.servers": bootstrap}


def numbers(lake: str) -> list[int]:
    """What any reader of directories sees."""
    rows = ds.dataset(lake, format="parquet", partitioning="hive").to_table(columns=["value"])
    return sorted(map(int, rows.column("value").to_pylist()))


# ------------------------------------------------------------------ plain Parquet


def test_plain_directories(
    fill: Fill, lake: str, kafka: dict[str, str], topic: str, admin: Admin
) -> None:
    fill(range(50), timestamp=HOUR)
    assert jobs.load([topic], lake, kafka, format="parquet", max_offsets_per_commit=30).rows == 50
    fill(range(50, 60), timestamp=HOUR + 3_600_000)
    assert jobs.load([topic], lake, kafka).rows == 10  # it knows its format
    assert jobs.load([topic], lake, kafka).steps == ()
    assert numbers(lake) == list(range(60))
    assert [each.lag for each in jobs.status([topic], lake, kafka)] == [0, 0]
    hours = {each.name for each in Path(lake).glob(f"topic={topic}/date=*/*")}
    assert hours == {"hour=22", "hour=23"}
    assert not list((Path(lake) / "_staging").iterdir())
    with pytest.raises(SettingsError, match="of the format parquet, not delta"):
        jobs.load([topic], lake, kafka, format="delta")
    with pytest.raises(SettingsError, match="only Delta tables can be compacted"):
        jobs.compact(lake)


def test_a_crash_while_files_are_moved(
    fill: Fill, lake: str, kafka: dict[str, str], topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(range(20), timestamp=HOUR)
    moved = []

    def crash(source: Path, target: Path) -> None:
        if moved:
            raise ZeroDivisionError
        moved.append(target)
        real(source, target)

    real = os.rename
    with monkeypatch.context() as patch:
        patch.setattr(parquet_lake.os, "rename", crash)
        with pytest.raises(ZeroDivisionError):
            jobs.load([topic], lake, kafka, format="parquet")
    assert len(numbers(lake)) == 10, "one of two files"
    fill(range(20, 30), timestamp=HOUR)
    assert jobs.load([topic], lake, kafka).rows == 10
    assert numbers(lake) == list(range(30))


def test_of_two_loads_of_directories_one_is_refused(
    fill: Fill, lake: str, kafka: dict[str, str], topic: str
) -> None:
    fill(range(20))
    slow = _Job([topic], lake, kafka, "raw", "", False, "parquet")
    slow.begin()
    start, goal = slow.bounds(None)
    rounds = slow.rounds(start, goal, 1000, lambda tasks: [load_range(task) for task in tasks])
    jobs.load([topic], lake, kafka)
    with pytest.raises(LoadRefused, match="another load"):
        next(rounds)
    assert numbers(lake) == list(range(20))
    assert not list((Path(lake) / "_staging").iterdir())


def test_a_directory_of_somebody_else(kafka: dict[str, str], topic: str, tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "one.txt").write_text("dear")
    with pytest.raises(SettingsError, match="not empty and no table of ours"):
        jobs.load([topic], str(tmp_path / "letters"), kafka, format="parquet")
    with pytest.raises(SettingsError, match="'orc' must be one of delta, parquet"):
        jobs.load([topic], str(tmp_path / "new"), kafka, format="orc")


@pytest.mark.parametrize("format", ["delta", "parquet"])
def test_a_topic_created_again_is_not_loaded_behind_the_old_one(
    fill: Fill, lake: str, kafka: dict[str, str], topic: str, admin: Admin, format: str
) -> None:
    """The new topic grew longer than the old one was, so its offsets alone look as if the load could go on."""
    fill(range(20), timestamp=HOUR)
    jobs.load([topic], lake, kafka, format=format)
    old = str(admin.describe_topics([topic])[topic].id)
    admin.delete_topics([topic])
    admin.create_topics({topic: 2})
    new = str(admin.describe_topics([topic])[topic].id)
    fill(range(100, 140), timestamp=HOUR)
    with pytest.raises(TidelogError, match=rf"of id {old[:17]}.*, it has {new}\. Load it into"):
        jobs.load([topic], lake, kafka, on_gap="skip")
    assert numbers(lake) == list(range(20))


def test_plain_directories_load_on_after_files_were_removed(
    fill: Fill, lake: str, kafka: dict[str, str], topic: str
) -> None:
    fill(range(20), timestamp=HOUR)
    jobs.load([topic], lake, kafka, format="parquet")
    for each in Path(lake).glob("topic=*/**/*.parquet"):
        each.unlink()
    fill(range(20, 30), timestamp=HOUR)
    assert jobs.load([topic], lake, kafka).rows == 10
    assert numbers(lake) == list(range(20, 30))


def test_what_a_path_may_be(
    fill: Fill,
    kafka: dict[str, str],
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    fill(range(4))
    for place in ("s3a://bucket/lake", "hdfs://name/lake", "s3:/lake", "file://host/lake"):
        with pytest.raises(
            SettingsError, match=r"in a directory that the driver and all executors"
        ):
            jobs.load([topic], place, kafka)
    assert not list(tmp_path.iterdir()), "nothing is made under such a name"
    assert jobs.load([topic], f"file://{tmp_path}/a lake", kafka).rows == 4
    assert jobs.load([topic], f"{tmp_path}/a lake", kafka).rows == 0
    assert numbers(f"{tmp_path}/a lake") == list(range(4))


def test_a_table_that_is_not_there_has_no_status(
    lake: str, kafka: dict[str, str], topic: str
) -> None:
    with pytest.raises(SettingsError, match="there is no table at"):
        jobs.status([topic], lake, kafka)


def test_scattered_times_do_not_make_a_file_each(
    lake: str, kafka: dict[str, str], topic: str, bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sixty hours in turn, which is more than there may be open files."""
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(1200):
            when = HOUR + number % 60 * 3_600_000
            producer.send(topic, b"%d" % number, partition=0, timestamp=when)
    monkeypatch.setattr(writing, "_MOST_BUFFERED", 20_000)
    jobs.load([topic], lake, kafka)
    assert numbers(lake) == list(range(1200))
    files = len(DeltaTable(lake).file_uris())
    assert files <= 3 * 60, f"{files} files of 60 hours"

    told = jobs.compact(lake, dry_run=True)
    version = DeltaTable(lake).version()
    done = jobs.compact(lake)
    assert (told.files_before, told.files_after) == (done.files_before, done.files_after)
    assert done.files_after == 60
    assert DeltaTable(lake).version() - version <= 2, "hours are compacted together"
    assert sorted(map(int, DeltaTable(lake).to_pyarrow_table()["value"].to_pylist())) == list(
        range(1200)
    )


# ------------------------------------------------------------------ readers with filters


def test_readers_of_the_table_find_the_same_rows_with_filters(
    fill: Fill, lake: str, kafka: dict[str, str], topic: str, spark: SparkSession
) -> None:
    """Statistics of some columns made deltalake's dataset leave out every file when another one was filtered."""
    fill(range(20), timestamp=HOUR)
    jobs.load([topic], lake, kafka, decode="json")
    fill(range(20, 30), timestamp=HOUR + 3_600_000)
    jobs.load([topic], lake, kafka, decode="json")
    late = datetime.fromtimestamp(HOUR / 1000 + 3600, UTC)
    table = DeltaTable(lake)
    dataset = table.to_pyarrow_dataset()
    frame = jobs.table(spark, lake)
    arrow = ds.field
    for name, count, for_arrow, for_polars, for_sql in [
        ("partition", 15, arrow("partition") == 1, pl.col("partition") == 1, "partition = 1"),
        ("offset", 10, arrow("offset") >= 10, pl.col("offset") >= 10, '"offset" >= 10'),
        ("timestamp", 10, arrow("timestamp") >= late, pl.col("timestamp") >= late, None),
        ("key", 1, arrow("key") == b"k7", pl.col("key") == b"k7", "key = 'k7'::blob"),
        ("json", 1, arrow("json") == "7", pl.col("json") == "7", "json = '7'"),
        ("error", 30, arrow("error").is_null(), pl.col("error").is_null(), "error is null"),
        ("topic", 30, arrow("topic") == topic, pl.col("topic") == topic, f"topic = '{topic}'"),
        ("hour", 10, arrow("hour") == 23, pl.col("hour") == 23, "hour = 23"),
    ]:
        assert dataset.to_table(filter=for_arrow).num_rows == count, name
        assert pl.scan_delta(lake).filter(for_polars).collect().height == count, name
        if for_sql is not None:
            assert len(duckdb.sql(f"select 1 from dataset where {for_sql}").fetchall()) == count
            spark_sql = for_sql.replace('"', "`").replace("'k7'::blob", "cast('k7' as binary)")
            assert frame.where(spark_sql).count() == count, name
    assert len(table.to_pandas(filters=[("partition", "=", 1)])) == 15


# ------------------------------------------------------------------ the disk


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a megabyte."""
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("only root may mount a small file system")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.parametrize("format", ["delta", "parquet"])
def test_a_full_disk(
    small_disk: Path, kafka: dict[str, str], topic: str, bootstrap: str, format: str
) -> None:
    """What was committed is there, nothing else is seen, and the next load goes on."""
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(500):
            headers = {"noise": os.urandom(4000)}
            producer.send(topic, b"%d" % number, partition=number % 2, headers=headers)
    lake = str(small_disk / "lake")
    with pytest.raises(TidelogError, match="cannot be written"):
        jobs.load([topic], lake, kafka, format=format, max_offsets_per_commit=50)
    kept = sum(each.in_table or 0 for each in jobs.status([topic], lake, kafka))
    assert 0 < kept < 500
    assert seen(lake, format) == list(range(kept))
    subprocess.run(["mount", "-o", "remount,size=16m", str(small_disk)], check=True)
    assert jobs.load([topic], lake, kafka, max_offsets_per_commit=50).rows == 500 - kept
    assert seen(lake, format) == list(range(500))


def seen(lake: str, format: str) -> list[int]:
    if format == "parquet":
        return numbers(lake)
    return sorted(map(int, DeltaTable(lake).to_pyarrow_table().column("value").to_pylist()))


def test_what_spark_says_of_a_task_is_made_short() -> None:
    said = "An exception was thrown:\nTraceback (most recent call last):\n  File x, line 1, in f\n"
    said += "tidelog.errors.TidelogError: no room\n\n=== Streaming Query ===\nIdentifier: [id = 1]"
    assert reason(RuntimeError(said)) == "no room"
    said = "[STREAM_FAILED] Query [id = 1] terminated with exception: no SQLSTATE: XXKST\nIdentifier: x"
    assert reason(RuntimeError(said)) == "no"
    assert reason(RuntimeError("something: else")) == "something: else"
    assert reason(RuntimeError()) == "RuntimeError"


# ------------------------------------------------------------------ the command


def test_again_and_again_until_interrupted(
    fill: Fill, lake: str, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    fill(range(10))
    command = [sys.executable, "-m", "tidelog", "spark", "load", topic, "--table", lake]
    command += ["-b", bootstrap, "--master", "none", "--every", "200ms", "--json"]
    with (tmp_path / "log").open("wb") as log:
        child = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        for count in (10, 20, 30):
            deadline = time.monotonic() + 120
            while (
                not Path(lake).is_dir() or not DeltaTable.is_deltatable(lake) or count > rows(lake)
            ):
                assert time.monotonic() < deadline, (tmp_path / "log").read_text()
                assert child.poll() is None, (tmp_path / "log").read_text()
                time.sleep(0.05)
            fill(range(count, count + 10))
        child.send_signal(signal.SIGINT)
        child.wait(60)
    finally:
        child.kill()
        child.wait()
    assert "Traceback" not in (tmp_path / "log").read_text()


def rows(lake: str) -> int:
    return DeltaTable(lake).to_pyarrow_table(columns=["offset"]).num_rows


# ------------------------------------------------------------------ Avro


@pytest.fixture(scope="module")
def registry(bootstrap: str) -> Iterator[str]:
    with LocalRegistry(bootstrap) as made:
        yield made.url


def test_avro_of_two_schemas_and_none(
    lake: str, kafka: dict[str, str], topic: str, bootstrap: str, registry: str
) -> None:
    fields = [{"name": "item", "type": "string"}]
    old = {"type": "record", "name": "Click", "fields": fields}
    new = {**old, "fields": [*fields, {"name": "place", "type": "int", "default": 7}]}
    client = RegistryClient(registry)
    write = [
        AvroSerializer(client, json.dumps(each), subject=f"{topic}-value") for each in (old, new)
    ]
    values = [write[0]({"item": "a"}), write[1]({"item": "b", "place": 3}), b"poison", None]
    values += [b"\0\0\0\x7f\xff" + b"x"]  # a schema that nobody has
    with Producer(bootstrap_servers=bootstrap) as producer:
        for value in values:
            producer.send(topic, value, partition=0)
    result = jobs.load([topic], lake, kafka, decode="avro", registry=registry)
    assert (result.rows, result.quarantined) == (5, 2)
    found = DeltaTable(lake).to_pyarrow_table().sort_by("offset").to_pylist()
    decoded = [json.loads(row["json"]) if row["json"] else None for row in found]
    assert decoded == [{"item": "a"}, {"item": "b", "place": 3}, None, None, None]
    assert [bool(row["error"]) for row in found] == [False, False, True, False, True]
    assert [row["value"] for row in found] == values


def test_a_registry_that_is_away_fails_the_load(
    fill: Fill, lake: str, kafka: dict[str, str], topic: str
) -> None:
    """Or every message would be in the quarantine."""
    with Producer(kafka) as producer:
        producer.send(topic, b"\0\0\0\0\1x", partition=0)
    with pytest.raises((TidelogError, OSError)):
        jobs.load([topic], lake, kafka, decode="avro", registry="http://127.0.0.1:1")
    assert jobs.status([topic], lake, kafka)[0].in_table is None


# ------------------------------------------------------------------ the audit


def counted(kafka: dict[str, str], topic: str) -> dict[int, int]:
    """What the tier of this topic's lake has published."""
    with AuditReader(kafka, Ledger()) as reader:
        reader.catch_up()
        reports = reader.ledger.report(0, topics=[topic], tiers=[topic])
    return {each.start_ms: each.counts[topic] for each in reports}


@pytest.mark.parametrize("format", ["delta", "parquet"])
def test_a_load_is_a_tier(
    fill: Fill,
    lake: str,
    kafka: dict[str, str],
    topic: str,
    format: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tier = jobs.LakeTier(topic, window_ms=10_000)
    fill(range(30), timestamp=HOUR)
    fill(range(30, 50), timestamp=HOUR + 10_000)

    def load() -> None:
        jobs.load([topic], lake, kafka, format=format, tier=tier, max_offsets_per_commit=20)

    load()
    assert counted(kafka, topic) == {HOUR: 30, HOUR + 10_000: 20}
    fill(range(50, 70), timestamp=HOUR + 10_000)

    def crash(*_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(auditing.LoadAudit, "_publish", crash)
        with pytest.raises(ZeroDivisionError):
            load()
    assert counted(kafka, topic) == {HOUR: 30, HOUR + 10_000: 20}
    load()
    load()
    assert counted(kafka, topic) == {HOUR: 30, HOUR + 10_000: 40}
    assert len(seen(lake, format)) == 70
