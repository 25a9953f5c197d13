"""ListTransactions (66): the transactional ids that this broker coordinates (KIP-664).

Versions: 1 filters by how long a transaction has been open (KIP-994); 2 by a pattern of the whole id (KIP-1152).
Absent: nothing.
"""

from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.permissions import DESCRIBE, by_item
from tidelog.coordination.groups.consumer.regex import compile_pattern
from tidelog.coordination.transactions.states import ONGOING, TransactionState
from tidelog.coordination.transactions.transaction import Transaction
from tidelog.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from tidelog.protocol.messages.list_transactions import TransactionState as Listed
from tidelog.security.acls import Resource

_NAMES = {state.value for state in TransactionState}


@handles(ListTransactionsRequest, "0-2", allow=by_item)
def list_transactions(request: ListTransactionsRequest, ctx: Context) -> ListTransactionsResponse:
    now_ms = ctx.broker.clock.now_ms()
    pattern = request.transactional_id_pattern
    compiled = compile_pattern(pattern) if pattern else None
    return ListTransactionsResponse(
        unknown_state_filters=[each for each in request.state_filters if each not in _NAMES],
        transaction_states=[
            Listed(
                transactional_id=transactional_id,
                producer_id=known.producer_id,
                transaction_state=known.state.value,
            )
            for transactional_id, known in ctx.broker.transactions.transactions().items()
            if _is_wanted(known, request, now_ms)
            and (compiled is None or compiled.fullmatch(transactional_id))
            and ctx.may(DESCRIBE, Resource.transaction(transactional_id), quietly=True)
        ],
    )


def _is_wanted(known: Transaction, request: ListTransactionsRequest, now_ms: int) -> bool:
    if request.state_filters and known.state.value not in request.state_filters:
        return False
    if request.producer_id_filters and known.producer_id not in request.producer_id_filters:
        return False
    if request.duration_filter < 0:
        return True
    return known.state is ONGOING and now_ms - known.start_ms > request.duration_filter
