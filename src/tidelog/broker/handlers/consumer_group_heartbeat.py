"""ConsumerGroupHeartbeat (68): a member of a KIP-848 group joins, reconciles and leaves, all by heartbeats.

Versions: 0; 1 regular expressions, and the client makes its member id.  Absent: classic members in the same group.
"""

from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.group_client import client_of
from tidelog.broker.permissions import DESCRIBE, READ, group
from tidelog.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tidelog.security.acls import Resource


@handles(ConsumerGroupHeartbeatRequest, "0-1", allow=group(READ, "group_id"))
async def consumer_group_heartbeat(
    request: ConsumerGroupHeartbeatRequest, ctx: Context
) -> ConsumerGroupHeartbeatResponse:
    for name in request.subscribed_topic_names or ():
        ctx.check(DESCRIBE, Resource.topic(name))
    response = await ctx.broker.groups.consumer_group_heartbeat(request, client_of(ctx))
    if not ctx.broker.authorizer.is_open and response.assignment is not None:
        # A regular expression finds every topic; who may not know one is not told that it has it.
        names = ctx.broker.image().topic_names
        response.assignment.topic_partitions = [
            each
            for each in response.assignment.topic_partitions
            if ctx.may(DESCRIBE, Resource.topic(names.get(each.topic_id, "")), quietly=True)
        ]
    return response
