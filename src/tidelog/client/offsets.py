"""Offsets by time: where a partition begins, ends, or stood at a moment."""

import asyncio
from collections.abc import Mapping
from typing import NamedTuple, cast

from tidelog.client.cluster import Cluster
from tidelog.errors import KafkaError, error_of
from tidelog.names import TopicPartition
from tidelog.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

LATEST = -1
EARLIEST = -2
"""The times that stand for the end and the beginning of a partition."""

READ_UNCOMMITTED, READ_COMMITTED = 0, 1


class FoundOffset(NamedTuple):
    """An offset and the time of the record there; -1 where there is none."""

    offset: int
    timestamp: int


async def find_offsets(
    cluster: Cluster, times: Mapping[TopicPartition, int], isolation: int = READ_UNCOMMITTED
) -> dict[TopicPartition, FoundOffset]:
    """For each partition the first offset at or after its time, asked from the leaders and retried."""
    found: dict[TopicPartition, FoundOffset] = {}

    async def ask() -> None:
        missing = [tp for tp in times if tp not in found]
        by_node: dict[int, list[TopicPartition]] = {}
        for tp in missing:
            by_node.setdefault((await cluster.leader(*tp)).node, []).append(tp)
        answers = await asyncio.gather(
            *(
                _ask_node(cluster, node, {tp: times[tp] for tp in tps}, isolation)
                for node, tps in by_node.items()
            )
        )
        failed: KafkaError | None = None
        for answer in answers:
            for tp, result in answer.items():
                if isinstance(result, KafkaError):
                    failed = result
                else:
                    found[tp] = result
        if failed is not None:
            await cluster.refresh({tp.topic for tp in missing})
            raise failed

    await cluster.retrying(ask)
    return found


async def _ask_node(
    cluster: Cluster, node: int, times: Mapping[TopicPartition, int], isolation: int
) -> dict[TopicPartition, FoundOffset | KafkaError]:
    topics: dict[str, ListOffsetsTopic] = {}
    for (topic, partition), time in times.items():
        entry = topics.setdefault(topic, ListOffsetsTopic(name=topic))
        entry.partitions.append(ListOffsetsPartition(partition_index=partition, timestamp=time))
    request = ListOffsetsRequest(
        replica_id=-1, isolation_level=isolation, topics=list(topics.values()), timeout_ms=30_000
    )
    answer = cast(ListOffsetsResponse, await cluster.ask(node, request))
    return {
        TopicPartition(topic.name, each.partition_index): (
            error_of(
                each.error_code,
                f"offsets of {topic.name}-{each.partition_index}: {error_of(each.error_code)}",
            )
            if each.error_code
            else FoundOffset(each.offset, each.timestamp)
        )
        for topic in answer.topics
        for each in topic.partitions
    }
