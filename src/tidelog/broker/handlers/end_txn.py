"""EndTxn (26): commit or abort a transaction.

Versions: 2 may say that the producer was fenced; 3 is flexible; 4 may ask to abort; 5 bumps the epoch, so that a late
request cannot touch the next transaction, and tells with what to go on (KIP-890).  The answer comes when the outcome
is recorded; the markers follow.  Absent: nothing.
"""

from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.permissions import WRITE, transactional_id
from tidelog.broker.transaction_errors import as_known
from tidelog.coordination.transactions.transaction import EPOCH_BUMPED_BY_END, Identity
from tidelog.errors import KafkaError
from tidelog.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

_FENCED_FROM = 2
_BUMPS_FROM = 5


@handles(EndTxnRequest, "0-5", allow=transactional_id(WRITE, "transactional_id"))
async def end_txn(request: EndTxnRequest, ctx: Context) -> EndTxnResponse:
    producer = Identity(request.producer_id, request.producer_epoch)
    try:
        ended = await ctx.broker.transactions.end_transaction(
            request.transactional_id,
            producer,
            request.committed,
            EPOCH_BUMPED_BY_END if ctx.api_version >= _BUMPS_FROM else 0,
        )
    except KafkaError as error:
        raise as_known(error, ctx.api_version, _FENCED_FROM) from None
    return EndTxnResponse(producer_id=ended.producer_id, producer_epoch=ended.producer_epoch)
