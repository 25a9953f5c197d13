"""What every decision about groups may look at: time, timers, settings, and the topics there are."""

from collections.abc import Callable, Iterable
from dataclasses import field
from typing import NamedTuple, Protocol
from uuid import UUID

from tidelog.clock import Clock
from tidelog.coordination.groups.config import GroupConfig
from tidelog.coordination.groups.records import Change
from tidelog.coordination.runtime import ShardTimers
from tidelog.dataclass import dataclass


class Client(NamedTuple):
    """Who sent a request."""

    client_id: str
    host: str
    api_version: int


class TopicView(NamedTuple):
    """As much of a topic as an assignment needs."""

    name: str
    topic_id: UUID
    partition_count: int


class Topics(Protocol):
    """The topics of the cluster, as they are now."""

    @property
    def version(self) -> int:
        """Differs whenever the topics may."""
        ...

    def maybe_get(self, name: str) -> TopicView | None: ...

    def names(self) -> Iterable[str]: ...


@dataclass(slots=True)
class GroupCounts:
    """What happened since the broker's start."""

    rebalances: int = 0


@dataclass(frozen=True, slots=True)
class Environment:
    """Collaborators of one shard."""

    clock: Clock
    timers: ShardTimers[Change]
    config: Callable[[], GroupConfig]
    """Asked anew each time: some settings change while the broker runs."""
    topics: Callable[[], Topics]
    new_id: Callable[[], str]
    """A fresh random part of a member id."""
    counts: GroupCounts = field(default_factory=GroupCounts)
