"""How far behind a group is, whether that grows, and when retention reaches it.

The past need not be waited for: the group's commits of the last minutes are records of `__consumer_offsets`, and brokers know
where each partition ended at those moments.  So the lag then is compared with the lag now.  Between two commits a reader seems to
stand still, hence both ends of the comparison are moments at which it has committed.

What follows from the evidence is in `tidelog.lag`; here brokers are asked for it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tidelog.errors import KafkaError, ProtocolError
from tidelog.lag import SHORTEST_MS, Evidence, Moment, Verdict, judge
from tidelog.names import CONSUMER_OFFSETS, TopicPartition

if TYPE_CHECKING:
    from tidelog.client.admin import Admin
    from tidelog.client.simple import SimpleConsumer

WINDOW_MS = 300_000
"""How far back commits are looked at."""

_FRESH_MS = 15_000
"""After a commit this old the reader is taken to stand still: clients commit every five seconds unless told otherwise."""
_HISTORY_BYTES = 16 << 20
_FETCH_BYTES = 1 << 20
_LATEST, _EARLIEST = -1, -2


# ---------------------------------------------------------------------- asking the brokers


class Commit(NamedTuple):
    at_ms: int
    offset: int


class Prober:
    """Finds the evidence."""

    def __init__(self, admin: "Admin", reader: "SimpleConsumer", now_ms: int) -> None:
        self._admin = admin
        self._reader = reader
        self._now_ms = now_ms
        self._configs: dict[str, tuple[int, int]] = {}
        self._sizes: dict[TopicPartition, int] | None = None
        """Bytes of the largest replica, once somebody wants to know."""

    def verdicts(
        self, group: str, committed: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, Verdict]:
        """How the group stands in each partition that it has committed."""
        if not committed:
            return {}
        ends = self._offsets(dict.fromkeys(committed, _LATEST))
        begins = self._offsets(dict.fromkeys(ends, _EARLIEST))
        # Of a partition without a leader nothing is known.
        committed = {tp: each for tp, each in committed.items() if tp in begins}
        behind = {tp: each for tp, each in committed.items() if each < ends[tp]}
        history = self._history(group, behind) if behind else None
        spans = {} if history is None else {tp: self._span(history.get(tp, [])) for tp in behind}
        ends_then = self._offsets({tp: span[0].at_ms for tp, span in spans.items()})
        ends_later = self._offsets(
            {tp: span[1].at_ms for tp, span in spans.items() if span[1] is not None}
        )
        found = {}
        for tp, offset in committed.items():
            now = self._moment(tp, self._now_ms, offset, ends[tp])
            if tp not in spans:
                found[tp] = judge(Evidence(now, None, None, begins[tp]))
                continue
            first, last = spans[tp]
            # Before the window nothing is known of the reader but that it has not moved since.
            place = first.offset if first.offset >= 0 else offset
            then = self._moment(tp, first.at_ms, place, _end(ends_then, tp, ends))
            later = last and self._moment(tp, last.at_ms, last.offset, _end(ends_later, tp, ends))
            retention_ms, retention_bytes = self._retention(tp.topic)
            retained = None
            if retention_bytes >= 0:
                retained = self._retained(tp, retention_bytes, ends[tp] - begins[tp])
            found[tp] = judge(Evidence(now, then, later, begins[tp], retention_ms, retained))
        return found

    def _span(self, commits: Sequence[Commit]) -> tuple[Commit, Commit | None]:
        """The moments to compare; an offset of -1 is that of now, and None is now."""
        if not commits:
            return Commit(self._now_ms - WINDOW_MS, -1), None
        last = commits[-1]
        fresh = self._now_ms - last.at_ms <= _FRESH_MS
        if fresh and last.at_ms - commits[0].at_ms >= SHORTEST_MS:
            return commits[0], last
        return commits[0], None

    def _moment(self, tp: TopicPartition, at_ms: int, committed: int, log_end: int) -> Moment:
        since = self._timestamp(tp, committed) if committed < log_end else None
        return Moment(at_ms, committed, log_end, since)

    def _timestamp(self, tp: TopicPartition, offset: int) -> int | None:
        try:
            found = self._reader.fetch(tp.topic, tp.partition, offset, max_bytes=1)
        except KafkaError:
            return None  # retention has passed the group by, or the partition has no leader
        return found[0].timestamp if found else None

    def _offsets(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        found = self._admin.list_offsets(times, led=True) if times else {}
        return {tp: each.offset for tp, each in found.items()}

    def _retention(self, topic: str) -> tuple[int, int]:
        if topic not in self._configs:
            configs = self._admin.describe_topic_configs(topic)
            values = {name: configs[name].value or "" for name in _RETENTION if name in configs}
            deletes = "delete" in values.get("cleanup.policy", "delete")
            limits = [int(values.get(name) or -1) for name in _RETENTION[1:]]
            self._configs[topic] = (limits[0], limits[1]) if deletes else (-1, -1)
        return self._configs[topic]

    def _retained(self, tp: TopicPartition, retention_bytes: int, there: int) -> int | None:
        if self._sizes is None:
            self._sizes = {}
            for directories in self._admin.describe_log_dirs().values():
                for each in directories:
                    for place, replica in each.replicas.items():
                        self._sizes[place] = max(replica.size, self._sizes.get(place, 0))
        size = self._sizes.get(tp, 0)
        return retention_bytes * there // size if size else None

    def _history(
        self, group: str, wanted: Iterable[TopicPartition]
    ) -> dict[TopicPartition, list[Commit]] | None:
        """The group's commits of the last minutes; None where the topic that has them may not be read."""
        try:
            return self._read_history(group, set(wanted))
        except (KafkaError, ProtocolError):
            return None

    def _read_history(
        self, group: str, wanted: set[TopicPartition]
    ) -> dict[TopicPartition, list[Commit]]:
        from tidelog.coordination.groups.records import decode_change
        from tidelog.coordination.groups.records.offset_commit import (
            OffsetCommitKey,
            OffsetCommitValue,
        )
        from tidelog.coordination.shards import shard_of

        topic = self._admin.describe_topics([CONSUMER_OFFSETS])[CONSUMER_OFFSETS]
        home = TopicPartition(CONSUMER_OFFSETS, shard_of(group, len(topic.partitions)))
        # The group's own coordinator leads it, and has just told what it has committed.
        end = self._admin.list_offsets({home: _LATEST})[home].offset
        offset = self._admin.list_offsets({home: self._now_ms - WINDOW_MS})[home].offset
        found: dict[TopicPartition, list[Commit]] = {}
        seen_bytes = 0
        while 0 <= offset < end and seen_bytes < _HISTORY_BYTES:
            messages = self._reader.fetch(*home, offset, max_bytes=_FETCH_BYTES)
            if not messages:
                break  # what is left are the marks of transactions
            for each in messages:
                seen_bytes += len(each.key or b"") + len(each.value or b"")
                change = decode_change(each.key or b"", each.value)
                if change is None or not isinstance(change.key, OffsetCommitKey):
                    continue
                tp = TopicPartition(change.key.topic, change.key.partition)
                mine = change.key.group == group and tp in wanted
                if mine and isinstance(change.value, OffsetCommitValue):
                    commit = Commit(each.timestamp, change.value.offset)
                    found.setdefault(tp, []).append(commit)
            offset = messages[-1].offset + 1
        return found


