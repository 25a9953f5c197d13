"""ListTransactions (66): the transactional ids that this broker coordinates (KIP-664).

Versions: 1 filters by how long a transaction has been open (KIP-994); 2 by a pattern of the whole id (KIP-1152).
Absent: nothing.
"""

from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.permissions import DESCRIBE, by_item
from tidelog.broker.turns import Turns
from tidelog.coordination.groups.consumer.regex import compile_pattern
from tidelog.coordination.transactions.states import ONGOING, TransactionState
from tidelog.coordination.transactions.transaction import Transaction
from tidelog.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from tidelog.protocol.messages.list_transactions import TransactionState as Listed
from tidelog.security.acls import Resource

_A_TURN = 20
"""Ids that are matched before others have their turn; one takes some milliseconds at worst."""

_NAMES = {state.value for state in TransactionState}


@handles(ListTransactionsRequest, "0-2", allow=by_item)
async def list_transactions(
    request: ListTransactionsRequest, ctx: Context
) -> ListTransactionsResponse:
    now_ms = ctx.broker.clock.now_ms()
    pattern = request.transactional_id_pattern
    compiled = compile_pattern(pattern) if pattern else None
    states, ids = frozenset(request.state_filters), frozenset(request.producer_id_filters)
    found = ctx.broker.transactions.transactions()
    return ListTransactionsResponse(
        unknown_state_filters=[each for each in request.state_filters if each not in _NAMES],
        transaction_states=[
            Listed(
                transactional_id=transactional_id,
                producer_id=known.producer_id,
                transaction_state=known.state.value,
            )
            async for transactional_id, known in Turns(_A_TURN).over(list(found.items()))
            if (not states or known.state.value in states)
            and (not ids or known.producer_id in ids)
            and _has_lasted(known, request.duration_filter, now_ms)
            and ctx.may(DESCRIBE, Resource.transaction(transactional_id), quietly=True)
            and (compiled is None or compiled.fullmatch(transactional_id))
        ],
    )


def _has_lasted(known: Transaction, least_ms: int, now_ms: int) -> bool:
    return least_ms < 0 or (known.state is ONGOING and now_ms - known.start_ms > least_ms)
