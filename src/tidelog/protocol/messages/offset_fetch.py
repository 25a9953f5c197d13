"""OffsetFetch (9): read the offsets that a group has committed.

Versions: 0 read what old clients kept in ZooKeeper; 2 takes null for all topics and has an error for the group;
3 throttles; 4 throttles after the answer; 5 adds leader epochs (KIP-320); 6 is flexible; 7 can wait for open
transactions (KIP-447); 8 asks for several groups at once (KIP-709); 9 names member and epoch (KIP-848); 10 has
topic ids in place of names.
"""

from ..schema import (
    ZERO_UUID,
    Request,
    Response,
    Struct,
    boolean,
    field,
    int16,
    int32,
    int64,
    string,
    uuid,
)


class OffsetFetchRequestTopic(Struct):
    name: string = field("0-7", default="")
    partition_indexes: list[int32] = field("0-7", factory=list)


class OffsetFetchRequestTopics(Struct):
    name: string = field("8-9", default="")
    topic_id: uuid = field("10+", default=ZERO_UUID)
    partition_indexes: list[int32] = field("8+", factory=list)


class OffsetFetchRequestGroup(Struct):
    group_id: string = field("8+", default="")
    member_id: string | None = field("9+", default=None)
    member_epoch: int32 = field("9+", default=-1)
    topics: list[OffsetFetchRequestTopics] | None = field("8+", factory=list)


class OffsetFetchRequest(Request, api_key=9, versions="0-10", flexible="6+"):
    group_id: string = field("0-7", default="")
    topics: list[OffsetFetchRequestTopic] | None = field("0-7", nullable="2-7", factory=list)
    groups: list[OffsetFetchRequestGroup] = field("8+", factory=list)
    require_stable: boolean = field("7+", default=False)


class OffsetFetchResponsePartition(Struct):
    partition_index: int32 = field("0-7", default=0)
    committed_offset: int64 = field("0-7", default=0)
    committed_leader_epoch: int32 = field("5-7", default=-1)
    metadata: string | None = field("0-7", default="")
    error_code: int16 = field("0-7", default=0)


class OffsetFetchResponseTopic(Struct):
    name: string = field("0-7", default="")
    partitions: list[OffsetFetchResponsePartition] = field("0-7", factory=list)


class OffsetFetchResponsePartitions(Struct):
    partition_index: int32 = field("8+", default=0)
    committed_offset: int64 = field("8+", default=0)
    committed_leader_epoch: int32 = field("8+", default=-1)
    metadata: string | None = field("8+", default="")
    error_code: int16 = field("8+", default=0)


class OffsetFetchResponseTopics(Struct):
    name: string = field("8-9", default="")
    topic_id: uuid = field("10+", default=ZERO_UUID)
    partitions: list[OffsetFetchResponsePartitions] = field("8+", factory=list)


class OffsetFetchResponseGroup(Struct):
    group_id: string = field("8+", default="")
    topics: list[OffsetFetchResponseTopics] = field("8+", factory=list)
    error_code: int16 = field("8+", default=0)


class OffsetFetchResponse(Response, to=OffsetFetchRequest):
    throttle_time_ms: int32 = field("3+", default=0)
    topics: list[OffsetFetchResponseTopic] = field("0-7", factory=list)
    error_code: int16 = field("2-7", default=0)
    groups: list[OffsetFetchResponseGroup] = field("8+", factory=list)
