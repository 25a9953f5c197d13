"""ListPartitionReassignments (46): the moves of replicas under way (KIP-455).  Version 0.  Absent: nothing."""

from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.permissions import DESCRIBE, cluster
from tidelog.cluster.reassignment import under_way
from tidelog.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


@handles(ListPartitionReassignmentsRequest, "0", allow=cluster(DESCRIBE), controller=True)
async def list_partition_reassignments(
    request: ListPartitionReassignmentsRequest, ctx: Context
) -> ListPartitionReassignmentsResponse:
    asked = request.topics
    wanted = None if asked is None else {each.name: set(each.partition_indexes) for each in asked}
    topics: dict[str, list[OngoingPartitionReassignment]] = {}
    for each in under_way(ctx.broker.image()):
        if wanted is None or each.index in wanted.get(each.topic, ()):
            moving = OngoingPartitionReassignment(
                partition_index=each.index,
                replicas=list(each.replicas),
                adding_replicas=list(each.adding),
                removing_replicas=list(each.removing),
            )
            topics.setdefault(each.topic, []).append(moving)
    return ListPartitionReassignmentsResponse(
        error_message=None,
        topics=[
            OngoingTopicReassignment(name=name, partitions=partitions)
            for name, partitions in topics.items()
        ],
    )
