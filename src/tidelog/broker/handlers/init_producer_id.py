"""InitProducerId (22): a producer id and epoch for an idempotent or a transactional producer.

Versions: 3 may hand in the id and epoch at hand (KIP-360): a transactional producer recovers with it, an idempotent one
exchanges it for a new one; 4 may say that the producer was fenced.  Absent: 6, two-phase commit (KIP-939).
"""

from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.permissions import IDEMPOTENT_WRITE, WRITE, by_item
from tidelog.broker.transaction_errors import as_known
from tidelog.coordination.transactions.transaction import Identity
from tidelog.errors import InvalidRequest, KafkaError
from tidelog.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from tidelog.security.acls import CLUSTER, Resource, ResourceType

_FENCED_FROM = 4


@handles(InitProducerIdRequest, "0-5", allow=by_item)
async def init_producer_id(request: InitProducerIdRequest, ctx: Context) -> InitProducerIdResponse:
    if request.transactional_id == "":
        raise InvalidRequest("the transactional id is empty")
    if request.transactional_id is None:
        _check_idempotent(ctx)
        producer_id = await ctx.broker.producer_ids.next()
        return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
    try:
        ctx.check(WRITE, Resource.transaction(request.transactional_id))
        told = await ctx.broker.transactions.init_producer_id(
            request.transactional_id, request.transaction_timeout_ms, _expected(request)
        )
    except KafkaError as error:
        refused = as_known(error, ctx.api_version, _FENCED_FROM)
        return InitProducerIdResponse(error_code=refused.code, producer_epoch=-1)
    return InitProducerIdResponse(producer_id=told.producer_id, producer_epoch=told.producer_epoch)


def _check_idempotent(ctx: Context) -> None:
    """Who may write to any topic may do so idempotently (KIP-679)."""
    if not ctx.broker.authorizer.may_any(ctx.peer, WRITE, ResourceType.TOPIC):
        ctx.check(IDEMPOTENT_WRITE, CLUSTER)


def _expected(request: InitProducerIdRequest) -> Identity | None:
    """Who the producer says it was; both parts or neither."""
    if (request.producer_id < 0) != (request.producer_epoch < 0):
        raise InvalidRequest("producer id and epoch must be given together")
    if request.producer_id < 0:
        return None
    return Identity(request.producer_id, request.producer_epoch)
