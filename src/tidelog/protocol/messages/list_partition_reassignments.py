"""ListPartitionReassignments (46): the moves of replicas under way (KIP-455)."""

from ..schema import Request, Response, Struct, field, int16, int32, string


class ListPartitionReassignmentsTopics(Struct):
    name: string = ""
    partition_indexes: list[int32] = field(factory=list)


class ListPartitionReassignmentsRequest(Request, api_key=46, versions="0", flexible="0+"):
    timeout_ms: int32 = 60000
    topics: list[ListPartitionReassignmentsTopics] | None = None


class OngoingPartitionReassignment(Struct):
    partition_index: int32 = 0
    replicas: list[int32] = field(factory=list)
    adding_replicas: list[int32] = field(factory=list)
    removing_replicas: list[int32] = field(factory=list)


class OngoingTopicReassignment(Struct):
    name: string = ""
    partitions: list[OngoingPartitionReassignment] = field(factory=list)


class ListPartitionReassignmentsResponse(Response, to=ListPartitionReassignmentsRequest):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = ""
    topics: list[OngoingTopicReassignment] = field(factory=list)
