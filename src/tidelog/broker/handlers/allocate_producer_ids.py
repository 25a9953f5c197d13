"""AllocateProducerIds (67): a broker takes a block of producer ids from the controller (KIP-730).  Absent: nothing."""

from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.permissions import CLUSTER_ACTION, cluster
from tidelog.cluster.registration import registered
from tidelog.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)


@handles(AllocateProducerIdsRequest, "0", allow=cluster(CLUSTER_ACTION))
async def allocate_producer_ids(
    request: AllocateProducerIdsRequest, ctx: Context
) -> AllocateProducerIdsResponse:
    controller = ctx.broker.controller.local
    registered(controller.image, request.broker_id, request.broker_epoch)
    block = await controller.allocate_producer_ids()
    return AllocateProducerIdsResponse(producer_id_start=block.start, producer_id_len=len(block))
