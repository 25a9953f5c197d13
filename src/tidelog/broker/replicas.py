"""Makes this broker's logs and partitions follow the image.

`prepare` makes the logs of new partitions, in a thread, before the image that has them is shown.  `apply` is the image's
listener: it deletes logs, lets partitions lead or follow as the image says, and gives running logs their new settings.
What it does is done when it returns, so that whoever waits for a change of the image finds the partitions in place.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from uuid import UUID

from tidelog.broker.replication import Replication
from tidelog.cluster.image import (
    BROKER,
    CLUSTER,
    NO_LEADER,
    TOPIC,
    Delta,
    Image,
    PartitionState,
    Topic,
)
from tidelog.cluster.partition import Partition
from tidelog.cluster.partitions import Partitions
from tidelog.errors import (
    KafkaError,
    KafkaStorageError,
    NotLeaderOrFollower,
    SettingsError,
    UnknownTopicOrPartition,
)
from tidelog.names import TopicPartition
from tidelog.storage.config import LogConfig
from tidelog.storage.flusher import Flusher
from tidelog.storage.manager import LogManager

log = logging.getLogger(__name__)


class Replicas:
    """The bridge between metadata and disk."""

    def __init__(
        self,
        broker_id: int,
        logs: LogManager,
        partitions: Partitions,
        flusher: Flusher,
        log_defaults: Callable[[], LogConfig],
        replication: Replication,
        *,
        begins_empty: bool = False,
    ) -> None:
        """`log_defaults` gives the broker's log settings as they are at the moment.

        `begins_empty`: its directories were empty, and somebody said that what was there is gone for good.
        """
        self._broker_id = broker_id
        self._logs = logs
        self._partitions = partitions
        self._flusher = flusher
        self._log_defaults = log_defaults
        self._replication = replication
        replication.open_again = self._open_again
        self._unopened: dict[tuple[str, int], None] = {}
        """Partitions whose logs could not be made: the disk may only have been full."""
        self._lost: dict[tuple[UUID, int], KafkaStorageError] = {}
        """Replicas whose logs were not found at the start, while a directory could not be read: they must lie there.

        They are offline until a start finds them.  To begin one anew elsewhere would hide its records, let this broker lead
        without them, and leave two of it when the directory is back.
        """
        self._begins_empty = begins_empty
        self._to_begin_anew: set[tuple[UUID, int]] = set()
        """Those of `_lost` that are nowhere: they are begun again as soon as another replica leads."""
        self._image = Image()
        """The last one that was followed."""
        logs.on_offline = self._went_offline

    def resume(self, image: Image) -> None:
        """At the start: hold what `image` says, with the logs that were found.

        A log that was not found may lie on a directory that failed.  Then it is offline.  So it is where this broker was the last in
        sync, and had something: to lead with an empty log would erase what the others have.
        """
        self._image = image
        self._set_strays_aside(image)
        failure = next((each.failure for each in self._logs.directories if each.failure), None)
        for topic in image.topics.values():
            ours = [
                i for i, each in enumerate(topic.partitions) if self._broker_id in each.replicas
            ]
            missing = [i for i in ours if TopicPartition(topic.name, i) not in self._logs]
            if failure is not None:
                self._lost.update(((topic.id, index), failure) for index in missing)
            elif missing:
                self._begin(topic, missing)
            self._host(image, topic, ours)
        self._logs.sync_directories()

    def _begin(self, topic: Topic, missing: Sequence[int]) -> None:
        """Let replicas begin empty whose logs were not found, or hold them back."""
        held_back = [each for each in missing if self._was_last(topic, each)]
        empty = [each for each in missing if each not in held_back]
        if empty:
            log.warning("topic %s: partitions %s have no log and begin empty", topic.name, empty)
        for index in empty:
            self._replication.offline.begin_empty(topic.id, index)
        for index in held_back:
            error = KafkaStorageError(
                f"the log of {topic.name}-{index} is gone from broker {self._broker_id}, the last in sync"
            )
            log.error(
                "%s: bring it back and start again, or let another replica lead with what it has: "
                "tidelog cluster elect --unclean %s",
                error,
                topic.name,
            )
            self._lost[topic.id, index] = error
            self._to_begin_anew.add((topic.id, index))

    def _was_last(self, topic: Topic, index: int) -> bool:
        """Whether only this broker was in sync, other replicas exist, and it had a log."""
        state, where = topic.partitions[index], TopicPartition(topic.name, index)
        if state.isr != (self._broker_id,) or len(state.replicas) == 1:
            return False
        had_one = any(each.high_watermarks.get(where) for each in self._logs.directories)
        return had_one or self._begins_empty or self._broker_id in state.offline

    def _set_strays_aside(self, image: Image) -> None:
        """Set aside logs of topics that were deleted, or of replicas that were moved, while this broker was down.

        They are not deleted: with metadata that was brought back from a backup, everything newer would be.
        """
        for each in self._logs:
            where = each.topic_partition
            if each.topic_id is None:
                continue
            state = image.maybe_partition(each.topic_id, where.partition)
            if state is None or self._broker_id not in state.replicas:
                path = self._logs.set_aside(where)
                log.warning(
                    "%s is no replica of this broker any more; its files are set aside, remove %s to have the room",
                    where,
                    path,
                )

    async def prepare(self, image: Image, delta: Delta) -> None:
        """Make the logs that `image` will need: thousands take seconds, in which others are to be served."""
        wanted = []
        for topic, indexes in _new_partitions(image, delta):
            config = self.topic_config(image, topic.name)
            for index in indexes:
                held = self._broker_id in topic.partitions[index].replicas
                if held and (topic.id, index) not in self._lost:
                    wanted.append((TopicPartition(topic.name, index), topic.id, config))
        if wanted:
            await self._logs.create_many(wanted)

    def apply(self, image: Image, delta: Delta) -> None:
        self._image = image
        for topic in delta.deleted:
            self._delete(topic)
        # First: a smaller ISR must not commit by an older min.insync.replicas.
        self._configure(image, delta)
        for topic, indexes in _new_partitions(image, delta):
            self._host(image, topic, indexes)
        self._logs.sync_directories()

    def topic_config(self, image: Image, topic: str) -> LogConfig:
        """The settings of a topic's logs."""
        try:
            return self._log_defaults().over(image.topic_config(topic))
        except SettingsError as error:
            # Written by another version of tidelog; a log with the defaults is better than none.
            log.error("the settings of topic %s are ignored: %s", topic, error)
            return self._log_defaults()

    def _host(self, image: Image, topic: Topic, indexes: Iterable[int]) -> None:
        config = self.topic_config(image, topic.name)
        for index in indexes:
            state = topic.partitions[index]
            if (topic.id, index) in self._to_begin_anew and _leads_another(state, self._broker_id):
                self._forget_lost(topic, index)
            try:
                if self._broker_id in state.replicas:
                    self._take_role(self._hosted(topic, index, state, config), state)
                elif self._held(topic, index):
                    log.info("%s-%d has been moved to %s", topic.name, index, list(state.replicas))
                    self._remove(topic.name, index, NotLeaderOrFollower())
                    self._forget_lost(topic, index)
            except KafkaStorageError as error:
                self._not_opened(topic, index, error)
            else:
                self._unopened.pop((topic.name, index), None)
            self._replication.offline.changed(topic.id, index)

    def _forget_lost(self, topic: Topic, index: int) -> None:
        self._lost.pop((topic.id, index), None)
        self._to_begin_anew.discard((topic.id, index))
        self._replication.offline.forget(topic.id, index)

    def _held(self, topic: Topic, index: int) -> bool:
        """Whether there is a replica here, offline or not."""
        return (
            (topic.id, index) in self._lost
            or self._partitions.maybe_hosted(topic.name, index) is not None
            or TopicPartition(topic.name, index) in self._logs
        )

    def _not_opened(self, topic: Topic, index: int, error: KafkaStorageError) -> None:
        """It is offline: for good if its directory failed, else until there is room."""
        self._partitions.set_offline(topic.name, index, error)
        if (topic.id, index) in self._lost or TopicPartition(topic.name, index) in self._logs:
            self._replication.offline.add(topic.id, index)
            return
        if (topic.name, index) not in self._unopened:
            log.error("partition %s-%d cannot be opened: %s", topic.name, index, error)
        self._unopened[topic.name, index] = None
        self._replication.resigning.begin(topic.id, index)

    def _open_again(self) -> None:
        """Try to open what could not be opened; a directory that failed for good stays offline."""
        if not self._unopened or all(each.failure for each in self._logs.directories):
            return
        for name, index in list(self._unopened):
            topic = self._image.topics.get(name)
            if topic is None or index >= len(topic.partitions):
                del self._unopened[name, index]
            else:
                self._host(self._image, topic, [index])
        self._logs.sync_directories()

    def _hosted(
        self, topic: Topic, index: int, state: PartitionState, config: LogConfig
    ) -> Partition:
        """The replica of this broker, begun if need be."""
        known = self._partitions.maybe_hosted(topic.name, index)
        if known is not None and known.topic_id == topic.id:
            return known
        where = TopicPartition(topic.name, index)
        lost = self._lost.get((topic.id, index))
        if lost is not None:
            raise lost
        if known is not None:
            self._remove(topic.name, index, UnknownTopicOrPartition())
        old = self._logs.get(where)
        if old is not None and old.topic_id not in (None, topic.id):
            # Left over from a topic of the same name whose deletion was cut short by a crash.
            log.warning("%s is of a deleted topic with the same name; it is removed", where)
            self._logs.delete(where)
        elif (
            old is not None
            and old.topic_id is None
            and len(state.replicas) > 1
            and self._broker_id not in (*state.isr, *state.eligible)
        ):
            # The note of its topic was lost in a crash; it may be a deleted one's, and others have what this one had.
            log.warning("%s does not tell of which topic it is; it is fetched anew", where)
            self._logs.delete(where)
        found = self._logs.get_or_create(where, topic.id, config, sync=False)
        if len(state.replicas) > 1:
            noted = self._logs.noted_high_watermark(where)
            found.high_watermark = max(min(noted, found.log_end_offset), found.log_start_offset)
        partition = Partition(
            topic.name,
            index,
            topic.id,
            found,
            flusher=self._flusher,
            surroundings=self._replication.surroundings,
            traffic=self._partitions.traffic.of(topic.name),
        )
        found.on_full = partial(self._replication.resigning.begin, topic.id, index)
        self._partitions.add(partition)
        return partition

    def _take_role(self, partition: Partition, state: PartitionState) -> None:
        fetchers = self._replication.fetchers
        if state.leader == self._broker_id:
            fetchers.leave(partition)
            partition.become_leader(state)
        elif partition.become_follower(state):
            fetchers.follow(partition)
        self._partitions.role_changed(partition)

    def _delete(self, topic: Topic) -> None:
        for index, state in enumerate(topic.partitions):
            known = self._partitions.maybe_hosted(topic.name, index)
            if self._broker_id in state.replicas if known is None else known.topic_id == topic.id:
                self._remove(topic.name, index, UnknownTopicOrPartition())
                self._forget_lost(topic, index)

    def _remove(self, topic: str, index: int, error: KafkaError) -> None:
        partition = self._partitions.maybe_hosted(topic, index)
        if partition is not None:
            self._replication.fetchers.leave(partition)
        self._partitions.remove(topic, index, error)
        try:
            self._logs.delete(TopicPartition(topic, index))
        except KafkaError as failure:
            log.error("partition %s-%d was not removed: %s", topic, index, failure)

    def _configure(self, image: Image, delta: Delta) -> None:
        """Give logs their new settings; a change of the broker's reaches every topic."""
        if any(kind in (BROKER, CLUSTER) for kind, _ in delta.configs):
            changed = set(image.topics)
        else:
            changed = {name for kind, name in delta.configs if kind == TOPIC}
        for name in changed & image.topics.keys():
            config = self.topic_config(image, name)
            for index in range(len(image.topics[name].partitions)):
                partition = self._partitions.maybe_hosted(name, index)
                if partition is not None and partition.log.config != config:
                    partition.log.set_config(config)

    def _went_offline(self, partitions: list[TopicPartition], error: KafkaStorageError) -> None:
        for each in partitions:
            partition = self._partitions.maybe_hosted(each.topic, each.partition)
            if partition is not None:
                self._replication.fetchers.leave(partition)
            self._partitions.set_offline(each.topic, each.partition, error)
            topic = self._image.topics.get(each.topic)
            if topic is not None:
                self._replication.offline.add(topic.id, each.partition)
                # A controller of an older version is not told of offline replicas; to leave the ISR it understands.
                self._replication.resigning.begin(topic.id, each.partition, for_good=True)


def _leads_another(state: PartitionState, broker_id: int) -> bool:
    return state.leader not in (NO_LEADER, broker_id)


def _new_partitions(image: Image, delta: Delta) -> Iterator[tuple[Topic, Sequence[int]]]:
    """The partitions that came or changed, by topic."""
    for topic in delta.created:
        yield topic, range(len(topic.partitions))
    for name, indexes in delta.partitions.items():
        yield image.topics[name], sorted(indexes)
