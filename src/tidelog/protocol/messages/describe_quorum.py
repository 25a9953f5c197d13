"""DescribeQuorum (55): the voters and observers of the metadata quorum (KIP-595).

Versions: 1 tells when each replica last fetched and last was caught up (KIP-836); 2 adds messages, directory ids
and the addresses of the nodes (KIP-853).
"""

from ..schema import (
    ZERO_UUID,
    Request,
    Response,
    Struct,
    field,
    int16,
    int32,
    int64,
    string,
    uint16,
    uuid,
)


class PartitionData(Struct):
    partition_index: int32 = 0


class TopicData(Struct):
    topic_name: string = ""
    partitions: list[PartitionData] = field(factory=list)


class DescribeQuorumRequest(Request, api_key=55, versions="0-2", flexible="0+"):
    topics: list[TopicData] = field(factory=list)


class ReplicaState(Struct):
    replica_id: int32 = 0
    replica_directory_id: uuid = field("2+", default=ZERO_UUID)
    log_end_offset: int64 = 0
    last_fetch_timestamp: int64 = field("1+", default=-1)
    last_caught_up_timestamp: int64 = field("1+", default=-1)


class DescribeQuorumResponsePartitionData(Struct):
    partition_index: int32 = 0
    error_code: int16 = 0
    error_message: string | None = field("2+", default="")
    leader_id: int32 = 0
    leader_epoch: int32 = 0
    high_watermark: int64 = 0
    current_voters: list[ReplicaState] = field(factory=list)
    observers: list[ReplicaState] = field(factory=list)


class DescribeQuorumResponseTopicData(Struct):
    topic_name: string = ""
    partitions: list[DescribeQuorumResponsePartitionData] = field(factory=list)


class Listener(Struct):
    name: string = field("2+", default="")
    host: string = field("2+", default="")
    port: uint16 = field("2+", default=0)


class Node(Struct):
    node_id: int32 = field("2+", default=0)
    listeners: list[Listener] = field("2+", factory=list)


class DescribeQuorumResponse(Response, to=DescribeQuorumRequest):
    error_code: int16 = 0
    error_message: string | None = field("2+", default="")
    topics: list[DescribeQuorumResponseTopicData] = field(factory=list)
    nodes: list[Node] = field("2+", factory=list)
