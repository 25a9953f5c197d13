"""FindCoordinator (10): where the coordinator of a group or a transaction is.

Versions: 1 key type; 3 is flexible; 4 several keys at once (KIP-699); 6 share groups.  Absent: share groups.
"""

from tidelog.broker.addresses import address_of
from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.permissions import DESCRIBE, by_item
from tidelog.broker.turns import Turns
from tidelog.errors import CoordinatorNotAvailable, InvalidRequest, KafkaError
from tidelog.network.peer import Address
from tidelog.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from tidelog.security.acls import Resource

GROUP, TRANSACTION = 0, 1
_BATCHED_FROM = 4


@handles(FindCoordinatorRequest, "0-6", allow=by_item)
async def find_coordinator(
    request: FindCoordinatorRequest, ctx: Context
) -> FindCoordinatorResponse:
    if ctx.api_version >= _BATCHED_FROM:
        found = [
            await _find(key, request.key_type, ctx)
            async for key in Turns().over(request.coordinator_keys)
        ]
        return FindCoordinatorResponse(coordinators=found)
    one = await _find(request.key, request.key_type, ctx)
    return FindCoordinatorResponse(
        error_code=one.error_code,
        error_message=one.error_message,
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )


async def _find(key: str, key_type: int, ctx: Context) -> Coordinator:
    try:
        if key_type not in (GROUP, TRANSACTION):
            raise InvalidRequest(f"coordinators of key type {key_type} are not served here")
        if key_type == GROUP:
            ctx.check(DESCRIBE, Resource.group(key))
            leader = await ctx.broker.groups.find_coordinator(key)
        else:
            ctx.check(DESCRIBE, Resource.transaction(key))
            leader = await ctx.broker.transactions.find_coordinator(key)
        host, port = _address(leader, ctx)
    except KafkaError as error:
        return Coordinator(
            key=key, node_id=-1, port=-1, error_code=error.code, error_message=error.message
        )
    return Coordinator(key=key, node_id=leader, host=host, port=port, error_message=None)


def _address(broker_id: int, ctx: Context) -> Address:
    """As Metadata tells it, so that the client sees one broker and not two."""
    broker = ctx.broker.image().brokers.get(broker_id)
    if broker is None:
        raise CoordinatorNotAvailable
    return address_of(broker, ctx.peer)
