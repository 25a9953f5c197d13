"""Heartbeat (12): a member says that it is alive, and hears of a rebalance.

Versions: 1 throttles; 3 static members (KIP-345); 4 is flexible.  Absent: nothing.
"""

from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.permissions import READ, group
from tidelog.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


@handles(HeartbeatRequest, "0-4", allow=group(READ, "group_id"))
async def heartbeat(request: HeartbeatRequest, ctx: Context) -> HeartbeatResponse:
    await ctx.broker.groups.heartbeat(request)
    return HeartbeatResponse()
