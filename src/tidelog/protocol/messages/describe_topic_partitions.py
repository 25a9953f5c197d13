"""DescribeTopicPartitions (75): partitions of topics, page by page (KIP-966)."""

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


class TopicRequest(Struct):
    name: string = ""


class Cursor(Struct):
    topic_name: string = ""
    partition_index: int32 = 0


class DescribeTopicPartitionsRequest(Request, api_key=75, versions="0", flexible="0+"):
    topics: list[TopicRequest] = field(factory=list)
    response_partition_limit: int32 = 2000
    cursor: Cursor | None = None


class DescribeTopicPartitionsResponsePartition(Struct):
    error_code: int16 = 0
    partition_index: int32 = 0
    leader_id: int32 = 0
    leader_epoch: int32 = -1
    replica_nodes: list[int32] = field(factory=list)
    isr_nodes: list[int32] = field(factory=list)
    eligible_leader_replicas: list[int32] | None = None
    last_known_elr: list[int32] | None = None
    offline_replicas: list[int32] = field(factory=list)


class DescribeTopicPartitionsResponseTopic(Struct):
    error_code: int16 = 0
    name: string | None = ""
    topic_id: uuid = ZERO_UUID
    is_internal: boolean = False
    partitions: list[DescribeTopicPartitionsResponsePartition] = field(factory=list)
    topic_authorized_operations: int32 = -2147483648


class DescribeTopicPartitionsResponse(Response, to=DescribeTopicPartitionsRequest):
    throttle_time_ms: int32 = 0
    topics: list[DescribeTopicPartitionsResponseTopic] = field(factory=list)
    next_cursor: Cursor | None = None
