"""AddPartitionsToTxn (24): put partitions into a transaction.

Versions: 1 throttles after the answer; 2 may say that the producer was fenced; 3 is flexible; 4 carries several
transactions and can only verify, which brokers use among themselves; 5 is for transactions verified by the server
(KIP-890).
"""

from ..schema import Request, Response, Struct, boolean, field, int16, int32, int64, string


class AddPartitionsToTxnTopic(Struct):
    name: string = ""
    partitions: list[int32] = field(factory=list)


class AddPartitionsToTxnTransaction(Struct):
    transactional_id: string = field("4+", default="")
    producer_id: int64 = field("4+", default=0)
    producer_epoch: int16 = field("4+", default=0)
    verify_only: boolean = field("4+", default=False)
    topics: list[AddPartitionsToTxnTopic] = field("4+", factory=list)


class AddPartitionsToTxnRequest(Request, api_key=24, versions="0-5", flexible="3+", most=20_000):
    transactions: list[AddPartitionsToTxnTransaction] = field("4+", factory=list)
    v3_and_below_transactional_id: string = field("0-3", default="")
    v3_and_below_producer_id: int64 = field("0-3", default=0)
    v3_and_below_producer_epoch: int16 = field("0-3", default=0)
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field("0-3", factory=list)


class AddPartitionsToTxnPartitionResult(Struct):
    partition_index: int32 = 0
    partition_error_code: int16 = 0


class AddPartitionsToTxnTopicResult(Struct):
    name: string = ""
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = field(factory=list)


class AddPartitionsToTxnResult(Struct):
    transactional_id: string = field("4+", default="")
    topic_results: list[AddPartitionsToTxnTopicResult] = field("4+", factory=list)


class AddPartitionsToTxnResponse(Response, to=AddPartitionsToTxnRequest):
    throttle_time_ms: int32 = 0
    error_code: int16 = field("4+", default=0)
    results_by_transaction: list[AddPartitionsToTxnResult] = field("4+", factory=list)
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field("0-3", factory=list)
