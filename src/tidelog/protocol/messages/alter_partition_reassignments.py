"""AlterPartitionReassignments (45): move partitions to other replicas, or call the move off (KIP-455).

Versions: 1 can insist that the number of replicas stays.
"""

from ..schema import Request, Response, Struct, boolean, field, int16, int32, string


class ReassignablePartition(Struct):
    partition_index: int32 = 0
    replicas: list[int32] | None = None


class ReassignableTopic(Struct):
    name: string = ""
    partitions: list[ReassignablePartition] = field(factory=list)


class AlterPartitionReassignmentsRequest(Request, api_key=45, versions="0-1", flexible="0+"):
    timeout_ms: int32 = 60000
    allow_replication_factor_change: boolean = field("1+", default=True)
    topics: list[ReassignableTopic] = field(factory=list)


class ReassignablePartitionResponse(Struct):
    partition_index: int32 = 0
    error_code: int16 = 0
    error_message: string | None = ""


class ReassignableTopicResponse(Struct):
    name: string = ""
    partitions: list[ReassignablePartitionResponse] = field(factory=list)


class AlterPartitionReassignmentsResponse(Response, to=AlterPartitionReassignmentsRequest):
    throttle_time_ms: int32 = 0
    allow_replication_factor_change: boolean = field("1+", default=True)
    error_code: int16 = 0
    error_message: string | None = ""
    responses: list[ReassignableTopicResponse] = field(factory=list)
