"""Decisions about offsets: commit, fetch, delete, expire."""

from dataclasses import replace

from tidelog.coordination.groups.classic.group import ClassicGroup
from tidelog.coordination.groups.classic.states import DEAD, EMPTY, STABLE, TABLE
from tidelog.coordination.groups.environment import Environment, Topics
from tidelog.coordination.groups.offsets import CommittedOffset, Offsets, Place, tombstone
from tidelog.coordination.groups.records import Change
from tidelog.coordination.runtime import Decision
from tidelog.errors import (
    CoordinatorNotAvailable,
    GroupIdNotFound,
    GroupSubscribedToTopic,
    IllegalGeneration,
    NonEmptyGroup,
    OffsetMetadataTooLarge,
    UnknownMemberId,
    UnknownTopicOrPartition,
    UnstableOffsetCommit,
)
from tidelog.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tidelog.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from tidelog.protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from tidelog.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

NO_OFFSET = -1
_LATEST_MS = (1 << 63) - 1


def check_commit(
    group: ClassicGroup, member_id: str, group_instance_id: str | None, generation: int
) -> None:
    """Raise unless this member of this generation may commit to a classic group now."""
    check_commit_in_transaction(group, member_id, group_instance_id, generation)
    if generation < 0 and group.state is EMPTY:
        return
    if generation < 0 and not member_id and group_instance_id is None:
        # Neither member nor generation: an outsider, who may only write while nobody is in.
        raise UnknownMemberId
    refused = TABLE[group.state].commit
    if refused is not None:
        raise refused


def check_commit_in_transaction(
    group: ClassicGroup, member_id: str, group_instance_id: str | None, generation: int
) -> None:
    """Raise unless a transaction of this member may commit; producers before KIP-447 do not say whose they are."""
    if group.state is DEAD:
        raise CoordinatorNotAvailable
    if generation < 0 and group.state is EMPTY:
        return
    if generation >= 0 or member_id or group_instance_id is not None:
        group.validate(member_id, group_instance_id)
        if generation != group.generation:
            raise IllegalGeneration


def commit(
    env: Environment, request: OffsetCommitRequest
) -> Decision[Change, OffsetCommitResponse]:
    """Records for all offsets that can be stored, and a code for each."""
    now_ms = env.clock.now_ms()
    retention_ms = request.retention_time_ms
    expire_ms = -1 if retention_ms < 0 else min(now_ms + retention_ms, _LATEST_MS)
    limit = env.config().offset_metadata_max_bytes
    topics = env.topics()
    records: list[Change] = []
    response = OffsetCommitResponse()
    for topic in request.topics:
        answered = OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id)
        response.topics.append(answered)
        for each in topic.partitions:
            code = _refusal(topics, topic.name, each, limit)
            answered.partitions.append(
                OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=code)
            )
            if not code:
                stored = CommittedOffset(
                    each.committed_offset,
                    each.committed_leader_epoch,
                    each.committed_metadata or "",
                    now_ms,
                    expire_ms,
                )
                place = (topic.name, each.partition_index)
                records.append(stored.to_record(request.group_id, place))
    return Decision(response, records)


def commit_in_transaction(
    env: Environment, request: TxnOffsetCommitRequest
) -> Decision[Change, TxnOffsetCommitResponse]:
    """As `commit`; the records wait for the end of the transaction."""
    now_ms = env.clock.now_ms()
    limit = env.config().offset_metadata_max_bytes
    topics = env.topics()
    records: list[Change] = []
    response = TxnOffsetCommitResponse()
    for topic in request.topics:
        answered = TxnOffsetCommitResponseTopic(name=topic.name)
        response.topics.append(answered)
        for each in topic.partitions:
            code = _refusal(topics, topic.name, each, limit)
            answered.partitions.append(
                TxnOffsetCommitResponsePartition(
                    partition_index=each.partition_index, error_code=code
                )
            )
            if not code:
                stored = CommittedOffset(
                    each.committed_offset,
                    each.committed_leader_epoch,
                    each.committed_metadata or "",
                    now_ms,
                    -1,
                )
                change = stored.to_record(request.group_id, (topic.name, each.partition_index))
                records.append(replace(change, producer_id=request.producer_id))
    producer = (request.producer_id, request.producer_epoch)
    return Decision(response, records, producer=producer)


