"""OffsetCommit (8): a group stores how far it has read.

Versions: 2-4 may ask for a retention of their own; 6 leader epoch; 7 static members; 8 is flexible; 9 KIP-848 member
epochs.  Absent: 10, topics by id.
"""

from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.errors import (
    InvalidCommitOffsetSize,
    KafkaError,
    MessageTooLarge,
    RecordListTooLarge,
)
from tidelog.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)


@handles(OffsetCommitRequest, "2-9")
async def offset_commit(request: OffsetCommitRequest, ctx: Context) -> OffsetCommitResponse:
    try:
        return await ctx.broker.groups.offset_commit(request, ctx.api_version)
    except (MessageTooLarge, RecordListTooLarge):
        return _refused(request, InvalidCommitOffsetSize())
    except KafkaError as error:
        return _refused(request, error)


def _refused(request: OffsetCommitRequest, error: KafkaError) -> OffsetCommitResponse:
    """The error has no place of its own: it is told for every partition."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=each.partition_index, error_code=error.code
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
