"""CreatePartitions (37): add partitions to topics.

Versions: 1 throttles after the answer; 2 is flexible; 3 may refuse by quota (KIP-599).
"""

from ..schema import Request, Response, Struct, boolean, field, int16, int32, string


class CreatePartitionsAssignment(Struct):
    broker_ids: list[int32] = field(factory=list)


class CreatePartitionsTopic(Struct):
    name: string = ""
    count: int32 = 0
    assignments: list[CreatePartitionsAssignment] | None = field(factory=list)


class CreatePartitionsRequest(Request, api_key=37, versions="0-3", flexible="2+", most=20_000):
    topics: list[CreatePartitionsTopic] = field(factory=list)
    timeout_ms: int32 = 0
    validate_only: boolean = False


class CreatePartitionsTopicResult(Struct):
    name: string = ""
    error_code: int16 = 0
    error_message: string | None = None


class CreatePartitionsResponse(Response, to=CreatePartitionsRequest):
    throttle_time_ms: int32 = 0
    results: list[CreatePartitionsTopicResult] = field(factory=list)
