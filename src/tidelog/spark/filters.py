"""Filters of a query that become offsets: on topic, partition and offset exactly, on time as a lower bound.

A record's time need not grow with its offset, so `timestamp >= t` says only that nothing before the first record of that
time is wanted, and `timestamp < t` says nothing.  Spark therefore filters by time again.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from tidelog.dataclass import dataclass
from tidelog.names import TopicPartition
from tidelog.spark.planning import Range

_FAR = 1 << 62


@dataclass(frozen=True, slots=True)
class Pushed:
    """What is left to read; None is no limit.  Invariant: nothing that a filter lets through is left out."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    first: int = 0
    stop: int = _FAR
    oldest_ms: int | None = None

    def allows(self, tp: TopicPartition) -> bool:
        return (self.topics is None or tp.topic in self.topics) and (
            self.partitions is None or tp.partition in self.partitions
        )

    def narrows_partitions(self) -> bool:
        return self.topics is not None or self.partitions is not None

    def narrow(self, each: Range) -> Range:
        start = min(max(each.start, self.first), each.end)
        return replace(each, start=start, end=max(start, min(each.end, self.stop)))


def understand(filters: Iterable[Filter]) -> tuple[Pushed, list[Filter]]:
    """What the filters leave to read, and those that Spark must apply itself."""
    pushed, left = Pushed(), []
    for each in filters:
        narrower, exact = _apply(pushed, each)
        pushed = narrower
        if not exact:
            left.append(each)
    return pushed, left


def _apply(pushed: Pushed, each: Filter) -> tuple[Pushed, bool]:
    """The same with one filter more, and whether that filter is done with."""
    path: tuple[str, ...] = getattr(each, "attribute", ())
    name = path[0] if len(path) == 1 else ""
    value = getattr(each, "value", None)
    if isinstance(each, IsNotNull):
        return pushed, name in ("topic", "partition", "offset", "timestamp")
    if value is None:
        return pushed, False
    if name in ("topic", "partition"):
        return _by_set(pushed, each, name, value)
    if name == "offset":
        return _by_offset(pushed, each, value)
    if name == "timestamp" and isinstance(each, EqualTo | GreaterThan | GreaterThanOrEqual):
        time_ms = _milliseconds(value)
        if time_ms is not None:
            return replace(pushed, oldest_ms=max(time_ms, pushed.oldest_ms or 0)), False
    return pushed, False


def _by_set(pushed: Pushed, each: Filter, name: str, value: Any) -> tuple[Pushed, bool]:
    if isinstance(each, EqualTo | EqualNullSafe):
        wanted = frozenset([value])
    elif isinstance(each, In):
        wanted = frozenset(value)
    else:
        return pushed, False
    before = pushed.topics if name == "topic" else pushed.partitions
    kept: Any = wanted if before is None else wanted & before
    if name == "topic":
        return replace(pushed, topics=kept), True
    return replace(pushed, partitions=kept), True


def _by_offset(pushed: Pushed, each: Filter, value: Any) -> tuple[Pushed, bool]:
    first, stop = pushed.first, pushed.stop
    match each:
        case EqualTo() | EqualNullSafe():
            first, stop = max(first, value), min(stop, value + 1)
        case GreaterThan():
            first = max(first, value + 1)
        case GreaterThanOrEqual():
            first = max(first, value)
        case LessThan():
            stop = min(stop, value)
        case LessThanOrEqual():
            stop = min(stop, value + 1)
        case _:
            return pushed, False
    return replace(pushed, first=first, stop=stop), True


def _milliseconds(value: Any) -> int | None:
    if not isinstance(value, datetime):
        return None
    aware = value if value.tzinfo else value.replace(tzinfo=UTC)
    return int(aware.timestamp() * 1000)
