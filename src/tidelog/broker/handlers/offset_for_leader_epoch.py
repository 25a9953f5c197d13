"""OffsetForLeaderEpoch (23): where an epoch ended, so that a reader notices that the log was cut under it (KIP-320).

Versions: 2 checks the client's idea of the present leader; 3 tells replicas from consumers.  Absent: nothing.
"""

from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.errors import KafkaError
from tidelog.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


@handles(OffsetForLeaderEpochRequest, "2-4")
def offset_for_leader_epoch(
    request: OffsetForLeaderEpochRequest, ctx: Context
) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[_end(topic.topic, each, ctx) for each in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _end(topic: str, wanted: OffsetForLeaderPartition, ctx: Context) -> EpochEndOffset:
    try:
        partition = ctx.broker.partitions.get(topic, wanted.partition)
        partition.check_leader_epoch(wanted.current_leader_epoch)
        epoch, end_offset = partition.log.end_offset_for(wanted.leader_epoch)
    except KafkaError as error:
        return EpochEndOffset(error_code=error.code, partition=wanted.partition)
    return EpochEndOffset(partition=wanted.partition, leader_epoch=epoch, end_offset=end_offset)
