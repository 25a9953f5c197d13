"""Metadata (3): brokers, controller, topics and who leads their partitions.

Versions: in 0 no topics means all, from 1 on null means all and none means none; 1 adds rack, controller and
internal topics; 2 the cluster id; 3 throttles; 4 chooses auto-creation; 5 lists offline replicas; 6 throttles
after the answer; 7 has leader epochs (KIP-320); 8 authorized operations (KIP-430), those of the cluster only until
10; 9 is flexible; 10 adds topic ids (KIP-516); 11 leaves the cluster's operations to DescribeCluster; 12 asks by
topic id; 13 has an error for the whole answer.
"""

from ..schema import (
    ZERO_UUID,
    Request,
    Response,
    Struct,
    boolean,
    field,
    int16,
    int32,
    string,
    uuid,
)


class MetadataRequestTopic(Struct):
    topic_id: uuid = field("10+", default=ZERO_UUID)
    name: string | None = field(nullable="10+", default="")


class MetadataRequest(Request, api_key=3, versions="0-13", flexible="9+"):
    topics: list[MetadataRequestTopic] | None = field(nullable="1+", factory=list)
    allow_auto_topic_creation: boolean = field("4+", default=True)
    include_cluster_authorized_operations: boolean = field("8-10", default=False)
    include_topic_authorized_operations: boolean = field("8+", default=False)


class MetadataResponseBroker(Struct):
    node_id: int32 = 0
    host: string = ""
    port: int32 = 0
    rack: string | None = field("1+", default=None)


class MetadataResponsePartition(Struct):
    error_code: int16 = 0
    partition_index: int32 = 0
    leader_id: int32 = 0
    leader_epoch: int32 = field("7+", default=-1)
    replica_nodes: list[int32] = field(factory=list)
    isr_nodes: list[int32] = field(factory=list)
    offline_replicas: list[int32] = field("5+", factory=list)


class MetadataResponseTopic(Struct):
    error_code: int16 = 0
    name: string | None = field(nullable="12+", default="")
    topic_id: uuid = field("10+", default=ZERO_UUID)
    is_internal: boolean = field("1+", default=False)
    partitions: list[MetadataResponsePartition] = field(factory=list)
    topic_authorized_operations: int32 = field("8+", default=-2147483648)


class MetadataResponse(Response, to=MetadataRequest):
    throttle_time_ms: int32 = field("3+", default=0)
    brokers: list[MetadataResponseBroker] = field(factory=list)
    cluster_id: string | None = field("2+", default=None)
    controller_id: int32 = field("1+", default=-1)
    topics: list[MetadataResponseTopic] = field(factory=list)
    cluster_authorized_operations: int32 = field("8-10", default=-2147483648)
    error_code: int16 = field("13+", default=0)
