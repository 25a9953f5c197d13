"""CreatePartitions (37): let topics grow.

Versions: 3 refuses who has used up its quota (KIP-599).  Keys may go to other partitions afterwards; what was written stays where it
is.  Absent: nothing.
"""

from collections import Counter

from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.permissions import ALTER, by_item, maybe_refused
from tidelog.cluster.topics import MorePartitions
from tidelog.errors import InvalidRequest, KafkaError, ThrottlingQuotaExceeded
from tidelog.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from tidelog.quotas.quotas import Mutations
from tidelog.security.acls import Resource

_REFUSES_SINCE = 3
"""Clients before it do not know the error of a quota, so they get what they ask for, and are held afterwards."""


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
    mutations = ctx.mutations(strict=ctx.api_version >= _REFUSES_SINCE)
    if not request.validate_only:
        outcomes |= _pay(wanted, mutations, ctx)
    allowed = [each for each in wanted if each.name not in outcomes]
    more = [_count(each, ctx) for each in allowed]
    grown = await ctx.broker.controller.create_partitions(
        allowed, validate_only=request.validate_only
    )
    for each, count, outcome in zip(allowed, more, grown, strict=True):
        outcomes[each.name] = outcome
        if outcome is not None and not request.validate_only:
            mutations.give_back(count)
    return CreatePartitionsResponse(
        throttle_time_ms=mutations.end(),
        results=[_result(name, outcomes[name]) for name in times],
    )


def _pay(
    wanted: list[MorePartitions], mutations: Mutations, ctx: Context
) -> dict[str, KafkaError | None]:
    """Pay for each topic with the client's quota; those for which it was not enough."""
    refused: dict[str, KafkaError | None] = {}
    for each in wanted:
        try:
            mutations.take(_count(each, ctx))
        except ThrottlingQuotaExceeded as error:
            refused[each.name] = error.kept()
    return refused


def _count(wanted: MorePartitions, ctx: Context) -> int:
    """Partitions that would be made."""
    topic = ctx.broker.image().topics.get(wanted.name)
    return 0 if topic is None else max(wanted.count - len(topic.partitions), 0)


def _result(name: str, error: KafkaError | None) -> CreatePartitionsTopicResult:
    if error is None:
        return CreatePartitionsTopicResult(name=name)
    return CreatePartitionsTopicResult(
        name=name, error_code=error.code, error_message=error.message
    )
