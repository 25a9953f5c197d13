"""ListTransactions (66): the transactional ids that a broker coordinates (KIP-664).

Versions: 1 filters by duration (KIP-994); 2 by a pattern of the id (KIP-1152).
"""

from ..schema import Request, Response, Struct, field, int16, int32, int64, string


class ListTransactionsRequest(Request, api_key=66, versions="0-2", flexible="0+"):
    state_filters: list[string] = field(factory=list)
    producer_id_filters: list[int64] = field(factory=list)
    duration_filter: int64 = field("1+", default=-1)
    transactional_id_pattern: string | None = field("2+", default=None)


class TransactionState(Struct):
    transactional_id: string = ""
    producer_id: int64 = 0
    transaction_state: string = ""


class ListTransactionsResponse(Response, to=ListTransactionsRequest):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    unknown_state_filters: list[string] = field(factory=list)
    transaction_states: list[TransactionState] = field(factory=list)
