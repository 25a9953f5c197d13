"""OffsetCommit (8): a group stores how far it has read.

Versions: 2-4 may ask for a retention of their own; 6 leader epoch; 7 static members; 8 is flexible; 9 KIP-848 member
epochs.  Absent: 10, topics by id.
"""

from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.permissions import READ, by_item
from tidelog.errors import (
    InvalidCommitOffsetSize,
    KafkaError,
    MessageTooLarge,
    RecordListTooLarge,
    TopicAuthorizationFailed,
)
from tidelog.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tidelog.security.acls import Resource


@handles(OffsetCommitRequest, "2-9", allow=by_item)
async def offset_commit(request: OffsetCommitRequest, ctx: Context) -> OffsetCommitResponse:
    try:
        ctx.check(READ, Resource.group(request.group_id))
        hidden = _take_hidden(request, ctx)
        response = await ctx.broker.groups.offset_commit(request, ctx.api_version)
        response.topics += _refused_topics(hidden, TopicAuthorizationFailed())
        return response
    except (MessageTooLarge, RecordListTooLarge):
        return _refused(request, InvalidCommitOffsetSize())
    except KafkaError as error:
        return _refused(request, error)


def _refused(request: OffsetCommitRequest, error: KafkaError) -> OffsetCommitResponse:
    """The error has no place of its own: it is told for every partition."""
    return OffsetCommitResponse(topics=_refused_topics(request.topics, error))


def _refused_topics(
    topics: list[OffsetCommitRequestTopic], error: KafkaError
) -> list[OffsetCommitResponseTopic]:
    return [
        OffsetCommitResponseTopic(
            name=topic.name,
            partitions=[
                OffsetCommitResponsePartition(
                    partition_index=each.partition_index, error_code=error.code
                )
                for each in topic.partitions
            ],
        )
        for topic in topics
    ]


def _take_hidden(request: OffsetCommitRequest, ctx: Context) -> list[OffsetCommitRequestTopic]:
    """Take out of the request the topics that the client may not read."""
    if ctx.broker.authorizer.is_open:
        return []
    asked, request.topics = request.topics, []
    hidden: list[OffsetCommitRequestTopic] = []
    for each in asked:
        seen = ctx.may(READ, Resource.topic(each.name))
        (request.topics if seen else hidden).append(each)
    return hidden
