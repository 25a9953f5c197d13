"""What the clients of a run saw, as the checker needs it.

Every value is sent once and is unique: `<producer>-<number>`, so that it tells who sent it and in which order.
"""

from dataclasses import field
from typing import NamedTuple

from tidelog.dataclass import dataclass
from tidelog.names import TopicPartition


class Place(NamedTuple):
    """Where a value was written."""

    tp: TopicPartition
    offset: int


class Polled(NamedTuple):
    """A record that a consumer was handed, or with no value a new start at any offset."""

    time: float
    tp: TopicPartition
    offset: int
    value: str | None


class Told(NamedTuple):
    """An end of a partition that a reader was told."""

    time: float
    tp: TopicPartition
    end: int


class Transaction(NamedTuple):
    """A transaction of a producer, and what its producer was told at the end."""

    values: tuple[str, ...]
    outcome: str
    """committed, aborted or unknown"""


@dataclass(slots=True)
class History:
    """Filled while the run goes on."""

    sent: dict[str, TopicPartition | None] = field(default_factory=dict)
    """In the order of sending; the partition where the sender chose it."""
    acknowledged: dict[str, Place] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    """With the reason; they may have been written all the same."""
    polls: dict[str, list[Polled]] = field(default_factory=dict)
    """By consumer and life, of groups and of those without."""
    committed_polls: dict[str, list[Polled]] = field(default_factory=dict)
    """The same of consumers with isolation.level=read_committed."""
    ends: dict[str, list[Told]] = field(default_factory=dict)
    """By reader."""
    transactions: list[Transaction] = field(default_factory=list)
    copied: list[str] | None = None
    """What the copier has written and committed, as the last reader found it; None without a copier."""
    final: dict[TopicPartition, list[tuple[int, str]]] = field(default_factory=dict)
    """Every partition as it is at the end, read from its first offset."""
    groups_at_end: bool = False
    """Whether every group has come to the end of every partition."""
