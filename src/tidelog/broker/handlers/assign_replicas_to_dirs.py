"""AssignReplicasToDirs (73): a broker tells the controller which of its replicas lie on a log directory that failed, and which do no longer (KIP-858).

Version 0.  Of the directories only Kafka's two reserved ids count: LOST, and UNASSIGNED for any that works.  Absent: directories
with ids of their own; a replica that is told to lie on one counts as one that works.
"""

from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.permissions import CLUSTER_ACTION, cluster
from tidelog.cluster.offline import Place
from tidelog.protocol.messages.assign_replicas_to_dirs import (
    LOST,
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    DirectoryData,
    ResponseDirectoryData,
    ResponsePartitionData,
    ResponseTopicData,
)


@handles(AssignReplicasToDirsRequest, "0", allow=cluster(CLUSTER_ACTION))
async def assign_replicas_to_dirs(
    request: AssignReplicasToDirsRequest, ctx: Context
) -> AssignReplicasToDirsResponse:
    places: dict[bool, set[Place]] = {True: set(), False: set()}
    for directory in request.directories:
        places[directory.id == LOST] |= {
            (topic.topic_id, each.partition_index)
            for topic in directory.topics
            for each in topic.partitions
        }
    await ctx.broker.controller.local.assign_directories(
        request.broker_id, request.broker_epoch, lost=places[True], back=places[False]
    )
    return AssignReplicasToDirsResponse(directories=[_told(each) for each in request.directories])


def _told(directory: DirectoryData) -> ResponseDirectoryData:
    return ResponseDirectoryData(
        id=directory.id,
        topics=[
            ResponseTopicData(
                topic_id=topic.topic_id,
                partitions=[
                    ResponsePartitionData(partition_index=each.partition_index)
                    for each in topic.partitions
                ],
            )
            for topic in directory.topics
        ],
    )
