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
    asked: float = float("-inf")
    """When it began to ask."""


class Batch(NamedTuple):
    """A batch that a reader got, with the epoch of the leader that wrote it."""

    tp: TopicPartition
    offset: int
    epoch: int


class Commit(NamedTuple):
    """One request to commit an offset of a group."""

    group: str
    tp: TopicPartition
    offset: int
    began: float
    ended: float
    """When it was acknowledged; infinite if it was not: then it may be carried out at any time, or never."""


class Committed(NamedTuple):
    """What somebody was told of a group's place."""

    group: str
    tp: TopicPartition
    offset: int
    """-1 for none."""
    asked: float
    time: float


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
    acknowledged_at: dict[str, float] = field(default_factory=dict)
    weakly: dict[str, Place] = field(default_factory=dict)
    """Acknowledged by the leader alone (acks=1): it may be lost, but not in two places, and not out of order."""
    failed: dict[str, str] = field(default_factory=dict)
    """With the reason; they may have been written all the same."""
    polls: dict[str, list[Polled]] = field(default_factory=dict)
    """By consumer and life, of groups and of those without."""
    committed_polls: dict[str, list[Polled]] = field(default_factory=dict)
    """The same of consumers with isolation.level=read_committed."""
    ends: dict[str, list[Told]] = field(default_factory=dict)
    """By reader."""
    batches: dict[str, list[Batch]] = field(default_factory=dict)
    """By reader, in the order of reading."""
    commits: list[Commit] = field(default_factory=list)
    committed: list[Committed] = field(default_factory=list)
    groups: dict[str, str] = field(default_factory=dict)
    """How the names of a group's members begin, of the groups that read the topic itself."""
    transactions: list[Transaction] = field(default_factory=list)
    copied: list[str] | None = None
    """What the copier has written and committed, as the last reader found it; None without a copier."""
    final: dict[TopicPartition, list[tuple[int, str]]] = field(default_factory=dict)
    """Every partition as it is at the end, read from its first offset."""
    fresh_from: float = float("-inf")
    """From when on answers have to be fresh: those of a broker that is cut off may be as old as its session."""
    groups_at_end: bool = False
    """Whether every group has come to the end of every partition."""
