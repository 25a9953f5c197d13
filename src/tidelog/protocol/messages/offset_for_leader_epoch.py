"""OffsetForLeaderEpoch (23): where a leader epoch ends, to find out how far two logs agree.

Versions: 1 answers with the epoch it found; 2 throttles and names the epoch the asker knows; 3 names the replica;
4 is flexible.
"""

from ..schema import Request, Response, Struct, field, int16, int32, int64, string


class OffsetForLeaderPartition(Struct):
    partition: int32 = 0
    current_leader_epoch: int32 = field("2+", default=-1)
    leader_epoch: int32 = 0


class OffsetForLeaderTopic(Struct):
    topic: string = ""
    partitions: list[OffsetForLeaderPartition] = field(factory=list)


class OffsetForLeaderEpochRequest(Request, api_key=23, versions="0-4", flexible="4+"):
    replica_id: int32 = field("3+", default=-2)
    topics: list[OffsetForLeaderTopic] = field(factory=list)


class EpochEndOffset(Struct):
    error_code: int16 = 0
    partition: int32 = 0
    leader_epoch: int32 = field("1+", default=-1)
    end_offset: int64 = -1


class OffsetForLeaderTopicResult(Struct):
    topic: string = ""
    partitions: list[EpochEndOffset] = field(factory=list)


class OffsetForLeaderEpochResponse(Response, to=OffsetForLeaderEpochRequest):
    throttle_time_ms: int32 = field("2+", default=0)
    topics: list[OffsetForLeaderTopicResult] = field(factory=list)
