"""DeleteRecords (21): drop the beginning of partitions.

Versions: 0-2 differ in form only.  Offset -1 means everything up to the high watermark.  Only topics whose
cleanup.policy has delete, and no internal one.  Absent: nothing.
"""

from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.errors import InvalidTopicException, KafkaError, OffsetOutOfRange, PolicyViolation
from tidelog.names import INTERNAL_TOPICS
from tidelog.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

_HIGH_WATERMARK = -1
_UNKNOWN = -1


@handles(DeleteRecordsRequest, "0-2")
def delete_records(request: DeleteRecordsRequest, ctx: Context) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[_delete(topic.name, each, ctx) for each in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _delete(
    topic: str, wanted: DeleteRecordsPartition, ctx: Context
) -> DeleteRecordsPartitionResult:
    index = wanted.partition_index
    try:
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
        partition.log.delete_records(offset)
    except KafkaError as error:
        return DeleteRecordsPartitionResult(
            partition_index=index, low_watermark=_UNKNOWN, error_code=error.code
        )
    return DeleteRecordsPartitionResult(
        partition_index=index, low_watermark=partition.log_start_offset
    )
