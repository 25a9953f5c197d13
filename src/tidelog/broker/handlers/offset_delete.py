"""OffsetDelete (47): an administrator forgets offsets of topics that a group does not read any more.

Versions: 0, never flexible.  Absent: nothing.
"""

from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.permissions import DELETE, READ, group
from tidelog.errors import TopicAuthorizationFailed
from tidelog.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from tidelog.security.acls import Resource


@handles(OffsetDeleteRequest, "0", allow=group(DELETE, "group_id"))
async def offset_delete(request: OffsetDeleteRequest, ctx: Context) -> OffsetDeleteResponse:
    asked, request.topics = request.topics, []
    hidden: list[OffsetDeleteRequestTopic] = []
    for each in asked:
        seen = ctx.may(READ, Resource.topic(each.name))
        (request.topics if seen else hidden).append(each)
    response = await ctx.broker.groups.offset_delete(request)
    if not response.error_code:
        response.topics += [_refused(each) for each in hidden]
    return response


def _refused(topic: OffsetDeleteRequestTopic) -> OffsetDeleteResponseTopic:
    return OffsetDeleteResponseTopic(
        name=topic.name,
        partitions=[
            OffsetDeleteResponsePartition(
                partition_index=each.partition_index, error_code=TopicAuthorizationFailed.code
            )
            for each in topic.partitions
        ],
    )
