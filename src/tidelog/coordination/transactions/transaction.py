"""What is known of one transactional id: a value that is replaced, never changed."""

from dataclasses import replace
from typing import Any, NamedTuple

from tidelog.coordination.transactions.states import EMPTY, TABLE, TransactionState
from tidelog.dataclass import dataclass

Place = tuple[str, int]
"""Topic and partition."""

NO_PRODUCER = -1
NO_EPOCH = -1
MAX_EPOCH = (1 << 15) - 1
"""Never given to a producer: kept for the coordinator, which must always be able to fence one."""
EPOCH_BUMPED_BY_END = 2
"""The transaction.version from which on EndTxn bumps the epoch (KIP-890)."""


class Identity(NamedTuple):
    """What a producer signs its batches with."""

    producer_id: int
    producer_epoch: int


def is_exhausted(producer_epoch: int) -> bool:
    """Whether a producer of this epoch needs a new producer id to go on."""
    return producer_epoch >= MAX_EPOCH - 1


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transactional id: whose it is, and its current or last transaction."""

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState = EMPTY
    places: frozenset[Place] = frozenset()
    """Partitions that need a marker when the transaction ends."""
    start_ms: int = -1
    """When the current or last transaction began; -1 before the first."""
    update_ms: int = -1
    """Of the last step; an id that has not moved for long expires."""
    previous_producer_id: int = NO_PRODUCER
    """The id before epochs ran out, as long as its owner may not have heard of the new one."""
    next_producer_id: int = NO_PRODUCER
    """Replaces an exhausted one as soon as the markers are written."""
    client_version: int = 0
    """2 if the producer that ended the transaction has its epoch bumped by every end (KIP-890)."""
    last_producer_epoch: int = NO_EPOCH
    """The epoch before this one, if a retry from it is to be answered again; memory alone, as in Kafka."""

    @property
    def identity(self) -> Identity:
        return Identity(self.producer_id, self.producer_epoch)

    def step(self, state: TransactionState, now_ms: int, **changes: Any) -> "Transaction":
        """The same id in its next state: the one door through which states change."""
        assert state in TABLE[self.state].next, (self.state, state)
        made = replace(self, state=state, update_ms=now_ms, **changes)
        made.check()
        return made

    def check(self) -> None:
        """Assert what always holds."""
        assert self.producer_id >= 0, self
        assert 0 <= self.producer_epoch <= MAX_EPOCH, self
        assert TABLE[self.state].has_places or not self.places, self
        assert self.state is not EMPTY or self.start_ms == -1, self
        # Only a transaction that is about to end, with its last epoch, waits for another id.
        assert self.next_producer_id < 0 or self.producer_epoch == MAX_EPOCH, self
