"""OffsetDelete (47): delete a group's offsets of some partitions (KIP-496).  Never flexible."""

from ..schema import Request, Response, Struct, field, int16, int32, string


class OffsetDeleteRequestPartition(Struct):
    partition_index: int32 = 0


class OffsetDeleteRequestTopic(Struct):
    name: string = ""
    partitions: list[OffsetDeleteRequestPartition] = field(factory=list)


class OffsetDeleteRequest(Request, api_key=47, versions="0", flexible="none"):
    group_id: string = ""
    topics: list[OffsetDeleteRequestTopic] = field(factory=list)


class OffsetDeleteResponsePartition(Struct):
    partition_index: int32 = 0
    error_code: int16 = 0


class OffsetDeleteResponseTopic(Struct):
    name: string = ""
    partitions: list[OffsetDeleteResponsePartition] = field(factory=list)


class OffsetDeleteResponse(Response, to=OffsetDeleteRequest):
    error_code: int16 = 0
    throttle_time_ms: int32 = 0
    topics: list[OffsetDeleteResponseTopic] = field(factory=list)