_RETENTION = ("cleanup.policy", "retention.ms", "retention.bytes")


def _end(
    found: Mapping[TopicPartition, int], tp: TopicPartition, ends: Mapping[TopicPartition, int]
) -> int:
    """Where the partition ended at a moment; nothing younger is the same end as now."""
    return found[tp] if found[tp] >= 0 else ends[tp]


# ---------------------------------------------------------------------- words


def duration(seconds: float | None) -> str | None:
    """`3 h 12 min`: the two largest units that matter."""
    if seconds is None:
        return None
    left = round(seconds)
    if left < 60:
        return f"{seconds:.1f} s" if seconds < 10 and seconds != left else f"{left} s"
    units = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
    words: list[str] = []
    for name, size in units:
        count, left = divmod(left, size)
        if count or words:
            words.append(f"{count} {name}" if count else "")
        if len(words) == 2:
            break
    return " ".join(filter(None, words))


def trend(verdict: Verdict) -> str | None:
    """Whether the lag grows, in words."""
    rate = verdict.lag_per_second
    if rate is None:
        return None
    if abs(rate) < 0.05:
        return "steady"
    return f"growing {rate:g}/s" if rate > 0 else f"shrinking {-rate:g}/s"


def forecast(verdict: Verdict) -> str | None:
    """What retention does to the group, in words."""
    if verdict.lost:
        return f"has deleted {verdict.lost} unread"
    if verdict.overtaken_in_seconds is None:
        return None
    return f"reaches it in {duration(verdict.overtaken_in_seconds)}"
