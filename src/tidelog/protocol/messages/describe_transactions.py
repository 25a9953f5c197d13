"""DescribeTransactions (65): the state of transactional ids (KIP-664)."""

from ..schema import Request, Response, Struct, field, int16, int32, int64, string


class DescribeTransactionsRequest(Request, api_key=65, versions="0", flexible="0+"):
    transactional_ids: list[string] = field(factory=list)


class TopicData(Struct):
    topic: string = ""
    partitions: list[int32] = field(factory=list)


class TransactionState(Struct):
    error_code: int16 = 0
    transactional_id: string = ""
    transaction_state: string = ""
    transaction_timeout_ms: int32 = 0
    transaction_start_time_ms: int64 = 0
    producer_id: int64 = 0
    producer_epoch: int16 = 0
    topics: list[TopicData] = field(factory=list)


class DescribeTransactionsResponse(Response, to=DescribeTransactionsRequest):
    throttle_time_ms: int32 = 0
    transaction_states: list[TransactionState] = field(factory=list)
