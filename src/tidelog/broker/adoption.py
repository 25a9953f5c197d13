"""Take over a data directory that Kafka wrote: topics for logs that no metadata knows.

Only a broker whose metadata is empty does so; otherwise a log without a topic is left where it is, and told of.
Absent: the settings that topics had, which Kafka keeps elsewhere.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from uuid import UUID

from tidelog.cluster.image import TOPIC, Image
from tidelog.cluster.metadata import ConfigRecord, PartitionRecord, Record, TopicRecord
from tidelog.storage.log import Log

log = logging.getLogger(__name__)


def adopt(
    image: Image,
    logs: Iterable[Log],
    broker_id: int,
    new_id: Callable[[], UUID],
    configs_of: Callable[[str], Mapping[str, str]],
) -> list[Record]:
    """Records that make topics of the logs found, if there are no topics yet."""
    found: dict[str, dict[int, Log]] = {}
    for each in logs:
        topic, index = each.topic_partition
        if topic not in image.topics:
            found.setdefault(topic, {})[index] = each
    if image.topics:
        for topic in found:
            log.warning(
                "the directories of topic %s belong to no topic; they are left alone", topic
            )
        return []
    records: list[Record] = []
    for topic, partitions in found.items():
        topic_id = next((each.topic_id for each in partitions.values() if each.topic_id), None)
        records += _topic(topic, topic_id or new_id(), partitions, broker_id)
        records += (ConfigRecord(TOPIC, topic, *each) for each in configs_of(topic).items())
        log.info("topic %s taken over: %d partition(s)", topic, max(partitions) + 1)
    return records


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
