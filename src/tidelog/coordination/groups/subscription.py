"""The topics inside a consumer's metadata blob, which brokers otherwise pass on unread."""

from struct import Struct as Packer

from tidelog.errors import ProtocolError
from tidelog.protocol.codec import decode
from tidelog.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription

CONSUMER_PROTOCOL_TYPE = "consumer"
_INT16 = Packer(">h")


def maybe_topics(metadata: bytes) -> frozenset[str] | None:
    """The subscribed topics; None if the blob is not a consumer's subscription.

    A version newer than ours is read as ours: the format only grows at its end.
    """
    if len(metadata) < _INT16.size:
        return None
    version = max(
        0, min(_INT16.unpack_from(metadata)[0], ConsumerProtocolSubscription.versions.last)
    )
    try:
        made, _ = decode(ConsumerProtocolSubscription, metadata, _INT16.size, version)
    except ProtocolError:
        return None
    return frozenset(made.topics)
