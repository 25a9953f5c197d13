"""Offsets by time: where a partition begins, ends, or stood at a moment."""

import asyncio
from collections.abc import Mapping
from typing import NamedTuple, cast

from tidelog.client.cluster import Cluster
from tidelog.errors import KafkaError, OffsetOutOfRange, error_of
from tidelog.names import TopicPartition
from tidelog.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tidelog.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

LATEST = -1
EARLIEST = -2
"""The times that stand for the end and the beginning of a partition."""

READ_UNCOMMITTED, READ_COMMITTED = 0, 1


class FoundOffset(NamedTuple):
    """An offset and the time of the record there; -1 where there is none."""

    offset: int
    timestamp: int


class LogTruncated(OffsetOutOfRange):
    """The log was cut below what a consumer has read already: `offset` is where it stood, `diverges_at` where the log goes on otherwise."""

    def __init__(self, tp: TopicPartition, offset: int, diverges_at: int) -> None:
        super().__init__(
            f"{tp} was cut: this consumer had read up to offset {offset}, but the log of its leader diverges at offset "
            f"{diverges_at}; auto.offset.reset=none, so seek to where to go on"
        )
        self.offset = offset
        self.diverges_at = diverges_at


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
    by_node: dict[int, dict[TopicPartition, tuple[int, int]]] = {}
    for tp, time in times.items():
        try:
            leader = await cluster.leader(*tp)
            by_node.setdefault(leader.node, {})[tp] = time, leader.epoch
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
    cluster: Cluster,
    node: int,
    times: Mapping[TopicPartition, tuple[int, int]],
    isolation: int,
) -> dict[TopicPartition, FoundOffset | KafkaError]:
    """Asked with the time that is sought and the epoch in which the broker leads."""
    topics: dict[str, ListOffsetsTopic] = {}
    for (topic, partition), (time, leader_epoch) in times.items():
        entry = topics.setdefault(topic, ListOffsetsTopic(name=topic))
        entry.partitions.append(
            ListOffsetsPartition(
                partition_index=partition, current_leader_epoch=leader_epoch, timestamp=time
            )
        )
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


class EpochEnd(NamedTuple):
    """Where a leader's log of an epoch ends; or of the one before it that it has, and -1 if it has none."""

    leader_epoch: int
    end_offset: int


async def epoch_ends(
    cluster: Cluster, node: int, epochs: Mapping[TopicPartition, tuple[int, int]]
) -> dict[TopicPartition, EpochEnd | KafkaError]:
    """Where epochs end that were read (KIP-320); asked with the epoch in which the broker leads, then the one that is meant."""
    topics: dict[str, OffsetForLeaderTopic] = {}
    for (topic, partition), (current, read) in epochs.items():
        entry = topics.setdefault(topic, OffsetForLeaderTopic(topic=topic))
        entry.partitions.append(
            OffsetForLeaderPartition(
                partition=partition, current_leader_epoch=current, leader_epoch=read
            )
        )
    request = OffsetForLeaderEpochRequest(replica_id=-1, topics=list(topics.values()))
    answer = cast(OffsetForLeaderEpochResponse, await cluster.ask(node, request))
    return {
        TopicPartition(topic.topic, each.partition): (
            error_of(each.error_code)
            if each.error_code
            else EpochEnd(each.leader_epoch, each.end_offset)
        )
        for topic in answer.topics
        for each in topic.partitions
    }
