"""ConsumerGroupHeartbeat (68): a member of a KIP-848 group joins, reconciles and leaves, all by heartbeats.

Versions: 0; 1 regular expressions, and the client makes its member id.  Absent: classic members in the same group.
"""

from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.group_client import client_of
from tidelog.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


@handles(ConsumerGroupHeartbeatRequest, "0-1")
async def consumer_group_heartbeat(
    request: ConsumerGroupHeartbeatRequest, ctx: Context
) -> ConsumerGroupHeartbeatResponse:
    return await ctx.broker.groups.consumer_group_heartbeat(request, client_of(ctx))
