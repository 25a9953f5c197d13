"""One shard of the transaction coordinator: the transactional ids of one partition of `__transaction_state`.

Every method decides and changes nothing; `replay` takes in what was recorded.  A transaction that is to end goes

    Ongoing ─► Prepare… recorded and committed ─► `prepared` is told ─► markers in every partition ─► Complete… recorded

so the outcome is fixed before anybody can see it, and a coordinator that died in between finishes when it has loaded.
"""

import logging
from collections.abc import Callable
from typing import Any

from tidelog.clock import Clock
from tidelog.coordination.runtime import Decision, Reply, ShardTimers
from tidelog.coordination.transactions.config import TransactionConfig
from tidelog.coordination.transactions.records import Change
from tidelog.coordination.transactions.states import (
    COMPLETE,
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    MAY_EXPIRE,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    PREPARED,
    TABLE,
)
from tidelog.coordination.transactions.transaction import (
    EPOCH_BUMPED_BY_END,
    MAX_EPOCH,
    NO_EPOCH,
    NO_PRODUCER,
    Identity,
    Place,
    Transaction,
    is_exhausted,
)
from tidelog.dataclass import dataclass
from tidelog.errors import (
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    InvalidTransactionTimeout,
    InvalidTxnState,
    KafkaError,
    ProducerFenced,
    TransactionAbortable,
)

log = logging.getLogger(__name__)

_TIMED_OUT = "timed out"
_EXPIRY = "expiry"


class NeedsProducerId(Exception):
    """The decision needs a fresh producer id: get one and decide again."""


@dataclass(frozen=True, slots=True)
class Environment:
    """Collaborators of one shard."""

    clock: Clock
    timers: ShardTimers[Change]
    config: Callable[[], TransactionConfig]
    prepared: Callable[[str], None]
    """Told of an id whose outcome is committed: its markers have to be written."""


