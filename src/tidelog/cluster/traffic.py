"""What goes through the partitions of a topic: plain integers, added to once for an answer, never for a record.

    traffic = topics.of("orders")        # shared by all partitions of the topic that are here
    traffic.bytes_out += region.length

What producers write is not even counted for a batch: logs know how much they have grown (`Partition.count_in`).

The numbers of a topic that is deleted, or that has moved away, stay in those of the broker: a sum never goes back.
"""

from collections.abc import Iterator
from dataclasses import fields

from tidelog.dataclass import dataclass
from tidelog.storage.log import Log


@dataclass(slots=True)
class Traffic:
    """Of one topic, since the broker's start."""

    messages_in: int = 0
    """From producers, at the last look."""
    bytes_in: int = 0
    bytes_out: int = 0
    """To consumers."""
    bytes_rejected: int = 0
    replication_bytes_in: int = 0
    replication_bytes_out: int = 0
    failed_produces: int = 0
    failed_fetches: int = 0

    def add(self, other: "Traffic") -> None:
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))


class Growth:
    """How much a log has grown while this broker leads: it knows, so an append need not say so."""

    __slots__ = ("_bytes", "_offset")

    def __init__(self, log: Log) -> None:
        """From now on."""
        self._offset, self._bytes = log.log_end_offset, log.appended_bytes

    def count(self, log: Log, traffic: Traffic) -> None:
        """Add what was appended since the last time."""
        end, size = log.log_end_offset, log.appended_bytes
        traffic.messages_in += end - self._offset
        traffic.bytes_in += size - self._bytes
        self._offset, self._bytes = end, size


class TopicsTraffic:
    """Of all topics."""

    def __init__(self) -> None:
        self._topics: dict[str, Traffic] = {}
        self._gone = Traffic()
        """Of topics that are no longer here."""

    def of(self, topic: str) -> Traffic:
        """The numbers of a topic that is here."""
        found = self._topics.get(topic)
        if found is None:
            found = self._topics[topic] = Traffic()
        return found

    def maybe_of(self, topic: str) -> Traffic:
        """For what was asked of a topic that may not be here: then it counts for the broker alone."""
        return self._topics.get(topic, self._gone)

    def forget(self, topic: str) -> None:
        """No partition of the topic is here any more."""
        found = self._topics.pop(topic, None)
        if found is not None:
            self._gone.add(found)

    def __iter__(self) -> Iterator[tuple[str, Traffic]]:
        return iter(list(self._topics.items()))

    def total(self) -> Traffic:
        """Of the broker."""
        total = Traffic()
        total.add(self._gone)
        for each in self._topics.values():
            total.add(each)
        return total
