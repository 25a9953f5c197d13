"""Take over a data directory that Kafka wrote: topics for logs that no metadata of ours knows.

Only a broker that starts for the first time does so; otherwise a log without a topic is left where it is, and told of.
Topics keep their ids, offsets, leader epochs and producers, which are in their directories.  Their settings and the next
producer id are in Kafka's own metadata log (`kafka_metadata.py`), if that lies in the same directory.
"""

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from tidelog.cluster.image import TOPIC, Image
from tidelog.cluster.metadata import (
    ConfigRecord,
    PartitionRecord,
    ProducerIdsRecord,
    Record,
    TopicRecord,
)
from tidelog.errors import ProtocolError, SettingsError, StartError
from tidelog.storage.config import LogConfig
from tidelog.storage.files import Files
from tidelog.storage.log import Log

if TYPE_CHECKING:
    from tidelog.broker.kafka_metadata import KafkaMetadata

log = logging.getLogger(__name__)

_PRODUCER_ID_BLOCK = 1000  # Kafka gives them to its brokers in such blocks


def adopt(
    image: Image,
    logs: Iterable[Log],
    broker_id: int,
    new_id: Callable[[], UUID],
    configs_of: Callable[[str], Mapping[str, str]],
    kafka: "Callable[[], KafkaMetadata | None]" = lambda: None,
) -> list[Record]:
    """Records that make topics of the logs found, on a broker's first start.

    `configs_of` are the settings that internal topics have from us; `kafka` reads what Kafka knew, if it was there.
    """
    found: dict[str, dict[int, Log]] = {}
    for each in logs:
        topic, index = each.topic_partition
        if topic not in image.topics:
            found.setdefault(topic, {})[index] = each
    if image.topics or image.brokers:
        # A broker that has run before knows its topics: this one was deleted, and a crash came before its files went.
        for topic in found:
            log.warning(
                "the directories of topic %s belong to no topic; they are left alone", topic
            )
        return []
    if not found:
        return []
    known = kafka()
    if known is None:
        log.warning(
            "the settings of the topics are not in the data directory: retention and compaction are those of the broker"
        )
    records: list[Record] = []
    for topic, partitions in found.items():
        topic_id = next((each.topic_id for each in partitions.values() if each.topic_id), None)
        records += _topic(topic, topic_id or new_id(), partitions, broker_id)
        configs = {**_usable(topic, known), **configs_of(topic)}
        records += (ConfigRecord(TOPIC, topic, *each) for each in configs.items())
        log.info("topic %s taken over: %d partition(s)", topic, max(partitions) + 1)
    records.append(ProducerIdsRecord(_next_producer_id(found.values(), known)))
    return records


def metadata_of_kafka(files: Files, directories: Sequence[str]) -> "KafkaMetadata | None":
    """What Kafka knew, from whichever directory holds its metadata; `StartError` if that cannot be read.

    To go on without would apply the broker's retention to topics that were to be kept.
    """
    from tidelog.broker.kafka_metadata import CLUSTER_METADATA, read_kafka_metadata

    for directory in directories:
        path = os.path.join(directory, f"{CLUSTER_METADATA}-0")
        try:
            found = read_kafka_metadata(files, path)
        except (ProtocolError, OSError) as error:
            raise StartError(
                f"the settings of Kafka's topics cannot be read: {error}; "
                f"move {path} away to use the broker's settings for all topics"
            ) from error
        if found is not None:
            return found
    return None


def _topic(
    name: str, topic_id: UUID, partitions: Mapping[int, Log], broker_id: int
) -> list[Record]:
    records: list[Record] = [TopicRecord(name, topic_id)]
    for index in range(max(partitions) + 1):
        found = partitions.get(index)
        # An epoch above all that the log has seen: what is written now is ours.
        epoch = 0 if found is None else found.epochs.latest + 1
        records.append(
            PartitionRecord(topic_id, index, (broker_id,), (broker_id,), broker_id, epoch)
        )
    return records


def _usable(topic: str, known: "KafkaMetadata | None") -> dict[str, str]:
    """The settings that the topic had, without those that we do not have."""
    usable = {}
    for name, value in known.configs.get(topic, {}).items() if known else ():
        try:
            LogConfig().over({name: value})
        except SettingsError as error:
            log.warning("topic %s loses its setting %s=%s: %s", topic, name, value, error)
        else:
            usable[name] = value
    return usable


def _next_producer_id(found: Iterable[Mapping[int, Log]], known: "KafkaMetadata | None") -> int:
    """Above every id that a log remembers: a new producer must not be taken for one of them."""
    seen = [
        producer_id
        for partitions in found
        for each in partitions.values()
        for producer_id in each.producers.by_id
    ]
    return max(known.next_producer_id if known else 0, max(seen, default=-1) + _PRODUCER_ID_BLOCK)