def fetch(
    offsets: Offsets, request: OffsetFetchRequestGroup, require_stable: bool
) -> OffsetFetchResponseGroup:
    """What the group has committed; -1 where it has not.  No topics given means all."""
    known = offsets.of(request.group_id)
    wanted: dict[str, list[int]] = {}
    if request.topics is None:
        for name, index in known:
            wanted.setdefault(name, []).append(index)
    else:
        for topic in request.topics:
            wanted.setdefault(topic.name, []).extend(topic.partition_indexes)
    response = OffsetFetchResponseGroup(group_id=request.group_id)
    for name, indexes in wanted.items():
        partitions = [
            _fetched(offsets, request.group_id, (name, index), known, require_stable)
            for index in indexes
        ]
        response.topics.append(OffsetFetchResponseTopics(name=name, partitions=partitions))
    return response


def delete(
    group: object, offsets: Offsets, request: OffsetDeleteRequest
) -> Decision[Change, OffsetDeleteResponse]:
    """Tombstones for the offsets of topics that the group does not read any more."""
    if isinstance(group, ClassicGroup):
        if group.state is DEAD:
            raise GroupIdNotFound
        if group.state is not EMPTY and not group.uses_consumer_protocol:
            raise NonEmptyGroup
    is_subscribed = getattr(group, "is_subscribed")  # noqa: B009  (both kinds of group have it)
    records: list[Change] = []
    response = OffsetDeleteResponse()
    for topic in request.topics:
        code = GroupSubscribedToTopic.code if is_subscribed(topic.name) else 0
        answered = OffsetDeleteResponseTopic(name=topic.name)
        response.topics.append(answered)
        for each in topic.partitions:
            place = (topic.name, each.partition_index)
            answered.partitions.append(
                OffsetDeleteResponsePartition(partition_index=each.partition_index, error_code=code)
            )
            known = place in offsets.of(request.group_id)
            if not code and (known or offsets.has_pending(request.group_id, place)):
                records.append(tombstone(request.group_id, place))
    return Decision(response, records)


def expired_in_classic(
    group: ClassicGroup, offsets: Offsets, retention_ms: int, now_ms: int
) -> list[Place]:
    """Offsets past their retention: all when the group is empty, else those of topics it does not read."""
    if group.protocol_type is None:
        # Never had members: offsets age from their commit.
        return offsets.expired(
            group.group_id,
            lambda each: each.commit_timestamp_ms,
            lambda _: True,
            retention_ms,
            now_ms,
        )
    if group.state is EMPTY:
        since_ms = group.since_ms
        return offsets.expired(
            group.group_id,
            lambda each: max(since_ms, each.commit_timestamp_ms),
            lambda _: True,
            retention_ms,
            now_ms,
        )
    if group.state is STABLE and group.subscribed_topics is not None:
        return offsets.expired(
            group.group_id,
            lambda each: each.commit_timestamp_ms,
            lambda topic: not group.is_subscribed(topic),
            retention_ms,
            now_ms,
        )
    return []


def _refusal(
    topics: Topics,
    topic: str,
    each: OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition,
    limit: int,
) -> int:
    view = topics.maybe_get(topic)
    if view is None or not 0 <= each.partition_index < view.partition_count:
        return UnknownTopicOrPartition.code
    if len((each.committed_metadata or "").encode()) > limit:
        return OffsetMetadataTooLarge.code
    return 0


def _fetched(
    offsets: Offsets,
    group_id: str,
    place: Place,
    known: dict[Place, CommittedOffset],
    require_stable: bool,
) -> OffsetFetchResponsePartitions:
    found = known.get(place)
    if require_stable and offsets.has_pending(group_id, place):
        return OffsetFetchResponsePartitions(
            partition_index=place[1],
            committed_offset=NO_OFFSET,
            error_code=UnstableOffsetCommit.code,
        )
    if found is None:
        return OffsetFetchResponsePartitions(partition_index=place[1], committed_offset=NO_OFFSET)
    return OffsetFetchResponsePartitions(
        partition_index=place[1],
        committed_offset=found.offset,
        committed_leader_epoch=found.leader_epoch,
        metadata=found.metadata,
    )
