"""`load`: topics into a lake's table, every message exactly once, whenever it is killed.

Each round:

1. The table says where each partition ends in it, the brokers where it ends now.
2. The offsets between become ranges, and tasks write their files (`tidelog.spark.writing`).
3. The driver checks that the ranges meet without a gap, and makes one commit of files, new ends, and counts for the audit.
4. A consumer group is told the ends, so that lag shows, and the audit its counts.  If that fails, the next round does it.

What is killed before 3 has left files that nobody sees; what is killed after 3 is done.  Nothing else is kept anywhere.  A partition that
is not in the table begins at its beginning.

With a Spark session the tasks run there, wherever its executors are; without one they run in this process, which is enough for small loads
and needs no Java.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tidelog.client.times import parse_time
from tidelog.dataclass import dataclass
from tidelog.errors import KafkaError, SettingsError, TidelogError
from tidelog.spark.cluster import Brokers
from tidelog.spark.failures import reason
from tidelog.spark.jobs.auditing import LakeTier, LoadAudit
from tidelog.spark.lakes import open_lake
from tidelog.spark.options import SourceOptions, source_options
from tidelog.spark.planning import (
    DataLost,
    Offsets,
    TopicIds,
    created_again,
    limited,
    ranges,
    split,
    to_json,
    without_lost,
)
from tidelog.spark.writing import DECODERS, Loaded, LoadTask, load_range

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASK_OFFSETS = 1_000_000
COMMIT_OFFSETS = 5_000_000


@dataclass(frozen=True, slots=True)
class Step:
    """One commit."""

    version: int
    partitions: int
    offsets: int
    rows: int
    quarantined: int
    files: int
    size_bytes: int
    tasks_s: float
    commit_s: float
    lag: int

    def line(self) -> str:
        speed = self.rows / max(self.tasks_s + self.commit_s, 1e-9)
        quarantined = f"  quarantined {self.quarantined:_}" if self.quarantined else ""
        return (
            f"v{self.version}  partitions {self.partitions}  offsets +{self.offsets:_}  rows {self.rows:_}"
            f"{quarantined}  files {self.files} ({self.size_bytes / 1e6:.1f} MB)  "
            f"{self.tasks_s:.1f} s tasks + {self.commit_s:.2f} s commit  lag {self.lag:_}  {speed:_.0f} rows/s"
        )


@dataclass(frozen=True, slots=True)
class LoadResult:
    """What a load has done, or with `dry_run` would do."""

    table: str
    start: Mapping[str, Mapping[str, int]]
    end: Mapping[str, Mapping[str, int]]
    steps: tuple[Step, ...] = ()
    seconds: float = 0.0
    dry_run: bool = False

    @property
    def rows(self) -> int:
        return sum(each.rows for each in self.steps)

    @property
    def quarantined(self) -> int:
        return sum(each.quarantined for each in self.steps)


def load(
    topics: Sequence[str],
    table: str,
    kafka: Mapping[str, str],
    *,
    spark: "SparkSession | None" = None,
    until: str | None = None,
    decode: str = "raw",
    registry: str = "",
    format: str | None = None,
    tier: LakeTier | None = None,
    group: str | None = None,
    on_gap: str = "fail",
    max_offsets_per_commit: int = COMMIT_OFFSETS,
    dry_run: bool = False,
    tell: Callable[[Step], None] = lambda step: None,
) -> LoadResult:
    """Bring a table up to where the topics end now, or ended at the time `until`.

    `decode` is raw, json or avro (with a `registry`); what cannot be decoded is kept in the quarantine.  `format` of a new table is delta
    (the default) or parquet.  `on_gap="skip"` goes on where records were deleted before they could be loaded.  `group` is told how far the table is;
    by default `lake-` and the table's name.  With a `tier` the load counts for the audit.
    """
    _check(decode, registry, on_gap, max_offsets_per_commit)
    began = time.monotonic()
    job = _Job(topics, table, kafka, decode, registry, on_gap == "skip", format, tier)
    start, goal = job.bounds(until)
    if dry_run:
        return LoadResult(table, to_json(start), to_json(goal), dry_run=True)
    job.begin()
    run = _on(spark) if spark is not None else _here
    where, steps = start, []
    for step, where in job.rounds(start, goal, max_offsets_per_commit, run):
        job.publish(group or f"lake-{_name(table)}", where)
        job.settle_audit()
        steps.append(step)
        tell(step)
    if not steps:
        job.publish(group or f"lake-{_name(table)}", where)
    return LoadResult(table, to_json(start), to_json(where), tuple(steps), time.monotonic() - began)


Run = Callable[[list[LoadTask]], list[Loaded]]


class _Job:
    """One load: where it reads, and where it writes to."""

    def __init__(
        self,
        topics: Sequence[str],
        table: str,
        kafka: Mapping[str, str],
        decode: str,
        registry: str,
        skip_gaps: bool,
        format: str | None = None,
        tier: LakeTier | None = None,
    ) -> None:
        if not topics:
            raise SettingsError("there is no topic to load")
        named = {f"kafka.{name}": str(value) for name, value in kafka.items()}
        # What was aborted is no message.
        named.setdefault("kafka.isolation.level", "read_committed")
        self._options: SourceOptions = source_options(
            {**named, "subscribe": ",".join(topics)}, streaming=False
        )
        self._decode, self._registry = decode, registry
        self._skip_gaps = skip_gaps
        self._brokers = Brokers(self._options)
        self._audit = LoadAudit(tier, self._options.kafka) if tier else None
        self._ids: TopicIds = {}
        self.lake = open_lake(table, format)

    def begin(self) -> None:
        """Make the table if need be, and make up for what a killed load has left."""
        self.lake.create()
        self.settle_audit()

    def settle_audit(self) -> None:
        if self._audit is not None:
            self._audit.settle(self.lake)

    def bounds(self, until: str | None) -> tuple[Offsets, Offsets]:
        """Where the table ends, and where it is to end."""
        partitions = self._brokers.partitions()
        there = self.lake.offsets(partitions)
        self._ids = self._brokers.topic_ids(tp.topic for tp in partitions)
        if again := created_again(self.lake.topic_ids(self._ids), self._ids):
            raise DataLost(f"{'; '.join(again.values())}. Load it into another table")
        earliest, latest = self._brokers.earliest(partitions), self._brokers.latest(partitions)
        start = {tp: there.get(tp, earliest[tp]) for tp in partitions}
        goal = dict(latest)
        if until is not None:
            time_ms = parse_time(until, int(time.time() * 1000))
            for tp, offset in self._brokers.at(time_ms, partitions).items():
                goal[tp] = min(latest[tp], offset) if offset >= 0 else latest[tp]
        shorter = [tp for tp in partitions if latest[tp] < start[tp]]
        if shorter:
            raise DataLost(
                f"the table ends after the topic: {', '.join(map(str, shorter))}; was the topic made anew? "
                "Load it into another table"
            )
        goal = {tp: max(goal[tp], start[tp]) for tp in partitions}
        begin, goal, lost = without_lost(start, goal, earliest, latest)
        if lost and not self._skip_gaps:
            raise DataLost(f"{'; '.join(lost)}. With --on-gap skip the load goes on after the gap")
        return begin, goal

    def rounds(
        self, start: Offsets, goal: Offsets, most: int, run: Run
    ) -> Iterator[tuple[Step, Offsets]]:
        """Commit after commit until the goal is reached."""
        where = dict(start)
        while any(where[tp] < goal[tp] for tp in goal):
            stop = limited(where, goal, most)
            yield self._round(where, stop, goal, run), stop
            where = stop

    def _round(self, where: Offsets, stop: Offsets, goal: Offsets, run: Run) -> Step:
        wanted = split(ranges(where, stop), max_records=TASK_OFFSETS)
        window_ms = self._audit.tier.window_ms if self._audit else 0
        where_to, kafka = self.lake.staging, self._options.kafka
        tasks = [
            LoadTask(each, where_to, kafka, self._decode, self._registry, window_ms)
            for each in wanted
        ]
        began = time.monotonic()
        done = run(tasks)
        written = time.monotonic()
        if sorted(map(_place, done)) != sorted(
            (each.topic, each.partition, each.start, each.end) for each in wanted
        ):
            raise TidelogError(
                "the tasks have not written what they were told; nothing was committed"
            )
        files = [file for each in done for file in each.files]
        moved = {tp: stop[tp] for tp in stop if stop[tp] > where[tp]}
        rows = sum(each.rows for each in files)
        note = {"rows": rows, "job": "tidelog load"}
        version = self.lake.commit(
            files, moved, self._ids, note | self._audit.note(done) if self._audit else note
        )
        return Step(
            version=version,
            partitions=len(moved),
            offsets=sum(stop[tp] - where[tp] for tp in moved),
            rows=rows,
            quarantined=sum(each.quarantined for each in files),
            files=len(files),
            size_bytes=sum(each.size for each in files),
            tasks_s=written - began,
            commit_s=time.monotonic() - written,
            lag=sum(goal[tp] - stop[tp] for tp in goal),
        )

    def publish(self, group: str, where: Offsets) -> None:
        """The table has the offsets that count; a group that cannot be told of them must not fail a load that is done."""
        try:
            self._brokers.publish(group, where)
        except (KafkaError, OSError) as error:
            from tidelog.spark.task import warn

            warn(f"the table is loaded, but group {group!r} was not told: {error}")


def _here(tasks: list[LoadTask]) -> list[Loaded]:
    return [load_range(task) for task in tasks]


def _on(spark: "SparkSession") -> Run:
    """Tasks as rows of a frame, one a partition, so that it works over Spark Connect; records never enter the JVM."""
    from pyspark.errors import PySparkException

    def run(tasks: list[LoadTask]) -> list[Loaded]:
        def work(batches: Iterator[Any]) -> Iterator[Any]:
            import pyarrow as pa

            for batch in batches:
                numbers = batch.column(0).to_pylist()
                done = [load_range(tasks[number]).to_text() for number in numbers]
                yield pa.RecordBatch.from_arrays([pa.array(done, pa.string())], names=["done"])

        frame = spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(work, "done string")
        try:
            rows = frame.collect()
        except PySparkException as error:
            raise TidelogError(f"a task of the load failed: {reason(error)}") from error
        return [Loaded.from_text(row.done) for row in rows]

    return run


def _place(done: Loaded) -> tuple[str, int, int, int]:
    return done.wanted.topic, done.wanted.partition, done.wanted.start, done.wanted.end


def _check(decode: str, registry: str, on_gap: str, most: int) -> None:
    if decode not in DECODERS:
        raise SettingsError(f"decode={decode!r} must be one of {', '.join(DECODERS)}")
    if decode == "avro" and not registry:
        raise SettingsError("decode='avro' needs the address of a schema registry")
    if on_gap not in ("fail", "skip"):
        raise SettingsError(f"on_gap={on_gap!r} must be fail or skip")
    if most < 1:
        raise SettingsError(f"max_offsets_per_commit={most} must be 1 or more")


def _name(table: str) -> str:
    return table.rstrip("/").rpartition("/")[2]
