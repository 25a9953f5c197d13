"""AlterReplicaLogDirs (34): move replicas to another log directory of their broker.

Versions: 1 throttles after the answer; 2 is flexible.
"""

from ..schema import Request, Response, Struct, field, int16, int32, string


class AlterReplicaLogDirTopic(Struct):
    name: string = ""
    partitions: list[int32] = field(factory=list)


class AlterReplicaLogDir(Struct):
    path: string = ""
    topics: list[AlterReplicaLogDirTopic] = field(factory=list)


class AlterReplicaLogDirsRequest(Request, api_key=34, versions="0-2", flexible="2+"):
    dirs: list[AlterReplicaLogDir] = field(factory=list)


class AlterReplicaLogDirPartitionResult(Struct):
    partition_index: int32 = 0
    error_code: int16 = 0


class AlterReplicaLogDirTopicResult(Struct):
    topic_name: string = ""
    partitions: list[AlterReplicaLogDirPartitionResult] = field(factory=list)


class AlterReplicaLogDirsResponse(Response, to=AlterReplicaLogDirsRequest):
    throttle_time_ms: int32 = 0
    results: list[AlterReplicaLogDirTopicResult] = field(factory=list)
