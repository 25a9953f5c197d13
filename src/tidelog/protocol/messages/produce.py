"""Produce (0): append record batches to partitions.

Versions: 1 throttles; 2 allows message format 1 and answers with the append time; 3 wants batches of format 2
and names the transaction; 5 answers with the log start offset; 6 throttles after the answer (KIP-219); 7 allows
zstd; 8 names the records that were refused (KIP-467); 9 is flexible; 10 tells of a new leader (KIP-951); 11 and
12 are for transactions verified by the server (KIP-890); 13 has topic ids in place of names (KIP-516).
"""

from ..schema import (
    ZERO_UUID,
    Request,
    Response,
    Struct,
    batches,
    field,
    int16,
    int32,
    int64,
    string,
    uuid,
)


class PartitionProduceData(Struct):
    index: int32 = 0
    records: batches | None = None


class TopicProduceData(Struct):
    name: string = field("0-12", default="")
    topic_id: uuid = field("13+", default=ZERO_UUID)
    partition_data: list[PartitionProduceData] = field(factory=list)


class ProduceRequest(Request, api_key=0, versions="0-13", flexible="9+", most=10_000):
    transactional_id: string | None = field("3+", default=None)
    acks: int16 = 0
    timeout_ms: int32 = 0
    topic_data: list[TopicProduceData] = field(factory=list)


class BatchIndexAndErrorMessage(Struct):
    batch_index: int32 = field("8+", default=0)
    batch_index_error_message: string | None = field("8+", default=None)


class LeaderIdAndEpoch(Struct):
    leader_id: int32 = field("10+", default=-1)
    leader_epoch: int32 = field("10+", default=-1)


class PartitionProduceResponse(Struct):
    index: int32 = 0
    error_code: int16 = 0
    base_offset: int64 = 0
    log_append_time_ms: int64 = field("2+", default=-1)
    log_start_offset: int64 = field("5+", default=-1)
    record_errors: list[BatchIndexAndErrorMessage] = field("8+", factory=list)
    error_message: string | None = field("8+", default=None)
    current_leader: LeaderIdAndEpoch = field("10+", tag=0, factory=LeaderIdAndEpoch)


class TopicProduceResponse(Struct):
    name: string = field("0-12", default="")
    topic_id: uuid = field("13+", default=ZERO_UUID)
    partition_responses: list[PartitionProduceResponse] = field(factory=list)


class NodeEndpoint(Struct):
    node_id: int32 = field("10+", default=0)
    host: string = field("10+", default="")
    port: int32 = field("10+", default=0)
    rack: string | None = field("10+", default=None)


class ProduceResponse(Response, to=ProduceRequest):
    responses: list[TopicProduceResponse] = field(factory=list)
    throttle_time_ms: int32 = field("1+", default=0)
    node_endpoints: list[NodeEndpoint] = field("10+", tag=0, factory=list)
