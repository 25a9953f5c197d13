"""OffsetFetch (9): how far groups have read.

Versions: 1 errors on each partition; 2 null topics ask for all, errors at the top; 5 leader epoch; 6 is flexible;
7 may insist on offsets that no transaction can change; 8 several groups; 9 KIP-848 member epochs.
Absent: 10, topics by id.
"""

from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.errors import KafkaError
from tidelog.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)

_BATCHED_FROM = 8
_ERROR_AT_TOP_FROM = 2


@handles(OffsetFetchRequest, "1-9")
async def offset_fetch(request: OffsetFetchRequest, ctx: Context) -> OffsetFetchResponse:
    if ctx.api_version >= _BATCHED_FROM:
        groups = [await _fetch(each, request.require_stable, ctx) for each in request.groups]
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


async def _fetch(
    asked: OffsetFetchRequestGroup, require_stable: bool, ctx: Context
) -> OffsetFetchResponseGroup:
    try:
        return await ctx.broker.groups.offset_fetch(asked, require_stable)
    except KafkaError as error:
        return OffsetFetchResponseGroup(group_id=asked.group_id, error_code=error.code)


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
