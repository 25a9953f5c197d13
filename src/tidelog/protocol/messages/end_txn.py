"""EndTxn (26): commit or abort a transaction.

Versions: 1 throttles after the answer; 2 may say that the producer was fenced; 3 is flexible; 4 and 5 are for
transactions verified by the server (KIP-890): 5 answers with the id and epoch to go on with.
"""

from ..schema import Request, Response, boolean, field, int16, int32, int64, string


class EndTxnRequest(Request, api_key=26, versions="0-5", flexible="3+"):
    transactional_id: string = ""
    producer_id: int64 = 0
    producer_epoch: int16 = 0
    committed: boolean = False


class EndTxnResponse(Response, to=EndTxnRequest):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    producer_id: int64 = field("5+", default=-1)
    producer_epoch: int16 = field("5+", default=-1)
