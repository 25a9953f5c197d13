"""DescribeTransactions (65): the state of transactional ids (KIP-664).

Version 0.  Absent: nothing.
"""

from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.permissions import DESCRIBE, by_item
from tidelog.broker.turns import Turns
from tidelog.errors import KafkaError
from tidelog.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from tidelog.security.acls import Resource


@handles(DescribeTransactionsRequest, "0", allow=by_item)
async def describe_transactions(
    request: DescribeTransactionsRequest, ctx: Context
) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        # Each is told once, however often it is asked for: its partitions can be many.
        transaction_states=[
            await _described(each, ctx)
            async for each in Turns().over(dict.fromkeys(request.transactional_ids))
        ]
    )


async def _described(transactional_id: str, ctx: Context) -> TransactionState:
    try:
        ctx.check(DESCRIBE, Resource.transaction(transactional_id))
        known = await ctx.broker.transactions.describe(transactional_id)
    except KafkaError as error:
        return TransactionState(error_code=error.code, transactional_id=transactional_id)
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(known.places):
        if ctx.may(DESCRIBE, Resource.topic(topic), quietly=True):
            topics.setdefault(topic, []).append(index)
    return TransactionState(
        transactional_id=transactional_id,
        transaction_state=known.state.value,
        transaction_timeout_ms=known.timeout_ms,
        transaction_start_time_ms=known.start_ms,
        producer_id=known.producer_id,
        producer_epoch=known.producer_epoch,
        topics=[TopicData(topic=name, partitions=indexes) for name, indexes in topics.items()],
    )
