"""AddPartitionsToTxn (24): put partitions into a transaction.

Versions: 2 may say that the producer was fenced; 3 is flexible; 4 carries several transactions and can only verify,
as brokers ask each other; 5 may ask to abort (KIP-890).  All partitions of a transaction are added, or none.
Absent: nothing.
"""

from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.permissions import CLUSTER_ACTION, WRITE, by_item, maybe_refused
from tidelog.broker.transaction_errors import as_known
from tidelog.broker.turns import Turns
from tidelog.coordination.transactions.transaction import Identity, Place
from tidelog.errors import (
    InvalidTxnState,
    KafkaError,
    OperationNotAttempted,
    TopicAuthorizationFailed,
    TransactionAbortable,
    UnknownTopicOrPartition,
)
from tidelog.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from tidelog.security.acls import CLUSTER, Resource

_FENCED_FROM = 2
_BATCHED_FROM = 4
_ABORTABLE_FROM = 5

Codes = dict[Place, int]


@handles(AddPartitionsToTxnRequest, "0-5", allow=by_item)
async def add_partitions_to_txn(
    request: AddPartitionsToTxnRequest, ctx: Context
) -> AddPartitionsToTxnResponse:
    if ctx.api_version >= _BATCHED_FROM:
        ctx.check(CLUSTER_ACTION, CLUSTER)  # brokers alone ask like this
        return AddPartitionsToTxnResponse(
            results_by_transaction=[
                AddPartitionsToTxnResult(
                    transactional_id=each.transactional_id,
                    topic_results=_told(each.topics, await _add(each, ctx)),
                )
                async for each in Turns().over(request.transactions)
            ]
        )
    only = AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    codes = _refused(only, ctx) or await _add(only, ctx)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_told(only.topics, codes))


def _refused(asked: AddPartitionsToTxnTransaction, ctx: Context) -> Codes | None:
    """A code for each partition, if the client may not have all of them."""
    error = maybe_refused(ctx, WRITE, Resource.transaction(asked.transactional_id))
    refused = {
        topic.name for topic in asked.topics if not ctx.may(WRITE, Resource.topic(topic.name))
    }
    if error is None and not refused:
        return None
    codes: Codes = {}
    for topic in asked.topics:
        told = TopicAuthorizationFailed if topic.name in refused else OperationNotAttempted
        code = told.code if error is None else error.code
        codes.update(dict.fromkeys(((topic.name, index) for index in topic.partitions), code))
    return codes


async def _add(asked: AddPartitionsToTxnTransaction, ctx: Context) -> Codes:
    """A code for each partition."""
    places = [(topic.name, index) for topic in asked.topics for index in topic.partitions]
    partitions = ctx.broker.image().partition_count
    unknown = {place for place in places if not 0 <= place[1] < partitions(place[0])}
    if unknown:
        return {
            place: (UnknownTopicOrPartition if place in unknown else OperationNotAttempted).code
            for place in places
        }
    producer = Identity(asked.producer_id, asked.producer_epoch)
    if asked.verify_only:
        return {place: _verify(asked.transactional_id, producer, place, ctx) for place in places}
    try:
        await ctx.broker.transactions.add_partitions(
            asked.transactional_id, producer, frozenset(places)
        )
    except KafkaError as error:
        return dict.fromkeys(places, as_known(error, ctx.api_version, _FENCED_FROM).code)
    return dict.fromkeys(places, 0)


def _verify(transactional_id: str, producer: Identity, place: Place, ctx: Context) -> int:
    try:
        ctx.broker.transactions.verify(transactional_id, producer, place)
    except TransactionAbortable as error:
        return error.code if ctx.api_version >= _ABORTABLE_FROM else InvalidTxnState.code
    except KafkaError as error:
        return error.code
    return 0


def _told(
    topics: list[AddPartitionsToTxnTopic], codes: Codes
) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=codes[topic.name, index]
                )
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]
