"""Makes this broker's logs and partitions follow the image.

`prepare` makes the logs of new partitions, in a thread, before the image that has them is shown.  `apply` is the image's
listener: it deletes logs, registers the partitions that this broker leads, and gives running logs their new settings.
What it does is done when it returns, so that whoever waits for a change of the image finds the partitions in place.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence

from tidelog.cluster.image import BROKER, TOPIC, Delta, Image, Topic
from tidelog.cluster.partition import Partition, Partitions
from tidelog.errors import KafkaError, KafkaStorageError, SettingsError
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
    ) -> None:
        """`log_defaults` gives the broker's log settings as they are at the moment."""
        self._broker_id = broker_id
        self._logs = logs
        self._partitions = partitions
        self._flusher = flusher
        self._log_defaults = log_defaults
        logs.on_offline = self._went_offline

    async def prepare(self, image: Image, delta: Delta) -> None:
        """Make the logs that `image` will need: thousands take seconds, in which others are to be served."""
        wanted = []
        for topic, indexes in _new_partitions(image, delta):
            config = self.topic_config(image, topic.name)
            for index in indexes:
                if self._broker_id in topic.partitions[index].replicas:
                    wanted.append((TopicPartition(topic.name, index), topic.id, config))
        if wanted:
            await self._logs.create_many(wanted)

    def apply(self, image: Image, delta: Delta) -> None:
        for topic in delta.deleted:
            self._delete(topic)
        for topic, indexes in _new_partitions(image, delta):
            self._host(image, topic, indexes)
        self._logs.sync_directories()
        self._configure(image, delta)

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
            if self._broker_id not in state.replicas:
                continue
            try:
                self._lead(topic, index, state.leader_epoch, config)
            except KafkaStorageError as error:
                log.error("partition %s-%d cannot be opened: %s", topic.name, index, error)
                self._partitions.set_offline(topic.name, index, error)

    def _lead(self, topic: Topic, index: int, leader_epoch: int, config: LogConfig) -> None:
        known = self._partitions.maybe_get(topic.name, index)
        if known is not None and known.topic_id == topic.id:
            known.leader_epoch = leader_epoch
            return
        where = TopicPartition(topic.name, index)
        old = self._logs.get(where)
        if old is not None and old.topic_id not in (None, topic.id):
            # Left over from a topic of the same name whose deletion was cut short by a crash.
            log.warning("%s is of a deleted topic with the same name; it is removed", where)
            self._logs.delete(where)
        found = self._logs.get_or_create(where, topic.id, config, sync=False)
        self._partitions.add(
            Partition(topic.name, index, topic.id, found, leader_epoch, flusher=self._flusher)
        )

    def _delete(self, topic: Topic) -> None:
        for index, state in enumerate(topic.partitions):
            if self._broker_id not in state.replicas:
                continue
            self._partitions.remove(topic.name, index)
            try:
                self._logs.delete(TopicPartition(topic.name, index))
            except KafkaError as error:
                log.error("partition %s-%d was not removed: %s", topic.name, index, error)

    def _configure(self, image: Image, delta: Delta) -> None:
        """Give logs their new settings; a change of the broker's reaches every topic."""
        if any(kind == BROKER for kind, _ in delta.configs):
            changed = set(image.topics)
        else:
            changed = {name for kind, name in delta.configs if kind == TOPIC}
        for name in changed & image.topics.keys():
            config = self.topic_config(image, name)
            for index in range(len(image.topics[name].partitions)):
                partition = self._partitions.maybe_get(name, index)
                if partition is not None and partition.log.config != config:
                    partition.log.set_config(config)

    def _went_offline(self, partitions: list[TopicPartition], error: KafkaStorageError) -> None:
        for each in partitions:
            self._partitions.set_offline(each.topic, each.partition, error)


def _new_partitions(image: Image, delta: Delta) -> Iterator[tuple[Topic, Sequence[int]]]:
    """The partitions that came or changed, by topic."""
    for topic in delta.created:
        yield topic, range(len(topic.partitions))
    for name, indexes in delta.partitions.items():
        yield image.topics[name], sorted(indexes)
