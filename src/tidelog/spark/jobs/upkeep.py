"""Looking after a lake's table: what is in it, what it lacks, small files made large, and the way back into a topic."""

import json
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidelog.dataclass import dataclass
from tidelog.errors import SettingsError
from tidelog.spark.cluster import Brokers
from tidelog.spark.lakes import open_lake
from tidelog.spark.options import source_options
from tidelog.spark.parquet_lake import ParquetLake

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame, SparkSession


_SAFE = timedelta(hours=1)
"""A file that no commit names, and that is younger, may be one that a load is about to commit."""


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """How far the table is; `in_table` is None where nothing was loaded."""

    topic: str
    partition: int
    in_table: int | None
    at_broker: int
    lag: int


@dataclass(frozen=True, slots=True)
class Compacted:
    """What `compact` has done."""

    files_before: int
    files_after: int
    removed: int


def status(topics: Sequence[str], table: str, kafka: Mapping[str, str]) -> list[PartitionStatus]:
    """The table's offsets beside the brokers'."""
    named = {f"kafka.{name}": value for name, value in kafka.items()}
    named.setdefault("kafka.isolation.level", "read_committed")
    brokers = Brokers(source_options({**named, "subscribe": ",".join(topics)}, streaming=False))
    partitions = brokers.partitions()
    lake = open_lake(table)
    if lake.version < 0:
        raise SettingsError(f"there is no table at {table}; `tidelog spark load` makes one")
    there = lake.offsets(partitions)
    earliest, latest = brokers.earliest(partitions), brokers.latest(partitions)
    return [
        PartitionStatus(*tp, there.get(tp), latest[tp], latest[tp] - there.get(tp, earliest[tp]))
        for tp in partitions
    ]


def table(spark: "SparkSession", path: str, version: int | None = None) -> "DataFrame":
    """The table as a frame, as of a version, without a jar; what is in the quarantine is left out."""
    return everything(spark, path, version).where("error is null").drop("error")


def quarantine(spark: "SparkSession", path: str, version: int | None = None) -> "DataFrame":
    """What could not be decoded, and why."""
    return everything(spark, path, version).where("error is not null")


def compact(
    path: str,
    *,
    target_mb: int = 128,
    min_age: timedelta = timedelta(hours=1),
    vacuum_after: timedelta = timedelta(days=7),
    dry_run: bool = False,
) -> Compacted:
    """Make few large files of the many small ones of hours that are over, and remove files that no version of that age uses.

    Readers are not disturbed, and neither is a load.  With `dry_run` nothing is done, and `files_after` is about what there would be.
    """
    if vacuum_after < _SAFE:
        raise SettingsError(
            f"vacuum_after={vacuum_after} must be an hour or more: a load may be writing files"
        )
    lake = open_lake(path)
    if isinstance(lake, ParquetLake):
        raise SettingsError(f"{path} is plain Parquet: only Delta tables can be compacted")
    found = lake.table
    over = datetime.now(UTC) - min_age
    target = target_mb * 1024 * 1024
    before = len(found.file_uris())
    if dry_run:
        after = before - _could_go(found, over, target)
    else:
        for wanted in _closed(over):
            found.optimize.compact(wanted, target_size=target)
            found.update_incremental()
        after = len(found.file_uris())
    hours = int(vacuum_after.total_seconds() // 3600)
    removed = found.vacuum(hours, dry_run=dry_run, enforce_retention_duration=False, full=True)
    return Compacted(before, after, len(removed))


def _closed(over: datetime) -> list[list[tuple[str, str, Any]]]:
    """The hours that were over then, as Delta's filters: all of the days before, and some of that day; a commit each."""
    day = over.date().isoformat()
    filters: list[list[tuple[str, str, Any]]] = [[("date", "<", day)]]
    if over.hour:
        filters.append(
            [("date", "=", day), ("hour", "in", [str(hour) for hour in range(over.hour)])]
        )
    return filters


def _could_go(found: "DeltaTable", over: datetime, target: int) -> int:
    """How many files compaction could save, in hours that were over then."""
    sizes: dict[tuple[Any, ...], list[int]] = {}
    for each in pa.table(found.get_add_actions(flatten=True)).to_pylist():
        day = each["partition.date"]
        begin = datetime(day.year, day.month, day.day, int(each["partition.hour"]), tzinfo=UTC)
        if begin + timedelta(hours=1) <= over:
            place = (each["partition.topic"], begin)
            sizes.setdefault(place, []).append(each["size_bytes"])
    small = ([size for size in each if size < target] for each in sizes.values())
    return sum(max(0, len(each) - math.ceil(sum(each) / target)) for each in small if each)


def replay(
    spark: "SparkSession",
    path: str,
    topic: str,
    kafka: Mapping[str, str],
    *,
    version: int | None = None,
    where: str | None = None,
    dry_run: bool = False,
) -> int:
    """Write a table's messages into a topic, in order within each partition; returns how many, or would be.

    The topic must have as many partitions as the one that was loaded.
    """
    frame = table(spark, path, version)
    if where:
        frame = frame.where(where)
    count = frame.count()
    if dry_run:
        return count
    ordered = frame.repartition("topic", "partition").sortWithinPartitions("partition", "offset")
    options = {f"kafka.{name}": value for name, value in kafka.items()}
    chosen = ordered.select("key", "value", "headers", "partition")
    chosen.write.format("tidelog").mode("append").options(**options, topic=topic).save()
    return count


def everything(spark: "SparkSession", path: str, version: int | None = None) -> "DataFrame":
    """The table with its quarantine, and with the column `error` that tells the two apart."""
    from pyspark.sql.types import StructType

    lake = open_lake(path)
    if isinstance(lake, ParquetLake):
        if version is not None:
            raise SettingsError(f"{path} is plain Parquet, which has no versions")
        made = "topic string, date date, hour int, partition int, offset bigint, timestamp timestamp, key binary, "
        made += "value binary, headers array<struct<key: string, value: binary>>, json string, error string"
        return spark.read.schema(made).parquet(path)
    found = lake.table
    if version is not None:
        found.load_as_version(version)
    schema: Any = StructType.fromJson(json.loads(found.schema().to_json()))
    files = found.file_uris()
    if not files:
        return spark.createDataFrame([], schema)
    # The schema is given, or Spark would guess the types of the directories' names.
    return spark.read.schema(schema).option("basePath", path).parquet(*files)
