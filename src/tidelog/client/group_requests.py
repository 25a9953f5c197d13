"""Committing and reading a group's offsets."""

from collections.abc import Collection, Mapping
from typing import NamedTuple, cast

from tidelog.client.cluster import Cluster
from tidelog.errors import KafkaError, error_of
from tidelog.names import TopicPartition
from tidelog.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tidelog.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

NO_GENERATION = -1

_LAST_BY_NAME = 9
"""The newest version of OffsetCommit and OffsetFetch in which topics have names; a group's offsets may be of a topic without an id."""


class CommittedOffset(NamedTuple):
    """Where a group goes on in a partition, and what its consumer noted beside it."""

    offset: int
    metadata: str
    leader_epoch: int = -1
    """Of the record before it, if that is known: tells whether the log was cut under it (KIP-320)."""


class GroupMetadata(NamedTuple):
    """Who commits offsets in a transaction: a member of a group in a generation, so that a member that was replaced cannot."""

    group_id: str
    generation: int = -1
    member_id: str = ""
    instance_id: str | None = None


def offsets_given(
    offsets: Mapping[TopicPartition, int | CommittedOffset],
) -> dict[TopicPartition, CommittedOffset]:
    """Offsets to be committed, as somebody has given them."""
    if not isinstance(offsets, Mapping):
        raise TypeError(
            f"{type(offsets).__name__} is not a mapping of partitions to offsets; that of one message is "
            "{message.topic_partition: message.offset + 1}"
        )
    found = {
        TopicPartition(*tp): each
        if isinstance(each, CommittedOffset)
        else CommittedOffset(each, "")
        for tp, each in offsets.items()
    }
    for tp, (offset, _, _) in found.items():
        if not isinstance(offset, int):
            raise TypeError(f"the offset {offset!r} of {tp} must be a number")
        if offset < 0:
            raise ValueError(f"the offset {offset} of {tp} must be at least 0")
    return found


async def offset_commit(
    cluster: Cluster,
    group: str,
    offsets: Mapping[TopicPartition, CommittedOffset],
    *,
    generation: int = NO_GENERATION,
    member_id: str = "",
    instance_id: str | None = None,
) -> dict[TopicPartition, KafkaError]:
    """Commit; the partitions that could not be, and why."""
    topics: dict[str, OffsetCommitRequestTopic] = {}
    for (topic, partition), each in offsets.items():
        entry = topics.setdefault(topic, OffsetCommitRequestTopic(name=topic))
        entry.partitions.append(
            OffsetCommitRequestPartition(
                partition_index=partition,
                committed_offset=each.offset,
                committed_leader_epoch=each.leader_epoch,
                committed_metadata=each.metadata,
            )
        )
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        group_instance_id=instance_id,
        topics=list(topics.values()),
    )
    answer = cast(
        OffsetCommitResponse, await cluster.ask_coordinator(group, request, at_most=_LAST_BY_NAME)
    )
    return {
        TopicPartition(topic_answer.name, part.partition_index): error_of(
            part.error_code,
            f"commit of {topic_answer.name}-{part.partition_index} for group {group!r}: "
            f"{error_of(part.error_code).text}",
        )
        for topic_answer in answer.topics
        for part in topic_answer.partitions
        if part.error_code
    }


async def committed_offsets(
    cluster: Cluster,
    group: str,
    partitions: Collection[TopicPartition] | None,
    *,
    require_stable: bool = False,
) -> dict[TopicPartition, CommittedOffset]:
    """What the group has committed for these partitions, or for all; those without are left out."""
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions or ():
        topics.setdefault(topic, []).append(partition)
    everything = partitions is None
    request = OffsetFetchRequest(
        group_id=group,
        topics=None
        if everything
        else [
            OffsetFetchRequestTopic(name=name, partition_indexes=each)
            for name, each in topics.items()
        ],
        groups=[
            OffsetFetchRequestGroup(
                group_id=group,
                topics=None
                if everything
                else [
                    OffsetFetchRequestTopics(name=name, partition_indexes=each)
                    for name, each in topics.items()
                ],
            )
        ],
        require_stable=require_stable,
    )
    answer = cast(
        OffsetFetchResponse, await cluster.ask_coordinator(group, request, at_most=_LAST_BY_NAME)
    )
    one = answer.groups[0] if answer.groups else answer
    if one.error_code:
        raise error_of(
            one.error_code, f"offsets of group {group!r}: {error_of(one.error_code).text}"
        )
    found: dict[TopicPartition, CommittedOffset] = {}
    for topic_answer in one.topics:
        for part in topic_answer.partitions:
            if part.error_code:
                raise error_of(part.error_code)
            if part.committed_offset >= 0:
                place = TopicPartition(topic_answer.name, part.partition_index)
                found[place] = CommittedOffset(
                    part.committed_offset, part.metadata or "", part.committed_leader_epoch
                )
    return found
