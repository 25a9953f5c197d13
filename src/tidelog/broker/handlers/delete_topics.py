"""DeleteTopics (20): remove topics, by name or (version 6) by id.

Versions: 5 says why in words, and refuses who has used up its quota (KIP-599); 6 takes ids.  A topic made again under the name has a new id and is empty.  The internal
topics are refused, because groups live in them.  Absent: nothing.
"""

from collections import Counter
from uuid import UUID

from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.permissions import DELETE, DESCRIBE, by_item
from tidelog.errors import (
    InvalidRequest,
    InvalidTopicException,
    KafkaError,
    TopicAuthorizationFailed,
    TopicDeletionDisabled,
)
from tidelog.names import INTERNAL_TOPICS
from tidelog.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from tidelog.protocol.schema import ZERO_UUID
from tidelog.security.acls import Resource

_REFUSES_SINCE = 5
"""Clients before it do not know the error of a quota, so they get what they ask for, and are held afterwards."""


@handles(DeleteTopicsRequest, "1-6", allow=by_item, controller=True)
async def delete_topics(request: DeleteTopicsRequest, ctx: Context) -> DeleteTopicsResponse:
    asked = request.topics or [DeleteTopicState(name=name) for name in request.topic_names]
    times = Counter((each.name, each.topic_id) for each in asked)
    wanted: list[str | UUID] = []
    results: list[DeletableTopicResult] = []
    deleted: list[DeletableTopicResult] = []
    mutations = ctx.mutations(strict=ctx.api_version >= _REFUSES_SINCE)
    for name, topic_id in times:
        result = DeletableTopicResult(name=name, topic_id=topic_id)
        results.append(result)
        try:
            which = _checked(name, topic_id, times[name, topic_id], ctx)
            mutations.take(_count(which, ctx))
            wanted.append(which)
            deleted.append(result)
        except KafkaError as error:
            _tell(result, error)
            if isinstance(error, TopicAuthorizationFailed) and name is None:
                result.name = _maybe_seen(topic_id, ctx)
    outcomes = await ctx.broker.controller.delete_topics(wanted) if wanted else []
    for result, which, outcome in zip(deleted, wanted, outcomes, strict=True):
        if isinstance(outcome, KafkaError):
            _tell(result, outcome)
            mutations.give_back(_count(which, ctx))
        else:
            result.name, result.topic_id = outcome.name, outcome.id
    return DeleteTopicsResponse(throttle_time_ms=mutations.end(), responses=results)


def _count(which: str | UUID, ctx: Context) -> int:
    """Partitions of a topic; none if it does not exist."""
    image = ctx.broker.image()
    topic = image.topics.get(which) if isinstance(which, str) else image.topic_by_id(which)
    return 0 if topic is None else len(topic.partitions)


def _checked(name: str | None, topic_id: UUID, times: int, ctx: Context) -> str | UUID:
    if not ctx.broker.settings.broker.delete_topic:
        # Clients before version 3 do not know the error.
        raise TopicDeletionDisabled if ctx.api_version >= 3 else InvalidRequest
    if (name is None) == (topic_id == ZERO_UUID):
        raise InvalidRequest("give either the name or the id of a topic")
    if times > 1:
        raise InvalidRequest("a topic appears twice in the request")
    known = name if name is not None else ctx.broker.image().topic_names.get(topic_id)
    if known is not None:
        ctx.check(DELETE, Resource.topic(known))
    if known in INTERNAL_TOPICS:
        raise InvalidTopicException(f"{known} is an internal topic and cannot be deleted")
    return topic_id if name is None else name


def _maybe_seen(topic_id: UUID, ctx: Context) -> str | None:
    """The name of a topic that the client may not delete, if it may at least know it."""
    name = ctx.broker.image().topic_names.get(topic_id)
    if name is None or not ctx.may(DESCRIBE, Resource.topic(name), quietly=True):
        return None
    return name


def _tell(result: DeletableTopicResult, error: KafkaError) -> None:
    result.error_code, result.error_message = error.code, error.message
