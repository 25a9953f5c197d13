"""AlterPartitionReassignments (45): move partitions to other brokers, or call a move off (KIP-455).

Versions: 1 can insist that the number of replicas stays.  Absent: nothing.
"""

from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.permissions import ALTER, cluster
from tidelog.cluster.reassignment import Move
from tidelog.errors import KafkaError
from tidelog.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


@handles(AlterPartitionReassignmentsRequest, "0-1", allow=cluster(ALTER), controller=True)
async def alter_partition_reassignments(
    request: AlterPartitionReassignmentsRequest, ctx: Context
) -> AlterPartitionReassignmentsResponse:
    moves = [
        Move(
            topic.name,
            each.partition_index,
            None if each.replicas is None else tuple(each.replicas),
        )
        for topic in request.topics
        for each in topic.partitions
    ]
    outcomes = iter(
        await ctx.broker.controller.local.reassign(
            moves, allow_factor_change=request.allow_replication_factor_change
        )
    )
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    _told(each.partition_index, next(outcomes)) for each in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _told(index: int, error: KafkaError | None) -> ReassignablePartitionResponse:
    return ReassignablePartitionResponse(
        partition_index=index,
        error_code=error.code if error else 0,
        error_message=error.message if error else None,
    )
