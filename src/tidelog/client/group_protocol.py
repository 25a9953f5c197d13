"""What consumers tell each other through the coordinator: subscriptions and assignments, as bytes.

Each is a message after a version of two bytes.  A reader takes the newest version it knows for a newer one, since
later versions only append.  The sticky assignor keeps its last assignment in the subscription's user data.
"""

from collections.abc import Iterable
from struct import Struct as Packer

from tidelog.dataclass import dataclass
from tidelog.errors import ProtocolError
from tidelog.names import TopicPartition
from tidelog.protocol.codec import decode, encode
from tidelog.protocol.messages.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
)
from tidelog.protocol.messages.consumer_protocol_assignment import (
    TopicPartition as AssignedTopic,
)
from tidelog.protocol.messages.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
)
from tidelog.protocol.messages.consumer_protocol_subscription import (
    TopicPartition as OwnedTopic,
)
from tidelog.protocol.schema import Message, Struct, field, int32, string

_VERSION = Packer(">h")
_NEWEST = 3


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a member wants, and what it has from the generation before."""

    topics: frozenset[str]
    owned: frozenset[TopicPartition] = frozenset()
    generation: int = -1
    instance_id: str | None = None


class _StickyTopic(Struct):
    topic: string = ""
    partitions: list[int32] = field(factory=list)


class _StickyUserData(Message, versions="0-1", flexible="none"):
    """What Kafka's StickyAssignor writes; it has no version of its own in front."""

    previous_assignment: list[_StickyTopic] = field(factory=list)
    generation: int32 = field("1+", default=-1)


def encode_subscription(subscription: Subscription, *, sticky: bool = False) -> bytes:
    """The metadata of a JoinGroup; `sticky` adds the user data of that assignor."""
    user_data = None
    if sticky:
        topics = [
            _StickyTopic(topic=topic, partitions=partitions)
            for topic, partitions in _by_topic(subscription.owned).items()
        ]
        sent = _StickyUserData(previous_assignment=topics, generation=subscription.generation)
        user_data = bytes(encode(sent, 1))
    owned = [
        OwnedTopic(topic=topic, partitions=partitions)
        for topic, partitions in _by_topic(subscription.owned).items()
    ]
    message = ConsumerProtocolSubscription(
        topics=sorted(subscription.topics),
        user_data=user_data,
        owned_partitions=owned,
        generation_id=subscription.generation,
    )
    return _VERSION.pack(_NEWEST) + bytes(encode(message, _NEWEST))


def decode_subscription(data: bytes, instance_id: str | None = None) -> Subscription:
    """What a member wrote, whatever client it is."""
    message, _ = decode(ConsumerProtocolSubscription, data, 2, _version(data))
    owned = {
        TopicPartition(each.topic, index)
        for each in message.owned_partitions
        for index in each.partitions
    }
    generation = message.generation_id
    if not owned and message.user_data:
        owned, generation = _sticky_user_data(message.user_data)
    return Subscription(frozenset(message.topics), frozenset(owned), generation, instance_id)


def encode_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    """One member's share."""
    topics = [
        AssignedTopic(topic=topic, partitions=indexes)
        for topic, indexes in _by_topic(partitions).items()
    ]
    message = ConsumerProtocolAssignment(assigned_partitions=topics)
    return _VERSION.pack(0) + bytes(encode(message, 0))


def decode_assignment(data: bytes) -> frozenset[TopicPartition]:
    """One member's share, as its leader wrote it."""
    if not data:
        return frozenset()
    message, _ = decode(ConsumerProtocolAssignment, data, 2, _version(data))
    return frozenset(
        TopicPartition(each.topic, index)
        for each in message.assigned_partitions
        for index in each.partitions
    )


def _sticky_user_data(data: bytes) -> tuple[set[TopicPartition], int]:
    for version in (1, 0):
        try:
            found, _ = decode(_StickyUserData, data, 0, version)
        except ProtocolError:
            continue
        owned = {
            TopicPartition(each.topic, index)
            for each in found.previous_assignment
            for index in each.partitions
        }
        return owned, found.generation
    return set(), -1


def _version(data: bytes) -> int:
    if len(data) < 2:
        raise ProtocolError(f"{len(data)} bytes are no message of the consumer protocol")
    version: int = _VERSION.unpack_from(data)[0]
    if version < 0:
        raise ProtocolError(f"the consumer protocol has no version {version}")
    return min(version, _NEWEST)


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, []).append(index)
    return topics
