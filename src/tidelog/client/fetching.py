"""Single fetch requests and their answers, by topic name or id as the version wants it; `fetch_sessions` has those that follow one another."""

from collections.abc import Iterator, Mapping
from uuid import UUID

from tidelog.client.cluster import Cluster
from tidelog.client.settings import ConsumerSettings
from tidelog.names import TopicPartition
from tidelog.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from tidelog.protocol.schema import ZERO_UUID

_LAST_BY_NAME = 12
_FULL_WITHOUT_SESSION = -1


def fetch_request(
    cluster: Cluster,
    settings: ConsumerSettings,
    offsets: Mapping[TopicPartition, int],
    max_bytes: int,
    partition_max_bytes: int,
) -> tuple[FetchRequest, int]:
    """A request for these partitions from these offsets, and the newest version it can go out in."""
    topics: dict[str, FetchTopic] = {}
    at_most = 32767
    for (topic, partition), offset in offsets.items():
        entry = topics.get(topic)
        info = cluster.topics.get(topic)
        leader = info.partitions.get(partition) if info else None
        if entry is None:
            topic_id = info.id if info else ZERO_UUID
            if topic_id == ZERO_UUID:
                at_most = _LAST_BY_NAME
            entry = topics[topic] = FetchTopic(topic=topic, topic_id=topic_id)
        entry.partitions.append(
            FetchPartition(
                partition=partition,
                current_leader_epoch=leader.epoch if leader else -1,
                fetch_offset=offset,
                partition_max_bytes=partition_max_bytes,
            )
        )
    request = FetchRequest(
        max_wait_ms=settings.fetch_max_wait_ms,
        min_bytes=settings.fetch_min_bytes,
        max_bytes=max_bytes,
        isolation_level=int(settings.isolation_level == "read_committed"),
        session_epoch=_FULL_WITHOUT_SESSION,
        topics=list(topics.values()),
    )
    return request, at_most


def fetched(
    cluster: Cluster, response: FetchResponse
) -> Iterator[tuple[TopicPartition, PartitionData]]:
    """Each partition of an answer under its name."""
    names = {info.id: name for name, info in cluster.topics.items() if info.id != ZERO_UUID}
    return by_name(response, names)


def by_name(
    response: FetchResponse, names: Mapping[UUID, str]
) -> Iterator[tuple[TopicPartition, PartitionData]]:
    """The same, with the names that the ids had when it was asked."""
    for topic in response.responses:
        name = topic.topic or names.get(topic.topic_id, "")
        for data in topic.partitions:
            yield TopicPartition(name, data.partition_index), data
