"""TxnOffsetCommit (28): commit a group's offsets as part of a transaction.

Versions: 2 adds leader epochs; 3 is flexible and names member and generation, which are checked (KIP-447); 4 is for
transactions of KIP-890; with 5 the commit itself puts the offsets into the transaction.  They count when the
transaction is committed; until then OffsetFetch may say that they are unstable.  Absent: nothing.
"""

from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.permissions import READ, WRITE, by_item
from tidelog.coordination.transactions.transaction import Identity
from tidelog.errors import (
    BrokerNotAvailable,
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    InvalidCommitOffsetSize,
    InvalidGroupId,
    InvalidProducerEpoch,
    InvalidTxnState,
    KafkaError,
    MessageTooLarge,
    NetworkException,
    ProducerFenced,
    RecordListTooLarge,
    RequestTimedOut,
    TopicAuthorizationFailed,
    TransactionAbortable,
)
from tidelog.names import CONSUMER_OFFSETS
from tidelog.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from tidelog.security.acls import Resource

_JOINS_FROM = 5

_AS_KNOWN: dict[type[KafkaError], type[KafkaError]] = {
    TransactionAbortable: InvalidTxnState,
    ProducerFenced: InvalidProducerEpoch,
    ConcurrentTransactions: CoordinatorLoadInProgress,
    BrokerNotAvailable: CoordinatorLoadInProgress,
    NetworkException: CoordinatorLoadInProgress,
    RequestTimedOut: CoordinatorLoadInProgress,
    MessageTooLarge: InvalidCommitOffsetSize,
    RecordListTooLarge: InvalidCommitOffsetSize,
}
"""What happens between coordinators, in the words of this API: what passes is retried."""


@handles(TxnOffsetCommitRequest, "0-5", allow=by_item)
async def txn_offset_commit(
    request: TxnOffsetCommitRequest, ctx: Context
) -> TxnOffsetCommitResponse:
    try:
        if not request.group_id:
            raise InvalidGroupId
        ctx.check(WRITE, Resource.transaction(request.transactional_id))
        ctx.check(READ, Resource.group(request.group_id))
        hidden = _take_hidden(request, ctx)
        if hidden and not request.topics:
            return TxnOffsetCommitResponse(topics=_told(hidden, TopicAuthorizationFailed.code))
        producer = Identity(request.producer_id, request.producer_epoch)
        place = CONSUMER_OFFSETS, await ctx.broker.groups.partition_of(request.group_id)
        transactions, name = ctx.broker.transactions, request.transactional_id
        joins = ctx.api_version >= _JOINS_FROM
        await transactions.entered(name, producer, place, joins=joins)
        response = await ctx.broker.groups.txn_offset_commit(
            request, check=lambda: transactions.check(name, producer, place)
        )
        response.topics += _told(hidden, TopicAuthorizationFailed.code)
        return response
    except KafkaError as error:
        if isinstance(error, TransactionAbortable) and ctx.api_version >= _JOINS_FROM:
            return _refused(request, error.code)
        return _refused(request, _AS_KNOWN.get(type(error), type(error)).code)


def _refused(request: TxnOffsetCommitRequest, code: int) -> TxnOffsetCommitResponse:
    """The error has no place of its own: it is told for every partition."""
    return TxnOffsetCommitResponse(topics=_told(request.topics, code))


def _told(
    topics: list[TxnOffsetCommitRequestTopic], code: int
) -> list[TxnOffsetCommitResponseTopic]:
    return [
        TxnOffsetCommitResponseTopic(
            name=topic.name,
            partitions=[
                TxnOffsetCommitResponsePartition(
                    partition_index=each.partition_index, error_code=code
                )
                for each in topic.partitions
            ],
        )
        for topic in topics
    ]


def _take_hidden(
    request: TxnOffsetCommitRequest, ctx: Context
) -> list[TxnOffsetCommitRequestTopic]:
    """Take out of the request the topics that the client may not read."""
    if ctx.broker.authorizer.is_open:
        return []
    asked, request.topics = request.topics, []
    hidden: list[TxnOffsetCommitRequestTopic] = []
    for each in asked:
        seen = ctx.may(READ, Resource.topic(each.name))
        (request.topics if seen else hidden).append(each)
    return hidden
