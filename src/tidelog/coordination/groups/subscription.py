"""What is inside a consumer's metadata and assignment blobs, which brokers otherwise pass on unread."""

from struct import Struct as Packer
from typing import TypeVar

from tidelog.errors import ProtocolError
from tidelog.protocol.codec import decode
from tidelog.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from tidelog.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription

CONSUMER_PROTOCOL_TYPE = "consumer"
_INT16 = Packer(">h")

B = TypeVar("B", ConsumerProtocolSubscription, ConsumerProtocolAssignment)


def maybe_topics(metadata: bytes) -> frozenset[str] | None:
    """The subscribed topics; None if the blob is not a consumer's subscription."""
    subscription = _maybe_read(ConsumerProtocolSubscription, metadata)
    return None if subscription is None else frozenset(subscription.topics)


def is_to_give_up(metadata: bytes, assignment: bytes) -> bool:
    """Whether a consumer said that it owns partitions which it then was not assigned.

    Others get them only in the rebalance that it asks for when it has let them go (KIP-429).
    """
    subscription = _maybe_read(ConsumerProtocolSubscription, metadata)
    assigned = _maybe_read(ConsumerProtocolAssignment, assignment)
    if subscription is None or assigned is None:
        return False
    stays = {each.topic: set(each.partitions) for each in assigned.assigned_partitions}
    return any(
        not stays.get(each.topic, set()).issuperset(each.partitions)
        for each in subscription.owned_partitions
    )


def _maybe_read(kind: type[B], blob: bytes) -> B | None:
    """The blob's content; a version newer than ours is read as ours: the formats only grow at their ends."""
    if len(blob) < _INT16.size:
        return None
    version = max(0, min(_INT16.unpack_from(blob)[0], kind.versions.last))
    try:
        return decode(kind, blob, _INT16.size, version)[0]
    except ProtocolError:
        return None
