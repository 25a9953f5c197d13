"""BrokerHeartbeat (63): a broker that has caught up asks to be unfenced, one that stops to be relieved of what it leads.

That a broker is alive is told by its session with the metastore, not by this.  Absent: failed and cordoned log directories.
"""

from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.permissions import CLUSTER_ACTION, cluster
from tidelog.protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)


@handles(BrokerHeartbeatRequest, "0-2", allow=cluster(CLUSTER_ACTION))
async def broker_heartbeat(
    request: BrokerHeartbeatRequest, ctx: Context
) -> BrokerHeartbeatResponse:
    standing = await ctx.broker.controller.local.heartbeat(
        request.broker_id,
        request.broker_epoch,
        metadata_offset=request.current_metadata_offset,
        want_fence=request.want_fence,
        want_shut_down=request.want_shut_down,
    )
    return BrokerHeartbeatResponse(
        is_caught_up=standing.is_caught_up,
        is_fenced=standing.is_fenced,
        should_shut_down=standing.should_shut_down,
    )
