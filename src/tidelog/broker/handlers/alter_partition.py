"""AlterPartition (56): a leader changes the in-sync replicas of its partitions, through the controller.

Versions: 2 topic ids (KIP-841); 3 the epochs of the replicas, so that one that has restarted does not slip in (KIP-903).
Absent: the recovery state of leaders that were elected uncleanly (KIP-704); from a replica that leaves the ISR it means that its disk is gone.
"""

from uuid import UUID

from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.permissions import CLUSTER_ACTION, cluster
from tidelog.cluster.image import PartitionState
from tidelog.cluster.isr import IsrChange
from tidelog.errors import KafkaError
from tidelog.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
    PartitionData,
)


@handles(AlterPartitionRequest, "2-3", allow=cluster(CLUSTER_ACTION))
async def alter_partition(request: AlterPartitionRequest, ctx: Context) -> AlterPartitionResponse:
    changes = [
        _change(topic.topic_id, each) for topic in request.topics for each in topic.partitions
    ]
    outcomes = iter(
        await ctx.broker.controller.local.alter_partition(
            request.broker_id, request.broker_epoch, changes
        )
    )
    return AlterPartitionResponse(
        topics=[
            AlterPartitionResponseTopicData(
                topic_id=topic.topic_id,
                partitions=[
                    _told(each.partition_index, next(outcomes)) for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _change(topic_id: UUID, wanted: PartitionData) -> IsrChange:
    members = wanted.new_isr_with_epochs
    return IsrChange(
        topic_id,
        wanted.partition_index,
        wanted.leader_epoch,
        wanted.partition_epoch,
        tuple(wanted.new_isr) or tuple(each.broker_id for each in members),
        tuple(each.broker_epoch for each in members),
        for_good=wanted.leader_recovery_state != 0,
    )


def _told(index: int, outcome: PartitionState | KafkaError) -> AlterPartitionResponsePartitionData:
    if isinstance(outcome, KafkaError):
        return AlterPartitionResponsePartitionData(partition_index=index, error_code=outcome.code)
    return AlterPartitionResponsePartitionData(
        partition_index=index,
        leader_id=outcome.leader,
        leader_epoch=outcome.leader_epoch,
        isr=list(outcome.isr),
        partition_epoch=outcome.partition_epoch,
    )
