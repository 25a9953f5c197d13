"""CreatePartitions (37): let topics grow.

Versions: 0-3 differ in form only.  Keys may go to other partitions afterwards; what was written stays where it
is.  Absent: nothing.
"""

from collections import Counter

from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.permissions import ALTER, by_item, maybe_refused
from tidelog.cluster.topics import MorePartitions
from tidelog.errors import InvalidRequest, KafkaError
from tidelog.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from tidelog.security.acls import Resource


@handles(CreatePartitionsRequest, "0-3", allow=by_item, controller=True)
async def create_partitions(
    request: CreatePartitionsRequest, ctx: Context
) -> CreatePartitionsResponse:
    times = Counter(topic.name for topic in request.topics)
    outcomes: dict[str, KafkaError | None] = {
        name: InvalidRequest(f"topic {name!r} appears twice in the request")
        for name, count in times.items()
        if count > 1
    }
    for name in times.keys() - outcomes.keys():
        refused = maybe_refused(ctx, ALTER, Resource.topic(name))
        if refused is not None:
            outcomes[name] = refused
    wanted = [
        MorePartitions(
            name=topic.name,
            count=topic.count,
            assignments=(
                None
                if topic.assignments is None
                else [tuple(each.broker_ids) for each in topic.assignments]
            ),
        )
        for topic in request.topics
        if topic.name not in outcomes
    ]
    grown = await ctx.broker.controller.create_partitions(
        wanted, validate_only=request.validate_only
    )
    outcomes |= {each.name: outcome for each, outcome in zip(wanted, grown, strict=True)}
    return CreatePartitionsResponse(results=[_result(name, outcomes[name]) for name in times])


def _result(name: str, error: KafkaError | None) -> CreatePartitionsTopicResult:
    if error is None:
        return CreatePartitionsTopicResult(name=name)
    return CreatePartitionsTopicResult(
        name=name, error_code=error.code, error_message=error.message
    )
