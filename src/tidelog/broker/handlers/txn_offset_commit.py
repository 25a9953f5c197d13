"""TxnOffsetCommit (28): commit a group's offsets as part of a transaction.

Versions: 2 adds leader epochs; 3 is flexible and names member and generation, which are checked (KIP-447); 4 is for
transactions of KIP-890; with 5 the commit itself puts the offsets into the transaction.  They count when the
transaction is committed; until then OffsetFetch may say that they are unstable.  Absent: nothing.
"""

from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.coordination.transactions.transaction import Identity
from tidelog.errors import (
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    InvalidCommitOffsetSize,
    InvalidGroupId,
    InvalidProducerEpoch,
    InvalidTxnState,
    KafkaError,
    MessageTooLarge,
    ProducerFenced,
    RecordListTooLarge,
    TransactionAbortable,
)
from tidelog.names import CONSUMER_OFFSETS
from tidelog.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

_JOINS_FROM = 5

_AS_KNOWN: dict[type[KafkaError], type[KafkaError]] = {
    TransactionAbortable: InvalidTxnState,
    ProducerFenced: InvalidProducerEpoch,
    ConcurrentTransactions: CoordinatorLoadInProgress,
    MessageTooLarge: InvalidCommitOffsetSize,
    RecordListTooLarge: InvalidCommitOffsetSize,
}
"""What happens between coordinators, in the words of this API: the third is retried."""


@handles(TxnOffsetCommitRequest, "0-5")
async def txn_offset_commit(
    request: TxnOffsetCommitRequest, ctx: Context
) -> TxnOffsetCommitResponse:
    try:
        if not request.group_id:
            raise InvalidGroupId
        producer = Identity(request.producer_id, request.producer_epoch)
        place = CONSUMER_OFFSETS, await ctx.broker.groups.partition_of(request.group_id)
        transactions = ctx.broker.transactions
        if ctx.api_version >= _JOINS_FROM:
            await transactions.add_partitions(
                request.transactional_id, producer, frozenset({place})
            )
        transactions.verify(request.transactional_id, producer, place)
        return await ctx.broker.groups.txn_offset_commit(request)
    except KafkaError as error:
        if isinstance(error, TransactionAbortable) and ctx.api_version >= _JOINS_FROM:
            return _refused(request, error.code)
        return _refused(request, _AS_KNOWN.get(type(error), type(error)).code)


def _refused(request: TxnOffsetCommitRequest, code: int) -> TxnOffsetCommitResponse:
    """The error has no place of its own: it is told for every partition."""
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=each.partition_index, error_code=code
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
