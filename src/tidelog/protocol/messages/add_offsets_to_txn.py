"""AddOffsetsToTxn (25): put a group's offsets into a transaction.

Versions: 1 throttles after the answer; 2 may say that the producer was fenced; 3 is flexible; 4 is for
transactions verified by the server (KIP-890).
"""

from ..schema import Request, Response, int16, int32, int64, string


class AddOffsetsToTxnRequest(Request, api_key=25, versions="0-4", flexible="3+"):
    transactional_id: string = ""
    producer_id: int64 = 0
    producer_epoch: int16 = 0
    group_id: string = ""


class AddOffsetsToTxnResponse(Response, to=AddOffsetsToTxnRequest):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
