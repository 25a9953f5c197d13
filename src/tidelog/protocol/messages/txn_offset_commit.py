"""TxnOffsetCommit (28): commit a group's offsets as part of a transaction.

Versions: 1 throttles after the answer; 2 adds leader epochs (KIP-320); 3 is flexible and names member and
generation (KIP-447); 4 and 5 are for transactions verified by the server (KIP-890).
"""

from ..schema import Request, Response, Struct, field, int16, int32, int64, string


class TxnOffsetCommitRequestPartition(Struct):
    partition_index: int32 = 0
    committed_offset: int64 = 0
    committed_leader_epoch: int32 = field("2+", default=-1)
    committed_metadata: string | None = ""


class TxnOffsetCommitRequestTopic(Struct):
    name: string = ""
    partitions: list[TxnOffsetCommitRequestPartition] = field(factory=list)


class TxnOffsetCommitRequest(Request, api_key=28, versions="0-5", flexible="3+"):
    transactional_id: string = ""
    group_id: string = ""
    producer_id: int64 = 0
    producer_epoch: int16 = 0
    generation_id: int32 = field("3+", default=-1)
    member_id: string = field("3+", default="")
    group_instance_id: string | None = field("3+", default=None)
    topics: list[TxnOffsetCommitRequestTopic] = field(factory=list)


class TxnOffsetCommitResponsePartition(Struct):
    partition_index: int32 = 0
    error_code: int16 = 0


class TxnOffsetCommitResponseTopic(Struct):
    name: string = ""
    partitions: list[TxnOffsetCommitResponsePartition] = field(factory=list)


class TxnOffsetCommitResponse(Response, to=TxnOffsetCommitRequest):
    throttle_time_ms: int32 = 0
    topics: list[TxnOffsetCommitResponseTopic] = field(factory=list)
