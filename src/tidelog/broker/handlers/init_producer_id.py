"""InitProducerId (22): a producer id and epoch for an idempotent producer.

Versions: 3 may hand in an old id (KIP-360), which an idempotent producer without a transactional id exchanges for a new
one.  Absent: transactional ids; they are refused as a broker without transactions would.
"""

from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.errors import InvalidRequest, UnsupportedVersion
from tidelog.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)


@handles(InitProducerIdRequest, "0-5")
async def init_producer_id(request: InitProducerIdRequest, ctx: Context) -> InitProducerIdResponse:
    if request.transactional_id == "":
        raise InvalidRequest("the transactional id is empty")
    if request.transactional_id is not None:
        raise UnsupportedVersion("transactions are not offered")
    producer_id = await ctx.broker.producer_ids.next()
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
