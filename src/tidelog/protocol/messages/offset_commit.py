"""OffsetCommit (8): store the offsets that a group has reached.

Versions: 1 names member and generation; 2 sets a retention time, gone again in 5; 3 throttles; 4 throttles after
the answer; 6 adds leader epochs (KIP-320); 7 static members (KIP-345); 8 is flexible; 9 serves the new group
protocol (KIP-848), with the member epoch as generation; 10 has topic ids in place of names.
"""

from ..schema import ZERO_UUID, Request, Response, Struct, field, int16, int32, int64, string, uuid


class OffsetCommitRequestPartition(Struct):
    partition_index: int32 = 0
    committed_offset: int64 = 0
    committed_leader_epoch: int32 = field("6+", default=-1)
    commit_timestamp: int64 = field("1", default=-1)
    committed_metadata: string | None = ""


class OffsetCommitRequestTopic(Struct):
    name: string = field("0-9", default="")
    topic_id: uuid = field("10+", default=ZERO_UUID)
    partitions: list[OffsetCommitRequestPartition] = field(factory=list)


class OffsetCommitRequest(Request, api_key=8, versions="0-10", flexible="8+"):
    group_id: string = ""
    generation_id_or_member_epoch: int32 = field("1+", default=-1)
    member_id: string = field("1+", default="")
    group_instance_id: string | None = field("7+", default=None)
    retention_time_ms: int64 = field("2-4", default=-1)
    topics: list[OffsetCommitRequestTopic] = field(factory=list)


class OffsetCommitResponsePartition(Struct):
    partition_index: int32 = 0
    error_code: int16 = 0


class OffsetCommitResponseTopic(Struct):
    name: string = field("0-9", default="")
    topic_id: uuid = field("10+", default=ZERO_UUID)
    partitions: list[OffsetCommitResponsePartition] = field(factory=list)


class OffsetCommitResponse(Response, to=OffsetCommitRequest):
    throttle_time_ms: int32 = field("3+", default=0)
    topics: list[OffsetCommitResponseTopic] = field(factory=list)
