"""DescribeCluster (60): cluster id, controller and nodes (KIP-700).

Versions: 1 asks for brokers or controllers (KIP-919); 2 can include fenced brokers (KIP-1073).
"""

from ..schema import Request, Response, Struct, boolean, field, int8, int16, int32, string


class DescribeClusterRequest(Request, api_key=60, versions="0-2", flexible="0+"):
    include_cluster_authorized_operations: boolean = False
    endpoint_type: int8 = field("1+", default=1)
    include_fenced_brokers: boolean = field("2+", default=False)


class DescribeClusterBroker(Struct):
    broker_id: int32 = 0
    host: string = ""
    port: int32 = 0
    rack: string | None = None
    is_fenced: boolean = field("2+", default=False)


class DescribeClusterResponse(Response, to=DescribeClusterRequest):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = None
    endpoint_type: int8 = field("1+", default=1)
    cluster_id: string = ""
    controller_id: int32 = -1
    brokers: list[DescribeClusterBroker] = field(factory=list)
    cluster_authorized_operations: int32 = -2147483648
