"""What planning asks the brokers: which partitions there are, and where they begin and end.

One client is kept for each set of settings in a process, because Spark keeps its Python processes from task to task and a
new connection costs more than the question.  After a fork a new one is made.
"""

import os
import re
from collections.abc import Iterable, Mapping

from tidelog.client.admin import Admin
from tidelog.errors import UnknownTopicOrPartition
from tidelog.names import TopicPartition
from tidelog.spark.options import EARLIEST, LATEST, Position, SourceOptions, for_admin
from tidelog.spark.planning import Offsets, TopicIds, exactly

_admins: dict[tuple[int, tuple[tuple[str, str], ...]], Admin] = {}


def admin_for(kafka: Mapping[str, str]) -> Admin:
    """The client of this process for these settings."""
    key = (os.getpid(), tuple(sorted(for_admin(kafka).items())))
    if key not in _admins:
        _admins[key] = Admin(dict(key[1]))
    return _admins[key]


class Brokers:
    """The questions of one query."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._admin = admin_for(options.kafka)

    def partitions(self) -> list[TopicPartition]:
        """What is to be read, as of now."""
        options = self._options
        topics = list(options.subscribe) or sorted({each.topic for each in options.assign})
        if options.pattern:
            wanted = re.compile(options.pattern)
            topics = [name for name in self._admin.list_topics() if wanted.search(name)]
            if not topics:
                return []
        there = [
            TopicPartition(name, part.partition)
            for name, topic in self._admin.describe_topics(topics).items()
            for part in topic.partitions
        ]
        if not options.assign:
            return sorted(there)
        for tp in options.assign:
            if tp not in there:
                raise UnknownTopicOrPartition(f"there is no {tp}, which assign names")
        return sorted(options.assign)

    def existing(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Those of the partitions that still are there."""
        names = set(self._admin.list_topics(internal=True)) & {tp.topic for tp in partitions}
        if not names:
            return []
        found = self._admin.describe_topics(sorted(names))
        there = {
            TopicPartition(name, part.partition)
            for name, topic in found.items()
            for part in topic.partitions
        }
        return [tp for tp in partitions if tp in there]

    def topic_ids(self, topics: Iterable[str]) -> TopicIds:
        """The ids of those topics that are there and have one; Kafka's have since 2.8."""
        names = sorted(set(self._admin.list_topics(internal=True)) & set(topics))
        found = self._admin.describe_topics(names) if names else {}
        return {name: str(each.id) for name, each in found.items() if each.id.int}

    def at(self, time_ms: int, partitions: list[TopicPartition]) -> Offsets:
        """The first offset at or after a time in each; -1 and -2 are the ends; -1 where there is none."""
        return self._find(dict.fromkeys(partitions, time_ms))

    def earliest(self, partitions: list[TopicPartition]) -> Offsets:
        return self.at(EARLIEST, partitions)

    def latest(self, partitions: list[TopicPartition]) -> Offsets:
        """Where each ends for this reader: before open transactions, if it reads only what is committed."""
        return self.at(LATEST, partitions)

    def resolve(self, position: Position, partitions: list[TopicPartition], option: str) -> Offsets:
        """The offsets that a position stands for."""
        if position.everywhere is not None:
            return self.at(position.everywhere, partitions)
        if position.offsets:
            exactly(position.offsets, partitions, f"{option}Offsets")
            ends = {tp: each for tp, each in position.offsets.items() if each < 0}
            return {**position.offsets, **self._find(ends)}
        if position.times_ms:
            exactly(position.times_ms, partitions, f"{option}OffsetsByTimestamp")
        times = position.times_ms or dict.fromkeys(partitions, position.time_ms or 0)
        found = self._find(times)
        missing = [tp for tp, offset in found.items() if offset < 0]
        if missing and option == "starting" and not self._options.time_missing_is_latest:
            raise UnknownTopicOrPartition(
                f"nothing in {', '.join(map(str, missing))} is as new as the starting time; "
                "startingOffsetsByTimestampStrategy=latest begins at the end"
            )
        return {**found, **self.latest(missing)} if missing else found

    def publish(self, group: str, offsets: Offsets) -> None:
        """Tell a group how far the query has come, so that its lag shows."""
        if offsets:
            self._admin.alter_group_offsets(group, offsets)

    def _find(self, times: Mapping[TopicPartition, int]) -> Offsets:
        if not times:
            return {}
        found = self._admin.list_offsets(times, committed=self._options.committed_only)
        return {tp: each.offset for tp, each in found.items()}
