"""UnregisterBroker (64): forget a broker that will not return (KIP-631).

Version 0.  A broker that runs, or that still holds replicas, is refused.  Absent: nothing.
"""

from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.permissions import ALTER, cluster
from tidelog.protocol.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)


@handles(UnregisterBrokerRequest, "0", allow=cluster(ALTER), controller=True)
async def unregister_broker(
    request: UnregisterBrokerRequest, ctx: Context
) -> UnregisterBrokerResponse:
    await ctx.broker.controller.local.unregister(request.broker_id)
    return UnregisterBrokerResponse(error_message=None)
