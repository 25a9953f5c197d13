"""The states of a transactional id, as one table.

             a partition is added            EndTxn, time-out or fence          all markers are written
    Empty ────────────────────► Ongoing ────────────────────► PrepareCommit ────────────────────► CompleteCommit
      ▲                           ▲  │                      └► PrepareAbort  ────────────────────► CompleteAbort
      │ InitProducerId            │  │ more partitions                                                │
      └───────────────────────────┼──┴────────────────────────────────────────────────────────────────┤
                                  └───────────────────────────────────────────────────────────────────┘
                                             the next transaction of the same producer

The numbers are those of the log.  Dead (an expired id) and PrepareEpochFence have numbers too and are never written:
an id dies by its tombstone, and the epoch that fences a producer is part of the PrepareAbort record.
"""

from enum import Enum

from tidelog.dataclass import dataclass
from tidelog.errors import ConcurrentTransactions, InvalidTxnState, KafkaError


class TransactionState(Enum):
    """The value is what DescribeTransactions and ListTransactions say."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"

    @property
    def number(self) -> int:
        """As the log has it."""
        return _NUMBERS[self]


(
    EMPTY,
    ONGOING,
    PREPARE_COMMIT,
    PREPARE_ABORT,
    COMPLETE_COMMIT,
    COMPLETE_ABORT,
    DEAD,
    PREPARE_EPOCH_FENCE,
) = TransactionState

BY_NUMBER = tuple(TransactionState)
_NUMBERS = {state: number for number, state in enumerate(TransactionState)}

Verdict = type[KafkaError] | None
"""An error to raise, or None for "go on"."""


@dataclass(frozen=True, slots=True)
class Row:
    """What a state allows."""

    next: frozenset[TransactionState]
    init: Verdict
    """InitProducerId: the id changes hands, or its producer begins a new epoch."""
    add: Verdict
    """A partition joins the transaction."""
    commit: Verdict
    """EndTxn with commit; going on in a Complete state means that it is done already."""
    abort: Verdict
    has_places: bool = False
    """Whether partitions belong to the transaction."""


_BUSY, _WRONG = ConcurrentTransactions, InvalidTxnState
_ENDED = frozenset({EMPTY, ONGOING, PREPARE_ABORT, DEAD})

# PREPARE_ABORT after Empty or Complete: a producer of KIP-890 aborts a transaction none of whose batches arrived.
TABLE: dict[TransactionState, Row] = {
    EMPTY: Row(_ENDED, None, None, _WRONG, _WRONG),
    ONGOING: Row(
        frozenset({ONGOING, PREPARE_COMMIT, PREPARE_ABORT}), None, None, None, None, has_places=True
    ),
    PREPARE_COMMIT: Row(frozenset({COMPLETE_COMMIT}), _BUSY, _BUSY, _BUSY, _WRONG, has_places=True),
    PREPARE_ABORT: Row(frozenset({COMPLETE_ABORT}), _BUSY, _BUSY, _WRONG, _BUSY, has_places=True),
    COMPLETE_COMMIT: Row(_ENDED, None, None, None, _WRONG),
    COMPLETE_ABORT: Row(_ENDED, None, None, _WRONG, None),
    DEAD: Row(frozenset(), _BUSY, _BUSY, _WRONG, _WRONG),
    PREPARE_EPOCH_FENCE: Row(frozenset(), _BUSY, _BUSY, _WRONG, _WRONG),
}

PREPARED = frozenset({PREPARE_COMMIT, PREPARE_ABORT})
COMPLETE = frozenset({COMPLETE_COMMIT, COMPLETE_ABORT})
MAY_EXPIRE = frozenset({EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT})
