"""AssignReplicasToDirs (73): a broker tells the controller on which of its log directories replicas lie (KIP-858)."""

from uuid import UUID

from ..schema import ZERO_UUID, Request, Response, Struct, field, int16, int32, int64, uuid

UNASSIGNED = ZERO_UUID
"""On a directory that works, whichever it is."""
LOST = UUID(int=1)
"""On a directory that has failed."""


class AssignedPartitionData(Struct):
    partition_index: int32 = 0


class AssignedTopicData(Struct):
    topic_id: uuid = ZERO_UUID
    partitions: list[AssignedPartitionData] = field(factory=list)


class DirectoryData(Struct):
    id: uuid = ZERO_UUID
    topics: list[AssignedTopicData] = field(factory=list)


class AssignReplicasToDirsRequest(Request, api_key=73, versions="0", flexible="0+"):
    broker_id: int32 = 0
    broker_epoch: int64 = -1
    directories: list[DirectoryData] = field(factory=list)


class ResponsePartitionData(Struct):
    partition_index: int32 = 0
    error_code: int16 = 0


class ResponseTopicData(Struct):
    topic_id: uuid = ZERO_UUID
    partitions: list[ResponsePartitionData] = field(factory=list)


class ResponseDirectoryData(Struct):
    id: uuid = ZERO_UUID
    topics: list[ResponseTopicData] = field(factory=list)


class AssignReplicasToDirsResponse(Response, to=AssignReplicasToDirsRequest):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    directories: list[ResponseDirectoryData] = field(factory=list)
