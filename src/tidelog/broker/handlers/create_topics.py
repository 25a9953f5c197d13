"""CreateTopics (19): make topics, or check whether they could be made.

Versions: 4 takes -1 for the defaults; 5 answers with the counts and settings of what was made (KIP-525); 6 refuses who
has used up its quota (KIP-599); 7 answers with the id.  When the answer is sent the leaders are in place.  Absent: create.topic.policy.class.name.
"""

from collections import Counter

from tidelog.broker.configs import describe_topic
from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.permissions import CREATE, DESCRIBE_CONFIGS, by_item
from tidelog.broker.turns import Turns
from tidelog.cluster.topics import Created, NewTopic
from tidelog.errors import (
    InvalidConfig,
    InvalidReplicaAssignment,
    InvalidRequest,
    KafkaError,
    ProtocolError,
    ThrottlingQuotaExceeded,
    TopicAuthorizationFailed,
)
from tidelog.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tidelog.quotas.quotas import Mutations
from tidelog.security.acls import CLUSTER, Resource

_MOST_TOPICS = 10_000
"""Below what the request may have of elements, because a topic costs the controller far more than a setting of it."""
_RESULTS_A_TURN = 50
"""Each tells all settings of a topic."""
_REFUSES_SINCE = 6
"""Clients before it do not know the error, so they get what they ask for, and are held afterwards."""


@handles(CreateTopicsRequest, "2-7", allow=by_item, controller=True)
async def create_topics(request: CreateTopicsRequest, ctx: Context) -> CreateTopicsResponse:
    if len(request.topics) > _MOST_TOPICS:
        raise ProtocolError(f"more than {_MOST_TOPICS} topics in one request")
    times = Counter(topic.name for topic in request.topics)
    outcomes: dict[str, Created | KafkaError] = {}
    all_allowed = ctx.may(CREATE, CLUSTER, quietly=True)
    wanted: dict[str, NewTopic] = {}
    for topic in request.topics:
        try:
            if times[topic.name] > 1:
                raise InvalidRequest(f"topic {topic.name!r} appears twice in the request")
            if not all_allowed:
                ctx.check(CREATE, Resource.topic(topic.name))
            wanted[topic.name] = _wanted(topic)
        except KafkaError as error:
            outcomes[topic.name] = error.kept()
    mutations = ctx.mutations(strict=ctx.api_version >= _REFUSES_SINCE)
    if not request.validate_only:
        outcomes |= _pay(wanted, mutations, ctx)
    allowed = [each for name, each in wanted.items() if name not in outcomes]
    made = await ctx.broker.controller.create_topics(allowed, validate_only=request.validate_only)
    for each, outcome in zip(allowed, made, strict=True):
        outcomes[each.name] = outcome
        if isinstance(outcome, KafkaError) and not request.validate_only:
            mutations.give_back(_count(each, ctx))
    turns = Turns(_RESULTS_A_TURN)
    return CreateTopicsResponse(
        throttle_time_ms=mutations.end(),
        topics=[
            _result(name, outcomes[name], wanted, ctx) async for name in turns.over(list(times))
        ],
    )


def _pay(
    wanted: dict[str, NewTopic], mutations: Mutations, ctx: Context
) -> dict[str, Created | KafkaError]:
    """Pay for each topic with the client's quota; those for which it was not enough."""
    refused: dict[str, Created | KafkaError] = {}
    for name, topic in wanted.items():
        try:
            mutations.take(_count(topic, ctx))
        except ThrottlingQuotaExceeded as error:
            refused[name] = error.kept()
    return refused


def _count(topic: NewTopic, ctx: Context) -> int:
    """Partitions that the topic would have."""
    if topic.assignments:
        return len(topic.assignments)
    return topic.partitions if topic.partitions > 0 else ctx.broker.settings.broker.num_partitions


def _wanted(topic: CreatableTopic) -> NewTopic:
    assignments = {each.partition_index: tuple(each.broker_ids) for each in topic.assignments}
    if len(assignments) != len(topic.assignments):
        raise InvalidReplicaAssignment("a partition appears twice in the assignment")
    configs: dict[str, str] = {}
    for each in topic.configs:
        if each.value is None:
            raise InvalidConfig(f"{each.name} needs a value")
        configs[each.name] = each.value
    return NewTopic(
        name=topic.name,
        partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=assignments,
        configs=configs,
    )


def _result(
    name: str, outcome: Created | KafkaError, wanted: dict[str, NewTopic], ctx: Context
) -> CreatableTopicResult:
    if isinstance(outcome, KafkaError):
        return CreatableTopicResult(
            name=name, error_code=outcome.code, error_message=outcome.message
        )
    if not ctx.may(DESCRIBE_CONFIGS, Resource.topic(name), quietly=True):
        return CreatableTopicResult(
            name=name,
            topic_id=outcome.topic_id,
            error_message=None,
            topic_config_error_code=TopicAuthorizationFailed.code,
        )
    broker = ctx.broker
    described = describe_topic(
        broker.image(), broker.settings, broker.broker_id, wanted[name].configs
    )
    return CreatableTopicResult(
        name=name,
        topic_id=outcome.topic_id,
        error_message=None,
        num_partitions=outcome.partitions,
        replication_factor=outcome.replication_factor,
        configs=[
            CreatableTopicConfigs(
                name=each.name,
                value=each.value,
                read_only=each.read_only,
                config_source=each.source,
                is_sensitive=each.is_sensitive,
            )
            for each in described
        ],
    )
