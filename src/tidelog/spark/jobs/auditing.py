"""The audit and the lake: a load as a tier of its own, and tiers counted anew with Spark.

A load with a tier counts its rows by topic and window, and puts the counts into the commit that holds the rows.  They are published to `_audit` after it;
whatever is killed in between, the next load finds in the table what was not published yet.  An event names its commit, so it does no harm if it
comes twice: every row is counted once.

`audit` needs nobody's counts: Spark reads the topics of clusters and the tables of lakes, and counts.
"""

import json
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from tidelog.audit.events import AuditEvent
from tidelog.audit.ledger import Ledger, WindowReport
from tidelog.audit.windows import WINDOW_MS
from tidelog.dataclass import dataclass
from tidelog.errors import KafkaError, SettingsError
from tidelog.spark.lakes import AnyLake
from tidelog.spark.options import for_admin
from tidelog.spark.task import warn
from tidelog.spark.writing import Loaded

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SERVER = "spark"


@dataclass(frozen=True, slots=True)
class LakeTier:
    """Under which name a load counts, and in windows of which length; with a registry for the schema of the counts."""

    name: str
    window_ms: int = WINDOW_MS
    registry: str | None = None


class LoadAudit:
    """What one load tells the audit."""

    def __init__(self, tier: LakeTier, kafka: Mapping[str, str]) -> None:
        self.tier = tier
        self._kafka = for_admin(kafka)
        self._published = -1
        """All commits up to this one have been published, as far as is known."""

    def note(self, done: Sequence[Loaded]) -> dict[str, str]:
        """What the commit of these ranges is to say."""
        counts: dict[str, Counter[int]] = {}
        for each in done:
            counts.setdefault(each.wanted.topic, Counter()).update(each.windows)
        told = {
            "tier": self.tier.name,
            "counter": uuid.uuid4().hex,
            "window_ms": self.tier.window_ms,
            "counts": counts,
        }
        return {"audit": json.dumps(told), "audited": str(self._published)}

    def settle(self, lake: AnyLake) -> None:
        """Publish what commits say and nobody has published; if it cannot be done now, the next one does it."""
        newest, pending = self._pending(lake)
        if not pending:
            return
        try:
            self._publish(pending)
        except (KafkaError, OSError) as error:
            warn(f"the table is loaded, but the audit was not told: {error}; the next load does it")
            return
        self._published = newest

    def _pending(self, lake: AnyLake) -> tuple[int, list[AuditEvent]]:
        newest, floor, found = -1, self._published, []
        for version, note in lake.notes():
            newest = max(newest, version)
            if version <= floor:
                break
            if "audit" in note:
                found.append(note["audit"])
                floor = max(floor, int(note["audited"]))
        events = [event for text in reversed(found) for event in _events(json.loads(text))]
        return newest, events

    def _publish(self, events: Sequence[AuditEvent]) -> None:
        from tidelog.audit.encoding import EventWriter
        from tidelog.audit.events import TOPIC
        from tidelog.audit.topic import TOPIC_CONFIGS
        from tidelog.client.blocking_producer import Producer
        from tidelog.errors import TopicAlreadyExists
        from tidelog.spark.cluster import admin_for

        admin = admin_for(self._kafka)
        if TOPIC not in admin.list_topics(internal=True):
            with suppress(TopicAlreadyExists):  # another was faster
                admin.create_topics({TOPIC: 1}, configs=TOPIC_CONFIGS)
        writer = EventWriter(self.tier.registry)
        with Producer(self._kafka) as producer:
            sent = [producer.send(TOPIC, writer.write(event), key=event.key) for event in events]
            for each in sent:
                each.result()


def _events(told: Mapping[str, object]) -> Iterator[AuditEvent]:
    counts = told["counts"]
    assert isinstance(counts, dict)
    for topic, windows in counts.items():
        for start, count in windows.items():
            yield AuditEvent(
                tier=str(told["tier"]),
                server=_SERVER,
                counter=str(told["counter"]),
                topic=topic,
                window_start_ms=int(start),
                window_ms=int(str(told["window_ms"])),
                count=count,
                published_ms=time.time_ns() // 1_000_000,
            )


def audit(
    spark: "SparkSession",
    topics: Sequence[str],
    tiers: Mapping[str, str],
    kafka: Mapping[str, str],
    *,
    window_ms: int = WINDOW_MS,
    published: Sequence[str] = (),
    grace_ms: int = 0,
) -> list[WindowReport]:
    """What each tier has of the topics, by window; the first tier is what the others are compared with.

    A tier is a cluster, `host:port`, or the directory of a lake.  `kafka` are settings of the clients; of the tiers that are named in `published`, what
    they have themselves told the cluster of `kafka` is taken, and they go before the others.
    """
    names = [*published, *tiers]
    if len(set(names)) < 2 or len(set(names)) < len(names):
        raise SettingsError(f"tiers {', '.join(names) or 'none'}: name at least two, each once")
    ledger = _Chosen(published, grace_ms)
    if published:
        from tidelog.audit.reading import AuditReader

        with AuditReader(for_admin(kafka), ledger) as reader:
            reader.catch_up()
    for name, place in tiers.items():
        for topic, start, count in _counts(_rows(spark, topics, place, kafka), window_ms):
            made = start + window_ms  # when a message came is not known, so none is late
            ledger.counted(AuditEvent(name, _SERVER, _SERVER, topic, start, window_ms, count, made))
    if mixed := ledger.mixed_windows & set(topics):
        raise SettingsError(
            f"{', '.join(sorted(mixed))}: counted in windows of another length than {window_ms} ms; use that"
        )
    return ledger.report(time.time_ns() // 1_000_000, topics=topics, tiers=names)


class _Chosen(Ledger):
    """Takes of what was published only some tiers: the others are counted here."""

    def __init__(self, published: Sequence[str], grace_ms: int) -> None:
        super().__init__(grace_ms=grace_ms)
        self._chosen = set(published)

    def add(self, event: AuditEvent) -> None:
        if event.tier in self._chosen:
            super().add(event)

    def counted(self, event: AuditEvent) -> None:
        super().add(event)


def _rows(
    spark: "SparkSession", topics: Sequence[str], place: str, kafka: Mapping[str, str]
) -> "DataFrame":
    if "/" in place:
        from tidelog.spark.jobs.upkeep import everything

        # What could not be decoded has arrived all the same.
        rows = everything(spark, place)
        return rows.where(rows["topic"].isin(list(topics)))
    options = {f"kafka.{name}": value for name, value in for_admin(kafka).items()}
    options |= {"kafka.bootstrap.servers": place, "kafka.isolation.level": "read_committed"}
    made = spark.read.format("tidelog").schema("topic string, timestamp timestamp")
    return made.options(**options, subscribe=",".join(topics)).load()


def _counts(rows: "DataFrame", window_ms: int) -> list[tuple[str, int, int]]:
    start = f"unix_millis(timestamp) - pmod(unix_millis(timestamp), {window_ms}L) start"
    counted = rows.selectExpr("topic", start).groupBy("topic", "start").count()
    return [(row["topic"], row["start"], row["count"]) for row in counted.collect()]
