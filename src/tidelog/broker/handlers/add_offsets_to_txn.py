"""AddOffsetsToTxn (25): put a group's offsets into a transaction.

Versions: 2 may say that the producer was fenced; 3 is flexible; 4 is for transactions of KIP-890.  Absent: nothing.
"""

from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.permissions import READ, WRITE, all_of, group, transactional_id
from tidelog.broker.transaction_errors import as_known
from tidelog.coordination.transactions.transaction import Identity
from tidelog.errors import InvalidGroupId, KafkaError
from tidelog.names import CONSUMER_OFFSETS
from tidelog.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)

_FENCED_FROM = 2


@handles(
    AddOffsetsToTxnRequest,
    "0-4",
    allow=all_of(transactional_id(WRITE, "transactional_id"), group(READ, "group_id")),
)
async def add_offsets_to_txn(
    request: AddOffsetsToTxnRequest, ctx: Context
) -> AddOffsetsToTxnResponse:
    if not request.group_id:
        raise InvalidGroupId
    try:
        index = await ctx.broker.groups.locate(request.group_id)
        await ctx.broker.transactions.add_partitions(
            request.transactional_id,
            Identity(request.producer_id, request.producer_epoch),
            frozenset({(CONSUMER_OFFSETS, index)}),
        )
    except KafkaError as error:
        raise as_known(error, ctx.api_version, _FENCED_FROM) from None
    return AddOffsetsToTxnResponse()
