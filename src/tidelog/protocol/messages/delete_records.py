"""DeleteRecords (21): drop the records before an offset.

Versions: 1 throttles after the answer; 2 is flexible.
"""

from ..schema import Request, Response, Struct, field, int16, int32, int64, string


class DeleteRecordsPartition(Struct):
    partition_index: int32 = 0
    offset: int64 = 0


class DeleteRecordsTopic(Struct):
    name: string = ""
    partitions: list[DeleteRecordsPartition] = field(factory=list)


class DeleteRecordsRequest(Request, api_key=21, versions="0-2", flexible="2+"):
    topics: list[DeleteRecordsTopic] = field(factory=list)
    timeout_ms: int32 = 0


class DeleteRecordsPartitionResult(Struct):
    partition_index: int32 = 0
    low_watermark: int64 = 0
    error_code: int16 = 0


class DeleteRecordsTopicResult(Struct):
    name: string = ""
    partitions: list[DeleteRecordsPartitionResult] = field(factory=list)


class DeleteRecordsResponse(Response, to=DeleteRecordsRequest):
    throttle_time_ms: int32 = 0
    topics: list[DeleteRecordsTopicResult] = field(factory=list)
