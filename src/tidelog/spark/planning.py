"""Which offsets are read, by which task: values in, values out.

A range is `start <= offset < end` of one partition.  The limits and the split are those of Spark's own Kafka connector
(KafkaMicroBatchStream.rateLimit, KafkaOffsetRangeCalculator), so that options mean what people know.
"""

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from tidelog.dataclass import dataclass
from tidelog.errors import OffsetOutOfRange, SettingsError, UnknownTopicOrPartition
from tidelog.names import TopicPartition

Offsets = dict[TopicPartition, int]
TopicIds = dict[str, str]
"""The id of each topic: one that is deleted and created again has another."""

_IDS = "topic:ids"
"""Where ids stand beside offsets; no topic can have this name."""


class DataLost(OffsetOutOfRange):
    """Records that should have been read are not there any more."""


@dataclass(frozen=True, slots=True)
class Range:
    """Offsets of one partition that one task reads.  Invariant: 0 <= start <= end."""

    topic: str
    partition: int
    start: int
    end: int
    from_earliest: bool = False
    """The query begins where the log begins: what was deleted before it is read is not missed."""
    to_latest: bool = False
    """The query ends where the log ends, and this is its last range: its task asks where that is."""

    def __len__(self) -> int:
        return self.end - self.start


def to_json(
    offsets: Mapping[TopicPartition, int], ids: Mapping[str, str] | None = None
) -> dict[str, dict[str, Any]]:
    """The form in which Spark's own connector keeps offsets in a checkpoint, with the topics' ids beside them."""
    shown: dict[str, dict[str, Any]] = {}
    for topic, partition in sorted(offsets):
        shown.setdefault(topic, {})[str(partition)] = offsets[TopicPartition(topic, partition)]
    if ids:
        shown[_IDS] = {topic: ids[topic] for topic in sorted(ids) if topic in shown}
    return shown


def from_json(shown: Mapping[str, Mapping[str, Any]]) -> Offsets:
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, partitions in shown.items()
        if topic != _IDS
        for partition, offset in partitions.items()
    }


def ids_in(shown: Mapping[str, Mapping[str, Any]]) -> TopicIds:
    """The ids that stand beside offsets; none in what was written without."""
    return dict(shown.get(_IDS, {}))


def created_again(known: TopicIds, now: TopicIds) -> dict[str, str]:
    """The topics that are not those whose offsets are known, each with a sentence that says so.

    A known id may be cut short, if that is all that could be kept of it.
    """
    return {
        topic: f"{topic} was deleted and created again: the offsets are of id {known[topic]}, it has {now[topic]}"
        for topic in known
        if topic in now and not now[topic].startswith(known[topic])
    }


def exactly(named: Iterable[TopicPartition], there: Iterable[TopicPartition], option: str) -> None:
    """Offsets must be given for just the partitions that there are, or one would begin where nobody expects it."""
    wanted, found = set(named), set(there)
    if missing := found - wanted:
        raise SettingsError(f"{option} lacks {_listed(missing)}; -2 is the beginning, -1 the end")
    if extra := wanted - found:
        raise UnknownTopicOrPartition(f"{option} names {_listed(extra)}, which is not read")


def limited(start: Offsets, end: Offsets, limit: int) -> Offsets:
    """Where to end if at most about `limit` offsets may be read: each partition gets its share, and at least one."""
    sizes = {tp: end[tp] - start[tp] for tp in end if end[tp] > start.get(tp, end[tp])}
    total = sum(sizes.values())
    if total <= limit:
        return dict(end)
    stops = dict(end)
    for tp, size in sizes.items():
        share = limit * size / total
        whole = math.ceil(share) if share < 1 else math.floor(share)
        stops[tp] = min(end[tp], start[tp] + whole)
    return stops


def ranges(start: Offsets, end: Offsets) -> list[Range]:
    """What lies between, for each partition in which there is something."""
    return [
        Range(*tp, start[tp], end[tp]) for tp in sorted(end) if tp in start and start[tp] < end[tp]
    ]


def split(whole: list[Range], min_partitions: int = 0, max_records: int = 0) -> list[Range]:
    """The ranges, cut so that there are about as many as are wanted, by size; the same input is always cut alike."""
    total = sum(map(len, whole))
    cut: list[Range] = []
    for each in whole:
        parts = math.ceil(len(each) / max_records) if max_records else 1
        if min_partitions > len(whole):
            parts = max(parts, round(len(each) / max(total, 1) * min_partitions))
        parts = max(1, min(parts, len(each)))
        edges = [each.start + len(each) * number // parts for number in range(parts + 1)]
        pieces = [
            replace(each, start=first, end=stop, to_latest=False)
            for first, stop in itertools.pairwise(edges)
        ]
        pieces[-1] = replace(pieces[-1], to_latest=each.to_latest)
        cut += pieces
    return cut


def without_lost(
    start: Offsets, end: Offsets, earliest: Offsets, latest: Offsets
) -> tuple[Offsets, Offsets, list[str]]:
    """Where reading can really begin and end, and what is lost of `start` to `end`, in words."""
    begin: Offsets = {}
    until: Offsets = {}
    lost: list[str] = []
    for tp, stop in end.items():
        first = start.get(tp, 0)
        if tp not in latest:
            if first < stop:
                lost.append(f"{tp} was deleted, with offsets {first} to {stop - 1}")
            continue
        if latest[tp] < stop:
            lost.append(f"{tp} ends at {latest[tp]}, before {stop}: was it truncated or made anew?")
            stop = latest[tp]
        if first < earliest[tp] and first < stop:
            gone = min(earliest[tp], stop) - 1
            lost.append(f"{tp} begins at {earliest[tp]}: offsets {first} to {gone} are gone")
        begin[tp] = min(max(first, earliest[tp]), stop)
        until[tp] = stop
    lost += [f"{tp} was deleted" for tp in start if tp not in latest and tp not in end]
    return begin, until, lost


def lost_data(lost: list[str]) -> DataLost:
    """What is raised when data loss is to fail the query."""
    return DataLost(
        f"data was lost to retention or deletion: {'; '.join(lost)}. "
        "With failOnDataLoss=false the query goes on with what there is"
    )


def _listed(partitions: set[TopicPartition]) -> str:
    return ", ".join(map(str, sorted(partitions)))
