"""DeleteRecords (21): drop the beginning of partitions.

Versions: 0-2 differ in form only.  Offset -1 means everything up to the high watermark.  Only topics whose
cleanup.policy has delete, and no internal one.  The answer waits until the replicas on all live brokers have followed.
Absent: nothing.
"""

import asyncio

from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.permissions import DELETE, by_item
from tidelog.broker.turns import Turns
from tidelog.cluster.partition import Partition
from tidelog.errors import (
    InvalidTopicException,
    KafkaError,
    OffsetOutOfRange,
    PolicyViolation,
    RequestTimedOut,
)
from tidelog.names import INTERNAL_TOPICS
from tidelog.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from tidelog.security.acls import Resource

_HIGH_WATERMARK = -1
_UNKNOWN = -1

_Deletion = tuple[Partition, "asyncio.Future[None] | None"]


@handles(DeleteRecordsRequest, "0-2", allow=by_item)
async def delete_records(request: DeleteRecordsRequest, ctx: Context) -> DeleteRecordsResponse:
    turns = Turns()
    outcomes = {
        (topic.name, each.partition_index): _delete(topic.name, each, ctx)
        async for topic in turns.over(request.topics)
        async for each in turns.over(topic.partitions)
    }
    waiting = [each[1] for each in outcomes.values() if isinstance(each, tuple) and each[1]]
    if waiting:
        await asyncio.wait(waiting, timeout=max(request.timeout_ms, 0) / 1000)
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    _result(each.partition_index, outcomes[topic.name, each.partition_index])
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _delete(topic: str, wanted: DeleteRecordsPartition, ctx: Context) -> _Deletion | KafkaError:
    index = wanted.partition_index
    try:
        ctx.check(DELETE, Resource.topic(topic))
        if topic in INTERNAL_TOPICS:
            raise InvalidTopicException(f"records of the internal topic {topic} cannot be deleted")
        partition = ctx.broker.partitions.get(topic, index)
        if "delete" not in partition.log.config.cleanup_policy:
            raise PolicyViolation(f"cleanup.policy of {topic} does not allow deleting records")
        high_watermark = partition.high_watermark
        offset = high_watermark if wanted.offset == _HIGH_WATERMARK else wanted.offset
        if not 0 <= offset <= high_watermark:
            raise OffsetOutOfRange(
                f"{topic}-{index} can be deleted up to {high_watermark}, not {offset}"
            )
        return partition, partition.delete_records(offset)
    except KafkaError as error:
        return error.kept()


def _result(index: int, outcome: _Deletion | KafkaError) -> DeleteRecordsPartitionResult:
    if isinstance(outcome, tuple):
        partition, waiting = outcome
        if waiting is None or (waiting.done() and waiting.exception() is None):
            return DeleteRecordsPartitionResult(
                partition_index=index, low_watermark=partition.low_watermark
            )
        error = waiting.exception() if waiting.done() else RequestTimedOut()
        outcome = error if isinstance(error, KafkaError) else RequestTimedOut()
    return DeleteRecordsPartitionResult(
        partition_index=index, low_watermark=_UNKNOWN, error_code=outcome.code
    )
