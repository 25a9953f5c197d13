"""ListOffsets (2): find offsets by time, or the first and the last of a partition.

Versions: 0 answers with several offsets; 1 with one and its timestamp; 2 has isolation levels and throttles;
3 throttles after the answer; 4 checks leader epochs (KIP-320); 5 may say that an offset is not available; 6 is
flexible; 7 finds the largest timestamp (KIP-734); 8 the first local offset (KIP-405); 9 the last tiered one
(KIP-1005); 10 has a timeout for tiered look-ups (KIP-1075); 11 finds the first offset waiting for upload.
"""

from ..schema import Request, Response, Struct, field, int8, int16, int32, int64, string


class ListOffsetsPartition(Struct):
    partition_index: int32 = 0
    current_leader_epoch: int32 = field("4+", default=-1)
    timestamp: int64 = 0
    max_num_offsets: int32 = field("0", default=1)


class ListOffsetsTopic(Struct):
    name: string = ""
    partitions: list[ListOffsetsPartition] = field(factory=list)


class ListOffsetsRequest(Request, api_key=2, versions="0-11", flexible="6+"):
    replica_id: int32 = 0
    isolation_level: int8 = field("2+", default=0)
    topics: list[ListOffsetsTopic] = field(factory=list)
    timeout_ms: int32 = field("10+", default=0)


class ListOffsetsPartitionResponse(Struct):
    partition_index: int32 = 0
    error_code: int16 = 0
    old_style_offsets: list[int64] = field("0", factory=list)
    timestamp: int64 = field("1+", default=-1)
    offset: int64 = field("1+", default=-1)
    leader_epoch: int32 = field("4+", default=-1)


class ListOffsetsTopicResponse(Struct):
    name: string = ""
    partitions: list[ListOffsetsPartitionResponse] = field(factory=list)


class ListOffsetsResponse(Response, to=ListOffsetsRequest):
    throttle_time_ms: int32 = field("2+", default=0)
    topics: list[ListOffsetsTopicResponse] = field(factory=list)
