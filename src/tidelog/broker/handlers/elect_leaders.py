"""ElectLeaders (43): elect the preferred replica of partitions, or any live one where none is in sync (KIP-460).

Versions: 1 can elect uncleanly; 2 is flexible.  Null asks for all partitions; the answer then leaves out those where nothing
was to be done.  Absent: nothing.
"""

from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.permissions import ALTER, by_item, maybe_refused
from tidelog.cluster.elections import PREFERRED, UNCLEAN
from tidelog.errors import ElectionNotNeeded, InvalidRequest, KafkaError
from tidelog.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from tidelog.security.acls import CLUSTER


@handles(ElectLeadersRequest, "0-2", allow=by_item, controller=True)
async def elect_leaders(request: ElectLeadersRequest, ctx: Context) -> ElectLeadersResponse:
    refused = maybe_refused(ctx, ALTER, CLUSTER)
    if refused is not None and ctx.api_version > 0:
        raise refused
    if refused is not None:
        return _refused(request, refused)
    if request.election_type not in (PREFERRED, UNCLEAN):
        raise InvalidRequest(f"there is no election of type {request.election_type}")
    asked = request.topic_partitions
    wanted = (
        None
        if asked is None
        else [(topic.topic, index) for topic in asked for index in topic.partitions]
    )
    outcomes = await ctx.broker.controller.local.elect_leaders(request.election_type, wanted)
    results: dict[str, list[PartitionResult]] = {}
    for topic, index, error in outcomes:
        if asked is None and isinstance(error, ElectionNotNeeded):
            continue
        told = PartitionResult(
            partition_id=index,
            error_code=error.code if error else 0,
            error_message=error.message if error else None,
        )
        results.setdefault(topic, []).append(told)
    return ElectLeadersResponse(
        replica_election_results=[
            ReplicaElectionResult(topic=topic, partition_result=each)
            for topic, each in results.items()
        ]
    )


def _refused(request: ElectLeadersRequest, error: KafkaError) -> ElectLeadersResponse:
    """For each partition: version 0 has no place for an error of the whole."""
    return ElectLeadersResponse(
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    PartitionResult(
                        partition_id=index, error_code=error.code, error_message=error.message
                    )
                    for index in topic.partitions
                ],
            )
            for topic in request.topic_partitions or ()
        ],
    )
