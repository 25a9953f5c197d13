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
        missing = {tp: time for tp, time in times.items() if tp not in found}
        more, failed = await find_some_offsets(cluster, missing, isolation)
        found.update(more)
        if failed:
            raise next(iter(failed.values()))

    await cluster.retrying(ask)
    return found


async def find_some_offsets(
    cluster: Cluster, times: Mapping[TopicPartition, int], isolation: int = READ_UNCOMMITTED
) -> tuple[dict[TopicPartition, FoundOffset], dict[TopicPartition, KafkaError]]:
    """The same, asked once: what was found, and what is wrong with the other partitions."""
    found: dict[TopicPartition, FoundOffset] = {}
    failed: dict[TopicPartition, KafkaError] = {}
    by_node: dict[int, dict[TopicPartition, int]] = {}
    for tp, time in times.items():
        try:
            by_node.setdefault((await cluster.leader(*tp)).node, {})[tp] = time
        except KafkaError as error:
            failed[tp] = error
    answers = await asyncio.gather(
        *(_ask_node(cluster, node, some, isolation) for node, some in by_node.items())
    )
    for answer in answers:
        for tp, result in answer.items():
            if isinstance(result, KafkaError):
                failed[tp] = result
            else:
                found[tp] = result
    stale = {tp.topic for tp, error in failed.items() if error.retriable}
    if stale:
        await cluster.refresh(stale)
    return found, failed


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
    try:
        answer = cast(ListOffsetsResponse, await cluster.ask(node, request))
    except KafkaError as error:  # one broker that is away must not keep the others' offsets from us
        return dict.fromkeys(times, error)
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
