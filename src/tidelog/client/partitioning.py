"""Which partition a record goes to.

A record with a key goes where its key's hash says, in Kafka's Java client as here, so that both may write one topic.  A
record without one sticks to a partition until its batch is full (KIP-480): fewer, larger batches.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tidelog.kernel import murmur2

Partitioner = Callable[[str, Any, Any, int], int]
"""A user's own: topic, key and value before they are serialised, number of partitions; returns the partition."""


class Candidates(NamedTuple):
    """Which partitions of a topic a record may go to."""

    total: int
    """All that there are: keys are spread over them, whether they are led at the moment or not."""
    led: tuple[int, ...]
    """Those that have a leader: records without a key go there."""


def partition_of(key: bytes, count: int) -> int:
    """The partition of a key among `count`, as Kafka's Java client has it."""
    return (murmur2(key) & 0x7FFFFFFF) % count


def next_sticky(candidates: Sequence[int], last: int) -> int:
    """Another partition than the last, by chance; the only one there is if there is one."""
    if len(candidates) < 2:
        return candidates[0]
    chosen = random.choice(candidates)
    if chosen == last:
        chosen = candidates[(candidates.index(chosen) + 1) % len(candidates)]
    return chosen
