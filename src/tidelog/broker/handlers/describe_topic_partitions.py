"""DescribeTopicPartitions (75): topics page by page, for clients that describe many partitions (KIP-966).

Version 0.  Topics come in the order of their names; the cursor says where the next page begins.  Absent: the last
known eligible leaders, which are always an empty list (the Java client cannot read a null here).
"""

from collections.abc import Iterable

from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.operations import authorized_operations
from tidelog.broker.permissions import DESCRIBE, by_item
from tidelog.broker.topic_state import visible_state
from tidelog.broker.turns import Turns
from tidelog.cluster.image import NO_LEADER, Topic
from tidelog.errors import (
    NONE,
    InvalidRequest,
    KafkaError,
    LeaderNotAvailable,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
)
from tidelog.names import INTERNAL_TOPICS, check_topic_name
from tidelog.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from tidelog.security.acls import Resource

_MOST_PARTITIONS = 2000
"""Of one answer, whatever the client asks for (max.request.partition.size.limit)."""


@handles(DescribeTopicPartitionsRequest, "0", allow=by_item)
async def describe_topic_partitions(
    request: DescribeTopicPartitionsRequest, ctx: Context
) -> DescribeTopicPartitionsResponse:
    image = ctx.broker.image()
    asked = {each.name for each in request.topics}
    names = sorted(asked or _visible(image.topics, ctx))
    cursor = request.cursor
    if cursor is not None:
        if cursor.partition_index < 0:
            raise InvalidRequest("the cursor's partition is negative")
        names = [name for name in names if name >= cursor.topic_name]
    room = max(1, min(request.response_partition_limit, _MOST_PARTITIONS))
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    async for name in Turns().over(names):
        if room == 0:
            return DescribeTopicPartitionsResponse(
                topics=topics, next_cursor=Cursor(topic_name=name, partition_index=0)
            )
        if asked and not ctx.may(DESCRIBE, Resource.topic(name)):
            topics.append(
                DescribeTopicPartitionsResponseTopic(
                    error_code=TopicAuthorizationFailed.code, name=name
                )
            )
            continue
        topic = image.topics.get(name)
        if topic is None:
            topics.append(_missing(name))
            continue
        first = cursor.partition_index if cursor and cursor.topic_name == name else 0
        last = min(len(topic.partitions), first + room)
        topics.append(_found(topic, range(first, last), ctx))
        room -= max(0, last - first)
        if last < len(topic.partitions):
            return DescribeTopicPartitionsResponse(
                topics=topics, next_cursor=Cursor(topic_name=name, partition_index=last)
            )
    return DescribeTopicPartitionsResponse(topics=topics)


def _visible(topics: Iterable[str], ctx: Context) -> list[str]:
    return [each for each in topics if ctx.may(DESCRIBE, Resource.topic(each), quietly=True)]


def _missing(name: str) -> DescribeTopicPartitionsResponseTopic:
    try:
        check_topic_name(name)
        raise UnknownTopicOrPartition
    except KafkaError as error:
        return DescribeTopicPartitionsResponseTopic(error_code=error.code, name=name)


def _found(topic: Topic, indexes: range, ctx: Context) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[_partition(topic, index, ctx) for index in indexes],
        topic_authorized_operations=authorized_operations(ctx, Resource.topic(topic.name)),
    )


def _partition(topic: Topic, index: int, ctx: Context) -> DescribeTopicPartitionsResponsePartition:
    state, offline = visible_state(topic, index, ctx.broker)
    return DescribeTopicPartitionsResponsePartition(
        error_code=LeaderNotAvailable.code if state.leader == NO_LEADER else NONE,
        partition_index=index,
        leader_id=state.leader,
        leader_epoch=state.leader_epoch,
        replica_nodes=list(state.replicas),
        isr_nodes=list(state.isr),
        eligible_leader_replicas=list(state.eligible),
        last_known_elr=[],
        offline_replicas=offline,
    )
