"""InitProducerId (22): a producer id and epoch, for idempotence and transactions.

Versions: 1 throttles after the answer; 2 is flexible; 3 resumes with the id and epoch at hand (KIP-360); 4 may
say that the producer was fenced; 5 is for transactions verified by the server (KIP-890); 6 prepares for two-phase
commit (KIP-939), which Kafka does not offer yet.
"""

from ..schema import Request, Response, boolean, field, int16, int32, int64, string


class InitProducerIdRequest(Request, api_key=22, versions="0-6", flexible="2+"):
    transactional_id: string | None = ""
    transaction_timeout_ms: int32 = 0
    producer_id: int64 = field("3+", default=-1)
    producer_epoch: int16 = field("3+", default=-1)
    enable2_pc: boolean = field("6+", default=False)
    keep_prepared_txn: boolean = field("6+", default=False)


class InitProducerIdResponse(Response, to=InitProducerIdRequest):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    producer_id: int64 = -1
    producer_epoch: int16 = 0
    ongoing_txn_producer_id: int64 = field("6+", default=-1)
    ongoing_txn_producer_epoch: int16 = field("6+", default=-1)
