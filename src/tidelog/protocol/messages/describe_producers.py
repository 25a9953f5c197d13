"""DescribeProducers (61): what a partition's leader remembers of its producers (KIP-664)."""

from ..schema import Request, Response, Struct, field, int16, int32, int64, string


class TopicRequest(Struct):
    name: string = ""
    partition_indexes: list[int32] = field(factory=list)


class DescribeProducersRequest(Request, api_key=61, versions="0", flexible="0+"):
    topics: list[TopicRequest] = field(factory=list)


class ProducerState(Struct):
    producer_id: int64 = 0
    producer_epoch: int32 = 0
    last_sequence: int32 = -1
    last_timestamp: int64 = -1
    coordinator_epoch: int32 = 0
    current_txn_start_offset: int64 = -1


class PartitionResponse(Struct):
    partition_index: int32 = 0
    error_code: int16 = 0
    error_message: string | None = None
    active_producers: list[ProducerState] = field(factory=list)


class TopicResponse(Struct):
    name: string = ""
    partitions: list[PartitionResponse] = field(factory=list)


class DescribeProducersResponse(Response, to=DescribeProducersRequest):
    throttle_time_ms: int32 = 0
    topics: list[TopicResponse] = field(factory=list)
