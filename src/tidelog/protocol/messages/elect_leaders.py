"""ElectLeaders (43): elect the preferred replica, or any live one, as leader.

Versions: 1 can elect uncleanly (KIP-460); 2 is flexible.
"""

from ..schema import Request, Response, Struct, field, int8, int16, int32, string


class TopicPartitions(Struct):
    topic: string = ""
    partitions: list[int32] = field(factory=list)


class ElectLeadersRequest(Request, api_key=43, versions="0-2", flexible="2+", most=20_000):
    election_type: int8 = field("1+", default=0)
    topic_partitions: list[TopicPartitions] | None = field(factory=list)
    timeout_ms: int32 = 60000


class PartitionResult(Struct):
    partition_id: int32 = 0
    error_code: int16 = 0
    error_message: string | None = ""


class ReplicaElectionResult(Struct):
    topic: string = ""
    partition_result: list[PartitionResult] = field(factory=list)


class ElectLeadersResponse(Response, to=ElectLeadersRequest):
    throttle_time_ms: int32 = 0
    error_code: int16 = field("1+", default=0)
    replica_election_results: list[ReplicaElectionResult] = field(factory=list)
