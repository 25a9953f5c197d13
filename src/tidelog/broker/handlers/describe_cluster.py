"""DescribeCluster (60): the cluster's id, its controller and its brokers.

Versions: 1 endpoint type (KIP-919); 2 fenced brokers (KIP-1073).  Absent: an endpoint for controllers, since every
broker may become one.
"""

from tidelog.broker.addresses import address_of
from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.operations import NOT_ASKED, cluster_operations
from tidelog.broker.permissions import anybody
from tidelog.errors import MismatchedEndpointType, UnsupportedEndpointType
from tidelog.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

_BROKERS, _CONTROLLERS = 1, 2


@handles(DescribeClusterRequest, "0-2", allow=anybody)
def describe_cluster(request: DescribeClusterRequest, ctx: Context) -> DescribeClusterResponse:
    if request.endpoint_type == _CONTROLLERS:
        raise MismatchedEndpointType("this endpoint serves brokers, not controllers")
    if request.endpoint_type != _BROKERS:
        raise UnsupportedEndpointType
    brokers = []
    for each in ctx.broker.image().brokers.values():
        if each.fenced and not request.include_fenced_brokers:
            continue
        host, port = address_of(each, ctx.peer)
        brokers.append(
            DescribeClusterBroker(
                broker_id=each.id, host=host, port=port, rack=each.rack, is_fenced=each.fenced
            )
        )
    asked = request.include_cluster_authorized_operations
    return DescribeClusterResponse(
        cluster_id=ctx.broker.cluster_id,
        controller_id=ctx.broker.controller.controller_id,
        brokers=brokers,
        cluster_authorized_operations=cluster_operations(ctx) if asked else NOT_ASKED,
    )
