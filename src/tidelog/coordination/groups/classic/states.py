"""The states of a classic group, as one table.

              a member joins                    all joined, or time is up
    Empty ─────────────────► PreparingRebalance ─────────────────► CompletingRebalance
      ▲                        │    ▲   ▲                                 │        │
      └────────────────────────┘    │   └─────────────────────────────────┘        │ the leader's assignment
          nobody is left            │        a member joins, leaves, expires       │ is recorded
                                    └──────────────────────── Stable ◄─────────────┘

Every state may become Dead: the group was deleted or its shard given up.
"""

from enum import Enum

from tidelog.dataclass import dataclass
from tidelog.errors import (
    CoordinatorNotAvailable,
    KafkaError,
    RebalanceInProgress,
    UnknownMemberId,
)


class GroupState(Enum):
    """The value is what DescribeGroups and ListGroups say."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(frozen=True, slots=True)
class Row:
    """What a state allows: an error to raise, or None for "go on"."""

    next: frozenset[GroupState]
    heartbeat: type[KafkaError] | None
    sync: type[KafkaError] | None
    commit: type[KafkaError] | None


EMPTY, PREPARING, COMPLETING, STABLE, DEAD = GroupState

# A heartbeat during PreparingRebalance counts as a sign of life although it is answered with an error.
# A commit during PreparingRebalance is accepted: members commit what they did before they rejoin.
TABLE: dict[GroupState, Row] = {
    EMPTY: Row(frozenset({PREPARING, DEAD}), UnknownMemberId, UnknownMemberId, None),
    PREPARING: Row(
        frozenset({COMPLETING, EMPTY, DEAD}), RebalanceInProgress, RebalanceInProgress, None
    ),
    COMPLETING: Row(frozenset({STABLE, PREPARING, DEAD}), None, None, RebalanceInProgress),
    STABLE: Row(frozenset({PREPARING, DEAD}), None, None, None),
    DEAD: Row(
        frozenset(), CoordinatorNotAvailable, CoordinatorNotAvailable, CoordinatorNotAvailable
    ),
}