class TransactionShard:
    """The state of a shard, and the decisions over it."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        self.transactions: dict[str, Transaction] = {}
        self._begun_ahead: dict[tuple[str, int], int] = {}
        """When transactions were found here that had begun, by the clock of another broker, in the future."""
        self._is_loaded = False

    # ------------------------------------------------------------------ replay

    def replay(self, record: Change) -> None:
        """Take in one record."""
        if record.transaction is None:
            self.transactions.pop(record.transactional_id, None)
            return
        self.transactions[record.transactional_id] = record.transaction
        if self._is_loaded and record.transaction.state is ONGOING:
            self._watch_time()

    def end_transaction(self, producer_id: int, commit: bool) -> None:
        """Nobody writes to `__transaction_state` within a transaction."""

    def loaded(self) -> None:
        """Outcomes that were decided are carried out; time-outs and expiry begin."""
        self._is_loaded = True
        now_ms = self._env.clock.now_ms()
        for transactional_id, transaction in self.transactions.items():
            if transaction.state in PREPARED:
                self._env.prepared(transactional_id)
            elif transaction.state is ONGOING and transaction.start_ms > now_ms:
                self._begun_ahead[transactional_id, transaction.start_ms] = now_ms
        if any(each.state is ONGOING for each in self.transactions.values()):
            self._watch_time()
        self._schedule_expiry()

    def unloaded(self) -> list[tuple[Reply, Any]]:
        """Nobody waits here."""
        return []

    def check(self) -> None:
        """Assert the invariants of every id."""
        for transaction in self.transactions.values():
            transaction.check()

    # ------------------------------------------------------------------ who owns the id

    def init_producer_id(
        self,
        transactional_id: str,
        timeout_ms: int,
        expected: Identity | None,
        fresh_id: int | None,
    ) -> Decision[Change, Identity | KafkaError]:
        """Give the id to the producer that asks, or (`expected`) a new epoch to the one that has it (KIP-360)."""
        most_ms = self._env.config().max_timeout_ms
        if not 0 < timeout_ms <= most_ms:
            raise InvalidTransactionTimeout(
                f"a timeout of {timeout_ms} ms is not between 1 and transaction.max.timeout.ms={most_ms}"
            )
        known = self.transactions.get(transactional_id)
        now_ms = self._env.clock.now_ms()
        if known is None:
            made = Transaction(_given(fresh_id), 0, timeout_ms, update_ms=now_ms)
            return Decision(made.identity, [Change(transactional_id, made)])
        if expected is not None and not _may_be_owner(known, expected):
            raise ProducerFenced
        refused = TABLE[known.state].init
        if refused is not None:
            raise refused
        if known.state is ONGOING:
            # The epoch of the fence is never given out: the client comes again, and gets the next.
            decision = self._abort(transactional_id, known)
            return Decision(ConcurrentTransactions(), decision.records, answers=decision.answers)
        renewed = _renewed(known, timeout_ms, expected, fresh_id, now_ms)
        return Decision(renewed.identity, [Change(transactional_id, renewed)])

    # ------------------------------------------------------------------ what a transaction holds

    def add(
        self, transactional_id: str, producer: Identity, places: frozenset[Place]
    ) -> Decision[Change, None]:
        """Put partitions into the transaction; the first one begins it."""
        known = self._owned(transactional_id, producer)
        refused = TABLE[known.state].add
        if refused is not None:
            raise refused
        if known.state is ONGOING and places <= known.places:
            return Decision(None)
        now_ms = self._env.clock.now_ms()
        start_ms = known.start_ms if known.state is ONGOING else now_ms
        added = known.step(ONGOING, now_ms, places=known.places | places, start_ms=start_ms)
        return Decision(None, [Change(transactional_id, added)])

    def verify(self, transactional_id: str, producer: Identity, place: Place) -> None:
        """Raise unless `place` belongs to the producer's open transaction."""
        known = self._owned(transactional_id, producer)
        if known.state in PREPARED:
            raise ConcurrentTransactions
        if known.state is not ONGOING or place not in known.places:
            raise TransactionAbortable(
                f"{place[0]}-{place[1]} was not added to the transaction of {transactional_id}"
            )

    # ------------------------------------------------------------------ how it ends

    def end(
        self,
        transactional_id: str,
        producer: Identity,
        commit: bool,
        client_version: int,
        fresh_id: int | None,
    ) -> Decision[Change, Identity]:
        """Commit or abort; answers with what the producer goes on with."""
        known = self.transactions.get(transactional_id)
        if known is None:
            raise InvalidProducerIdMapping
        is_retry = _is_retry_of_end(known, producer)
        if not is_retry:
            known = self._owned(transactional_id, producer)
        row = TABLE[known.state]
        refused = row.commit if commit else row.abort
        bumps = client_version >= EPOCH_BUMPED_BY_END
        if bumps and not is_retry and known.state is not ONGOING:
            # With the same epoch it is a new transaction, which never came to have a partition.
            if row.add is not None:
                raise row.add
            if commit:
                raise InvalidTxnState
        elif refused is not None:
            raise refused
        elif known.state in COMPLETE:
            return Decision(known.identity)
        prepared = known.step(
            PREPARE_COMMIT if commit else PREPARE_ABORT,
            self._env.clock.now_ms(),
            **(_bumped(known, client_version, fresh_id) if bumps else {"client_version": 0}),
        )
        is_last = prepared.next_producer_id >= 0
        told = Identity(prepared.next_producer_id, 0) if is_last else prepared.identity
        return self._prepare(transactional_id, prepared, told)

    def complete(self, transactional_id: str, producer: Identity) -> Decision[Change, None]:
        """All markers of the producer's transaction are written."""
        known = self.transactions.get(transactional_id)
        if known is None or known.state not in PREPARED or known.identity != producer:
            return Decision(None)
        changes: dict[str, Any] = {"places": frozenset()}
        if known.next_producer_id >= 0:
            changes |= {
                "producer_id": known.next_producer_id,
                "producer_epoch": 0,
                "previous_producer_id": known.producer_id,
                "next_producer_id": NO_PRODUCER,
            }
        state = COMPLETE_COMMIT if known.state is PREPARE_COMMIT else COMPLETE_ABORT
        completed = known.step(state, self._env.clock.now_ms(), **changes)
        return Decision(None, [Change(transactional_id, completed)])

    def abort_timed_out(self) -> Decision[Change, None]:
        """Abort every transaction that has been open for longer than its producer allowed, and fence that."""
        now_ms = self._env.clock.now_ms()
        records: list[Change] = []
        answers: list[tuple[Reply, Any]] = []
        for transactional_id, known in self.transactions.items():
            start_ms = self._begun_ahead.get((transactional_id, known.start_ms), known.start_ms)
            if known.state is ONGOING and start_ms + known.timeout_ms < now_ms:
                log.info("the transaction of %s is aborted: its time is over", transactional_id)
                decision = self._abort(transactional_id, known)
                records += decision.records
                answers += decision.answers
        return Decision(None, records, answers=answers)

    def _abort(self, transactional_id: str, known: Transaction) -> Decision[Change, None]:
        """Abort on our own account: whoever had the epoch is fenced."""
        # Invariant: a producer never has MAX_EPOCH, so there is always one more to fence it with.
        assert known.producer_epoch < MAX_EPOCH, known
        prepared = known.step(
            PREPARE_ABORT,
            self._env.clock.now_ms(),
            producer_epoch=known.producer_epoch + 1,
            last_producer_epoch=NO_EPOCH,
            client_version=0,
        )
        return self._prepare(transactional_id, prepared, None)

    def _prepare(
        self, transactional_id: str, prepared: Transaction, response: Any
    ) -> Decision[Change, Any]:
        def committed(result: Any) -> None:
            # After a failure the shard is given up; loading it again finds what was recorded.
            if not isinstance(result, KafkaError):
                self._env.prepared(transactional_id)

        change = Change(transactional_id, prepared)
        return Decision(response, [change], answers=[(committed, None)])

    def _owned(self, transactional_id: str, producer: Identity) -> Transaction:
        known = self.transactions.get(transactional_id)
        if known is None or known.producer_id != producer.producer_id:
            raise InvalidProducerIdMapping
        if known.producer_epoch != producer.producer_epoch:
            raise ProducerFenced
        return known

    # ------------------------------------------------------------------ time

    def _watch_time(self) -> None:
        """Look for time-outs in a while; nothing is looked at while no transaction is open."""
        if _TIMED_OUT in self._env.timers:
            return

        def due() -> Decision[Change, None]:
            decision = self.abort_timed_out()
            ended = {record.transactional_id for record in decision.records}
            if any(
                each.state is ONGOING and key not in ended
                for key, each in self.transactions.items()
            ):
                self._watch_time()
            return decision

        self._env.timers.schedule(_TIMED_OUT, self._env.config().abort_interval_ms, due)

    def expire(self) -> Decision[Change, None]:
        """Tombstones for ids that have not been used for long."""
        before_ms = self._env.clock.now_ms() - self._env.config().id_expiration_ms
        records = [
            Change(transactional_id, None)
            for transactional_id, each in self.transactions.items()
            if each.state in MAY_EXPIRE and each.update_ms <= before_ms
        ]
        if records:
            log.info("%d transactional ids have expired", len(records))
        return Decision(None, records)

    def _schedule_expiry(self) -> None:
        def due() -> Decision[Change, None]:
            self._schedule_expiry()
            return self.expire()

        self._env.timers.schedule(_EXPIRY, self._env.config().expiry_interval_ms, due)


