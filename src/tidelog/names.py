"""The words everything else is said in: ids, offsets, and what a legal topic name is."""

import re
from collections.abc import Iterable
from typing import NamedTuple, NewType

from tidelog.errors import InvalidTopicException

BrokerId = NewType("BrokerId", int)
Offset = NewType("Offset", int)
"""Position of a record in a partition; the first record ever written has 0."""
LeaderEpoch = NewType("LeaderEpoch", int)
"""Counts the leaders of a partition; every election raises it."""
ProducerId = NewType("ProducerId", int)

NO_PRODUCER_ID = ProducerId(-1)
NO_LEADER_EPOCH = LeaderEpoch(-1)

CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"
CLUSTER_METADATA = "__cluster_metadata"
"""Where Kafka's controller keeps its records, in a directory that looks like a partition's; no topic of ours."""

INTERNAL_TOPICS = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE})

TOPIC_NAME_MAX = 249  # leaves room for "-<partition>" and ".<uuid>-delete" in a 255-byte file name
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]+")


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        """As Kafka names the directory: `orders-3`."""
        return f"{self.topic}-{self.partition}"


class RecordMetadata(NamedTuple):
    """Where a record was written; the offset is -1 if nobody was asked (acks=0)."""

    topic: str
    partition: int
    offset: int
    timestamp: int


def names_in(given: Iterable[str]) -> list[str]:
    """The names that were given; one alone is a name, and not as many as it has letters."""
    return [given] if isinstance(given, str) else list(given)


def check_topic_name(name: str) -> None:
    """Raise `InvalidTopicException` unless `name` is a legal topic name."""
    if not name:
        raise InvalidTopicException("the topic name is empty")
    if name in (".", ".."):
        raise InvalidTopicException(f"a topic cannot be named {name!r}")
    if len(name) > TOPIC_NAME_MAX:
        raise InvalidTopicException(
            f"the topic name has {len(name)} characters; {TOPIC_NAME_MAX} are allowed"
        )
    if not _TOPIC_NAME.fullmatch(name):
        raise InvalidTopicException(
            f"the topic name {name!r} has characters other than letters, digits, '.', '_' and '-'"
        )
