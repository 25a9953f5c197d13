"""OffsetFetch (9): how far groups have read.

Versions: 1 errors on each partition; 2 null topics ask for all, errors at the top; 5 leader epoch; 6 is flexible;
7 may insist on offsets that no transaction can change; 8 several groups; 9 KIP-848 member epochs.
Absent: 10, topics by id.
"""

from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.permissions import DESCRIBE, by_item
from tidelog.broker.turns import Turns
from tidelog.errors import KafkaError, TopicAuthorizationFailed
from tidelog.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from tidelog.security.acls import Resource

_BATCHED_FROM = 8
_ERROR_AT_TOP_FROM = 2


@handles(OffsetFetchRequest, "1-9", allow=by_item)
async def offset_fetch(request: OffsetFetchRequest, ctx: Context) -> OffsetFetchResponse:
    if ctx.api_version >= _BATCHED_FROM:
        groups = [
            await _fetch(each, request.require_stable, ctx)
            async for each in Turns().over(_once(request.groups))
        ]
        return OffsetFetchResponse(groups=groups)
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=each.name, partition_indexes=each.partition_indexes)
            for each in request.topics
        ]
    asked = OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)
    found = await _fetch(asked, request.require_stable, ctx)
    if not found.error_code:
        return OffsetFetchResponse(topics=_single(found))
    if ctx.api_version >= _ERROR_AT_TOP_FROM:
        return OffsetFetchResponse(error_code=found.error_code)
    return OffsetFetchResponse(topics=_refused(request, found.error_code))


def _once(asked: list[OffsetFetchRequestGroup]) -> list[OffsetFetchRequestGroup]:
    """Without a group's repeated wish for all its topics: its offsets can be many."""
    whole: set[str] = set()
    found = []
    for each in asked:
        if each.topics is None and each.group_id in whole:
            continue
        if each.topics is None:
            whole.add(each.group_id)
        found.append(each)
    return found


async def _fetch(
    asked: OffsetFetchRequestGroup, require_stable: bool, ctx: Context
) -> OffsetFetchResponseGroup:
    try:
        ctx.check(DESCRIBE, Resource.group(asked.group_id))
        if ctx.broker.authorizer.is_open:
            return await ctx.broker.groups.offset_fetch(asked, require_stable)
        return await _fetch_seen(asked, require_stable, ctx)
    except KafkaError as error:
        return OffsetFetchResponseGroup(group_id=asked.group_id, error_code=error.code)


async def _fetch_seen(
    asked: OffsetFetchRequestGroup, require_stable: bool, ctx: Context
) -> OffsetFetchResponseGroup:
    """What the client may describe; of all topics the others are left out, of named ones they are refused."""

    def seen(name: str) -> bool:
        return ctx.may(DESCRIBE, Resource.topic(name), quietly=asked.topics is None)

    if asked.topics is None:
        found = await ctx.broker.groups.offset_fetch(asked, require_stable)
        found.topics = [each for each in found.topics if seen(each.name)]
        return found
    named, asked.topics = asked.topics, []
    hidden: list[OffsetFetchRequestTopics] = []
    for each in named:
        (asked.topics if seen(each.name) else hidden).append(each)
    found = await ctx.broker.groups.offset_fetch(asked, require_stable)
    found.topics += [
        OffsetFetchResponseTopics(
            name=topic.name,
            partitions=[
                OffsetFetchResponsePartitions(
                    partition_index=index,
                    committed_offset=-1,
                    error_code=TopicAuthorizationFailed.code,
                )
                for index in topic.partition_indexes
            ],
        )
        for topic in hidden
    ]
    return found


def _single(found: OffsetFetchResponseGroup) -> list[OffsetFetchResponseTopic]:
    """The answer for one group, in the structs that older versions have for it."""
    return [
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                OffsetFetchResponsePartition(
                    partition_index=each.partition_index,
                    committed_offset=each.committed_offset,
                    committed_leader_epoch=each.committed_leader_epoch,
                    metadata=each.metadata,
                    error_code=each.error_code,
                )
                for each in topic.partitions
            ],
        )
        for topic in found.topics
    ]


def _refused(request: OffsetFetchRequest, code: int) -> list[OffsetFetchResponseTopic]:
    return [
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                OffsetFetchResponsePartition(
                    partition_index=index, committed_offset=-1, error_code=code
                )
                for index in topic.partition_indexes
            ],
        )
        for topic in request.topics or ()
    ]
