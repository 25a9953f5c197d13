"""Which source offset became which target offset: sparse, per partition, and never too far.

An entry (source, target) says that everything before `source` lies before `target`.  A group that has committed an
offset not below `source` may therefore go on at `target` without losing anything; what it reads twice is at most what was
passed on between two entries.  The entries are kept in a compacted topic at the target, in a ring of slots for each
partition, so that the topic stays small and the last entries stay in it.
"""

import bisect
import json
from dataclasses import field

from tidelog.dataclass import dataclass
from tidelog.names import TopicPartition

SLOTS = 256
"""So many entries are kept for each partition."""


@dataclass(slots=True)
class _Entries:
    sources: list[int] = field(default_factory=list)
    targets: list[int] = field(default_factory=list)
    # Invariant: both rise, and have the same length, at most SLOTS.
    written: int = 0


class OffsetMap:
    """The entries of one source."""

    def __init__(self) -> None:
        self._partitions: dict[TopicPartition, _Entries] = {}

    def note(self, tp: TopicPartition, source: int, target: int) -> bool:
        """Everything of the source's partition before `source` lies before `target`; False if that is nothing new."""
        entries = self._partitions.setdefault(tp, _Entries())
        if entries.sources and source <= entries.sources[-1]:
            return False
        if entries.targets and target < entries.targets[-1]:
            # The target's partition was made anew: what was known is about another one.
            entries.sources.clear()
            entries.targets.clear()
        entries.sources.append(source)
        entries.targets.append(target)
        entries.written += 1
        if len(entries.sources) > SLOTS:
            del entries.sources[0], entries.targets[0]
        return True

    def translate(self, tp: TopicPartition, offset: int) -> int | None:
        """Where a group goes on at the target that goes on at `offset` at the source; None if that is not known."""
        entries = self._partitions.get(tp)
        if entries is None:
            return None
        place = bisect.bisect_right(entries.sources, offset) - 1
        return entries.targets[place] if place >= 0 else None

    def last(self, tp: TopicPartition) -> tuple[int, int] | None:
        """The newest entry."""
        entries = self._partitions.get(tp)
        if entries is None or not entries.sources:
            return None
        return entries.sources[-1], entries.targets[-1]

    def record(self, tp: TopicPartition) -> tuple[bytes, bytes]:
        """Key and value of the newest entry, for the topic."""
        entries = self._partitions[tp]
        key = [tp.topic, tp.partition, entries.written % SLOTS]
        value = {"source": entries.sources[-1], "target": entries.targets[-1]}
        return json.dumps(key).encode(), json.dumps(value).encode()

    def replay(self, key: bytes | None, value: bytes | None) -> None:
        """Take over what a mirror wrote before; records of the topic in their order."""
        if key is None or value is None:
            return
        topic, partition, slot = json.loads(key)
        entry = json.loads(value)
        tp = TopicPartition(topic, partition)
        if self.note(tp, entry["source"], entry["target"]):
            self._partitions[tp].written = slot
