"""DescribeProducers (61): which producers a partition remembers, and what they have open (KIP-664).

Version 0.  Absent: nothing.
"""

from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.permissions import READ, by_item
from tidelog.broker.turns import Turns
from tidelog.errors import KafkaError
from tidelog.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from tidelog.security.acls import Resource


@handles(DescribeProducersRequest, "0", allow=by_item)
async def describe_producers(
    request: DescribeProducersRequest, ctx: Context
) -> DescribeProducersResponse:
    turns = Turns()
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[
                    # Once, however often it is asked for: its producers can be many.
                    _partition(topic.name, index, ctx)
                    async for index in turns.over(dict.fromkeys(topic.partition_indexes))
                ],
            )
            async for topic in turns.over(request.topics)
        ]
    )


def _partition(topic: str, index: int, ctx: Context) -> PartitionResponse:
    try:
        ctx.check(READ, Resource.topic(topic))
        log = ctx.broker.partitions.get(topic, index).log
    except KafkaError as error:
        return PartitionResponse(
            partition_index=index, error_code=error.code, error_message=error.message
        )
    return PartitionResponse(
        partition_index=index,
        active_producers=[
            ProducerState(
                producer_id=producer_id,
                producer_epoch=producer.epoch,
                last_sequence=producer.last_sequence,
                last_timestamp=producer.last_timestamp,
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_start_offset=producer.transaction_first_offset,
            )
            for producer_id, producer in log.producers.by_id.items()
        ],
    )
