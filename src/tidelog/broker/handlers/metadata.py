"""Metadata (3): the brokers, the controller, and the topics with their leaders.

Versions: 1 null means all topics; 4 may forbid auto-creation; 7 leader epochs; 8 authorised operations; 10 topic
ids; 12 asks by id; 13 an error for the whole answer.  A topic that is created by asking for it is
answered with its leaders at once, so the client need not ask again.  Absent: nothing.
"""

from tidelog.broker.addresses import address_of
from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.operations import NOT_ASKED, authorized_operations, cluster_operations
from tidelog.broker.permissions import CREATE, DESCRIBE, by_item
from tidelog.broker.topic_state import visible_state
from tidelog.broker.turns import Turns
from tidelog.cluster.image import NO_LEADER, Topic
from tidelog.errors import (
    NONE,
    KafkaError,
    LeaderNotAvailable,
    ThrottlingQuotaExceeded,
    TopicAuthorizationFailed,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from tidelog.names import INTERNAL_TOPICS, check_topic_name
from tidelog.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tidelog.protocol.schema import ZERO_UUID
from tidelog.security.acls import CLUSTER, Resource


@handles(MetadataRequest, "0-13", allow=by_item)
async def metadata(request: MetadataRequest, ctx: Context) -> MetadataResponse:
    image = ctx.broker.image()
    turns = Turns()
    wanted = request.topics
    operations = request.include_topic_authorized_operations
    if wanted is None or (not wanted and ctx.api_version == 0):
        topics = [
            _found(topic, operations, ctx)
            async for topic in turns.over(image.topics.values())
            if ctx.may(DESCRIBE, Resource.topic(topic.name), quietly=True)
        ]
    else:
        # A topic is told once, however often it is asked for: its partitions can be many.
        wanted = list({(each.name, each.topic_id): each for each in wanted}.values())
        failed = await _create_missing(request, wanted, ctx, turns)
        topics = [_answer(each, failed, operations, ctx) async for each in turns.over(wanted)]
    return MetadataResponse(
        brokers=_brokers(ctx),
        cluster_id=ctx.broker.cluster_id,
        controller_id=ctx.broker.controller.controller_id,
        topics=topics,
        cluster_authorized_operations=(
            cluster_operations(ctx) if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )


def _brokers(ctx: Context) -> list[MetadataResponseBroker]:
    brokers = []
    for each in ctx.broker.image().brokers.values():
        if each.fenced:
            continue
        host, port = address_of(each, ctx.peer)
        brokers.append(
            MetadataResponseBroker(node_id=each.id, host=host, port=port, rack=each.rack)
        )
    return brokers


async def _create_missing(
    request: MetadataRequest, wanted: list[MetadataRequestTopic], ctx: Context, turns: Turns
) -> dict[str, KafkaError]:
    """Create topics that are asked for and missing, where that is allowed; what failed, by name."""
    if not (request.allow_auto_topic_creation and ctx.broker.settings.broker.auto_create_topics):
        return {}
    known = ctx.broker.image().topics
    missing = []
    all_allowed = ctx.may(CREATE, CLUSTER, quietly=True)
    failed: dict[str, KafkaError] = {}
    async for each in turns.over(wanted):
        if each.name and each.topic_id == ZERO_UUID and each.name not in known:
            try:
                check_topic_name(each.name)
            except KafkaError:
                continue  # the answer says so
            if not ctx.may(DESCRIBE, Resource.topic(each.name), quietly=True):
                continue  # likewise
            if not all_allowed and not ctx.may(CREATE, Resource.topic(each.name)):
                failed[each.name] = TopicAuthorizationFailed()
                continue
            missing.append(each.name)
    if not missing:
        return failed
    # On this broker's account: the controller, which keeps the others, does not know who has asked.
    mutations = ctx.mutations(strict=True)
    try:
        mutations.take(ctx.broker.settings.broker.num_partitions * len(missing))
    except ThrottlingQuotaExceeded:
        return failed | dict.fromkeys(missing, LeaderNotAvailable())  # a client asks again
    made = await ctx.broker.controller.ensure_topics(list(dict.fromkeys(missing)))
    if ctx.broker.trail is not None:
        good = [name for name, each in made.items() if not isinstance(each, KafkaError)]
        ctx.broker.trail.created_automatically(good, ctx.peer)
    return failed | {
        name: outcome for name, outcome in made.items() if isinstance(outcome, KafkaError)
    }


def _answer(
    wanted: MetadataRequestTopic, failed: dict[str, KafkaError], operations: bool, ctx: Context
) -> MetadataResponseTopic:
    image = ctx.broker.image()
    if wanted.topic_id != ZERO_UUID:
        topic = image.topic_by_id(wanted.topic_id)
        if topic is None or not ctx.may(DESCRIBE, Resource.topic(topic.name)):
            return MetadataResponseTopic(
                error_code=UnknownTopicId.code,
                name=None if ctx.api_version >= 12 else "",
                topic_id=wanted.topic_id,
            )
        return _found(topic, operations, ctx)
    name = wanted.name or ""
    if not ctx.may(DESCRIBE, Resource.topic(name)):
        return MetadataResponseTopic(error_code=TopicAuthorizationFailed.code, name=name)
    topic = image.topics.get(name)
    if topic is not None:
        return _found(topic, operations, ctx)
    try:
        check_topic_name(name)
        raise failed.get(name) or UnknownTopicOrPartition()
    except KafkaError as error:
        return MetadataResponseTopic(
            error_code=error.code, name=name, is_internal=name in INTERNAL_TOPICS
        )


def _found(topic: Topic, operations: bool, ctx: Context) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[_partition(topic, index, ctx) for index in range(len(topic.partitions))],
        topic_authorized_operations=(
            authorized_operations(ctx, Resource.topic(topic.name)) if operations else NOT_ASKED
        ),
    )


def _partition(topic: Topic, index: int, ctx: Context) -> MetadataResponsePartition:
    state, offline = visible_state(topic, index, ctx.broker)
    return MetadataResponsePartition(
        error_code=LeaderNotAvailable.code if state.leader == NO_LEADER else NONE,
        partition_index=index,
        leader_id=state.leader,
        leader_epoch=state.leader_epoch,
        replica_nodes=list(state.replicas),
        isr_nodes=list(state.isr),
        offline_replicas=offline,
    )