def _may_be_owner(known: Transaction, expected: Identity) -> bool:
    """Whether a producer that says so may have been the id's last; its epoch is looked at later."""
    if expected.producer_id == known.producer_id:
        return True
    # It may not have heard that its id, whose epochs had run out, was replaced.
    was_replaced = expected.producer_id == known.previous_producer_id
    return was_replaced and is_exhausted(expected.producer_epoch)


def _renewed(
    known: Transaction,
    timeout_ms: int,
    expected: Identity | None,
    fresh_id: int | None,
    now_ms: int,
) -> Transaction:
    """The id with a new epoch, or with the one that a retry was given before."""
    epoch = None if expected is None else expected.producer_epoch
    changes: dict[str, Any] = {
        "timeout_ms": timeout_ms,
        "start_ms": -1,
        "client_version": 0,
        "previous_producer_id": NO_PRODUCER,
        "last_producer_epoch": NO_EPOCH if epoch is None else known.producer_epoch,
    }
    if is_exhausted(known.producer_epoch) and epoch in (None, known.producer_epoch):
        changes |= {"producer_id": _given(fresh_id), "producer_epoch": 0}
        if epoch is not None:
            changes["previous_producer_id"] = known.producer_id
    elif epoch is None or epoch == known.producer_epoch:
        changes["producer_epoch"] = known.producer_epoch + 1
    elif epoch == known.last_producer_epoch:
        changes["last_producer_epoch"] = epoch
        changes["previous_producer_id"] = known.previous_producer_id
    else:
        raise ProducerFenced
    return known.step(EMPTY, now_ms, **changes)


def _is_retry_of_end(known: Transaction, producer: Identity) -> bool:
    """Whether EndTxn comes a second time from a producer whose epoch the first one has bumped (KIP-890)."""
    if known.client_version < EPOCH_BUMPED_BY_END or known.state not in PREPARED | COMPLETE:
        return False
    if known.producer_id == producer.producer_id:
        return known.producer_epoch == producer.producer_epoch + 1
    return (
        known.previous_producer_id == producer.producer_id
        and producer.producer_epoch == MAX_EPOCH - 1
        and known.producer_epoch == 0
    )


def _bumped(known: Transaction, client_version: int, fresh_id: int | None) -> dict[str, Any]:
    exhausted = is_exhausted(known.producer_epoch)
    return {
        "producer_epoch": known.producer_epoch + 1,
        "last_producer_epoch": known.producer_epoch,
        "previous_producer_id": NO_PRODUCER,
        "next_producer_id": _given(fresh_id) if exhausted else NO_PRODUCER,
        "client_version": client_version,
    }


def _given(fresh_id: int | None) -> int:
    if fresh_id is None:
        raise NeedsProducerId
    return fresh_id
