"""WriteTxnMarkers (27): a transaction's coordinator has its outcome written into the logs.

Versions: 1 is flexible; 2 says which transaction protocol was used.
"""

from ..schema import Request, Response, Struct, boolean, field, int8, int16, int32, int64, string


class WritableTxnMarkerTopic(Struct):
    name: string = ""
    partition_indexes: list[int32] = field(factory=list)


class WritableTxnMarker(Struct):
    producer_id: int64 = 0
    producer_epoch: int16 = 0
    transaction_result: boolean = False
    topics: list[WritableTxnMarkerTopic] = field(factory=list)
    coordinator_epoch: int32 = 0
    transaction_version: int8 = field("2+", default=0)


class WriteTxnMarkersRequest(Request, api_key=27, versions="0-2", flexible="1+", most=20_000):
    markers: list[WritableTxnMarker] = field(factory=list)


class WritableTxnMarkerPartitionResult(Struct):
    partition_index: int32 = 0
    error_code: int16 = 0


class WritableTxnMarkerTopicResult(Struct):
    name: string = ""
    partitions: list[WritableTxnMarkerPartitionResult] = field(factory=list)


class WritableTxnMarkerResult(Struct):
    producer_id: int64 = 0
    topics: list[WritableTxnMarkerTopicResult] = field(factory=list)


class WriteTxnMarkersResponse(Response, to=WriteTxnMarkersRequest):
    markers: list[WritableTxnMarkerResult] = field(factory=list)
