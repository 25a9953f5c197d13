"""OffsetForLeaderEpoch (23): where an epoch ended, so that a reader notices that the log was cut under it (KIP-320).

Versions: 2 checks the client's idea of the present leader; 3 tells replicas from consumers.  Absent: nothing.
"""

from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.permissions import CLUSTER_ACTION, DESCRIBE, by_item
from tidelog.broker.turns import Turns
from tidelog.errors import KafkaError
from tidelog.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from tidelog.security.acls import CLUSTER, Resource


@handles(OffsetForLeaderEpochRequest, "2-4", allow=by_item)
async def offset_for_leader_epoch(
    request: OffsetForLeaderEpochRequest, ctx: Context
) -> OffsetForLeaderEpochResponse:
    turns = Turns()
    follower = ctx.may(CLUSTER_ACTION, CLUSTER, quietly=True)
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[
                    _end(topic.topic, each, ctx, follower=follower)
                    async for each in turns.over(topic.partitions)
                ],
            )
            async for topic in turns.over(request.topics)
        ]
    )


def _end(
    topic: str, wanted: OffsetForLeaderPartition, ctx: Context, *, follower: bool
) -> EpochEndOffset:
    try:
        if not follower:
            ctx.check(DESCRIBE, Resource.topic(topic))
        partition = ctx.broker.partitions.get(topic, wanted.partition)
        partition.check_leader_epoch(wanted.current_leader_epoch)
        if ctx.broker.lease.is_over:
            ctx.broker.lease.check(partition)
        epoch, end_offset = partition.end_offset_for(wanted.leader_epoch)
    except KafkaError as error:
        return EpochEndOffset(error_code=error.code, partition=wanted.partition)
    return EpochEndOffset(partition=wanted.partition, leader_epoch=epoch, end_offset=end_offset)
