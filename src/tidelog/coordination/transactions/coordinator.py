"""The transaction coordinator as handlers see it: transactional ids, and what their producers ask for.

    coordinator = TransactionCoordinator(broker_id=…, clock=…, image=…, partitions=…, peers=…, groups=…, …)
    coordinator.follow()                      # loads what this broker leads by now, forgets the rest
    producer = await coordinator.init_producer_id("orders-1", 60_000, None)

A transactional id belongs to the partition of `__transaction_state` that it hashes to; that topic is made when a first
client asks for its coordinator.  What is decided is in `shard.py`; here is what takes time: producer ids, and the
markers of a transaction that has come to its end.  Leaders of partitions ask here, too, whether a batch belongs to an
open transaction (`enter`, `check`), also when its coordinator is another broker.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

from tidelog.clock import Clock
from tidelog.cluster.image import Image
from tidelog.cluster.lease import Lease
from tidelog.cluster.partition import Partition
from tidelog.cluster.partitions import Partitions
from tidelog.cluster.peers import Peers
from tidelog.coordination.journal import PartitionJournal
from tidelog.coordination.runtime import (
    Decision,
    EndOfTransaction,
    Runtime,
    ShardTimers,
    until_committed,
)
from tidelog.coordination.shards import Shards, shard_of
from tidelog.coordination.timers import CallLater, Timers
from tidelog.coordination.transactions.config import TransactionConfig
from tidelog.coordination.transactions.entries import Entries
from tidelog.coordination.transactions.marker_sender import MarkerSender
from tidelog.coordination.transactions.markers import Markers, OffsetsHolder
from tidelog.coordination.transactions.records import Change, decode_change, encode_change
from tidelog.coordination.transactions.shard import (
    Environment,
    NeedsProducerId,
    TransactionShard,
)
from tidelog.coordination.transactions.states import PREPARE_COMMIT, PREPARED
from tidelog.coordination.transactions.transaction import Identity, Place, Transaction
from tidelog.errors import (
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidProducerIdMapping,
    InvalidRequest,
    KafkaError,
    NotCoordinator,
    TransactionalIdNotFound,
)
from tidelog.names import TRANSACTION_STATE

log = logging.getLogger(__name__)

_ATTEMPTS = 5
"""How often a transaction may end while its batches wait to be let in; then the client comes again."""
_COMPLETION_MS = 250
"""How long anybody waits for markers, counted from their beginning: questions of other brokers stand behind one that waits."""
_RETRY_MS = 500
"""Markers that could not be written are tried again after this."""


class TransactionCoordinator:
    """The transactional ids whose partitions of `__transaction_state` this broker leads."""

    def __init__(
        self,
        *,
        broker_id: int,
        clock: Clock,
        image: Callable[[], Image],
        partitions: Partitions,
        peers: Peers,
        ensure_topic: Callable[[str], Awaitable[object]],
        config: Callable[[], TransactionConfig],
        groups: OffsetsHolder,
        new_producer_id: Callable[[], Awaitable[int]],
        call_later: CallLater | None = None,
        lease: Lease | None = None,
    ) -> None:
        self._broker_id = broker_id
        self._clock = clock
        self._partitions = partitions
        self._config = config
        self._new_producer_id = new_producer_id
        self._entries = Entries(peers, lambda place: partitions.get(*place))
        self._sender = MarkerSender(peers)
        self.markers = Markers(
            broker_id=broker_id,
            partitions=partitions,
            image=image,
            groups=groups,
            entries=self._entries,
            sender=self._sender,
            clock=clock,
        )
        self.timers = Timers(clock, call_later)
        self.turns: dict[str, asyncio.Future[None]] = {}
        """By transactional id: done when the last batch that had to wait to be let in was written."""
        self._waiting: set[asyncio.Task[None]] = set()
        """What waits to be let in."""
        self._completing: dict[str, asyncio.Task[None]] = {}
        """By transactional id: who writes its markers."""
        self._first_attempts: dict[str, asyncio.Future[None]] = {}
        """Done when all markers of an id were tried once, or that takes long: nobody is made to wait for a broken disk."""
        self._runtime: Runtime[Change] = Runtime(
            make_state=self._make_shard, timers=self.timers, name=TRANSACTION_STATE
        )
        self._shards = Shards(
            TRANSACTION_STATE,
            broker_id=broker_id,
            runtime=self._runtime,
            image=image,
            partitions=partitions,
            ensure_topic=ensure_topic,
            journal=self._journal,
            lease=lease,
        )

    # ------------------------------------------------------------------ life

    def follow(self) -> None:
        """The image has changed: load what this broker leads by now, and forget what it leads no longer."""
        self._shards.follow()

    def broker_gone(self, broker_id: int) -> None:
        """A broker was fenced: whoever leads in its stead is asked, instead of waiting until the old one's time is over."""
        self._sender.hang_up(broker_id)
        self._entries.hang_up(broker_id)

    async def stop(self) -> None:
        """Forget everything; what was to be completed is completed at the next start."""
        tasks = [*self._completing.values(), *self._waiting]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._sender.stop()
        await self._entries.stop()
        await self._runtime.close()
        self.timers.cancel_all()

    def _make_shard(self, index: int, timers: ShardTimers[Change]) -> TransactionShard:
        prepared = partial(self._start_completing, index)
        return TransactionShard(Environment(self._clock, timers, self._config, prepared))

    def _journal(self, partition: Partition) -> PartitionJournal[Change]:
        return PartitionJournal(
            partition,
            clock=self._clock,
            encode=encode_change,
            decode=lambda key, value, _: decode_change(key, value),
            load_bytes=self._config().load_buffer_bytes,
        )

    # ------------------------------------------------------------------ requests of producers

    async def find_coordinator(self, transactional_id: str) -> int:
        """The broker that coordinates the id; if it is this one, the id is loaded.  Raises while there is none."""
        return await self._shards.find(transactional_id)

    async def init_producer_id(
        self, transactional_id: str, timeout_ms: int, expected: Identity | None
    ) -> Identity:
        """Make the caller the one producer of this id; `expected` is who it was so far (KIP-360)."""

        def decide(
            shard: TransactionShard, fresh_id: int | None
        ) -> Decision[Change, Identity | KafkaError]:
            return shard.init_producer_id(transactional_id, timeout_ms, expected, fresh_id)

        told: Identity | KafkaError = await self._decide_with_id(transactional_id, decide)
        if isinstance(told, KafkaError) and await self._completion(transactional_id):
            told = await self._decide_with_id(transactional_id, decide)
        if isinstance(told, KafkaError):
            raise told
        return told

    async def add_partitions(
        self, transactional_id: str, producer: Identity, places: frozenset[Place]
    ) -> None:
        """Put partitions into the producer's transaction, which begins if there is none."""
        await self._write(
            transactional_id, lambda shard: shard.add(transactional_id, producer, places)
        )

    async def end_transaction(
        self, transactional_id: str, producer: Identity, commit: bool, client_version: int
    ) -> Identity:
        """Commit or abort; returns when the outcome is certain, and who the producer is from now on."""
        ended: Identity = await self._decide_with_id(
            transactional_id,
            lambda shard, fresh_id: shard.end(
                transactional_id, producer, commit, client_version, fresh_id
            ),
        )
        return ended

    async def _decide_with_id(
        self,
        transactional_id: str,
        decide: Callable[[TransactionShard, int | None], Decision[Change, Any]],
    ) -> Any:
        """Decide, with a fresh producer id if the decision turns out to need one."""
        try:
            return await self._write(transactional_id, lambda shard: decide(shard, None))
        except NeedsProducerId:
            fresh_id = await self._new_producer_id()
        return await self._write(transactional_id, lambda shard: decide(shard, fresh_id))

    async def _write(
        self, transactional_id: str, decide: Callable[[TransactionShard], Decision[Change, Any]]
    ) -> Any:
        if not transactional_id:
            raise InvalidRequest("the transactional id is empty")
        index = await self._shards.index_of(transactional_id)
        try:
            return await self._runtime.write(index, decide)
        except ConcurrentTransactions:
            # Clients would come again after a pause that is longer than most completions take.
            if not await self._completion(transactional_id):
                raise
        return await self._runtime.write(index, decide)

    # ------------------------------------------------------------------ questions of partition leaders

    def enter(
        self, transactional_id: str, producer: Identity, places: frozenset[Place], *, joins: bool
    ) -> "asyncio.Future[None] | None":
        """Ask for batches of a transaction to be let into these partitions, before they are appended.

        None when `check` may be called at once, else a future after which it may.  It ends in bounded time, and nobody
        needs to ask a second time.  With `joins` the batches bring their partitions with them (KIP-890).
        """
        if not joins and not self._config().partition_verification:
            return None
        index = self._index_of(transactional_id, InvalidProducerIdMapping)
        leader = self._shards.leader_of(index)
        if leader == self._broker_id:
            return self._join(index, transactional_id, producer, places) if joins else None

        def ask() -> "asyncio.Future[None] | None":
            leader = self._shards.leader_of(index)
            return self._entries.enter(leader, transactional_id, producer, places, joins=joins)

        waiting = ask()
        return None if waiting is None else self._begin_waiting(_let_in(waiting, ask))

    async def entered(
        self, transactional_id: str, producer: Identity, place: Place, *, joins: bool
    ) -> None:
        """As `enter`, for who can wait; raises if the place is not let into the transaction."""
        waiting = self.enter(transactional_id, producer, frozenset({place}), joins=joins)
        if waiting is not None:
            await waiting

    def check(self, transactional_id: str, producer: Identity, place: Place) -> None:
        """Raise unless this partition belongs to the producer's open transaction; at once, for every batch."""
        if not self._config().partition_verification:
            return
        index = self._index_of(transactional_id, CoordinatorNotAvailable)
        if self._shards.leader_of(index) == self._broker_id:
            self.verify(transactional_id, producer, place)
        elif not self._entries.may_append(place, producer):
            # Its transaction ended while it was on its way here; if there is a next one, `enter` will tell.
            raise NotCoordinator

    def verify(self, transactional_id: str, producer: Identity, place: Place) -> None:
        """As `check`, by the coordinator itself."""
        index = self._index_of(transactional_id, CoordinatorNotAvailable)
        shard = self._runtime.maybe_state(index)
        if shard is None:
            leads = self._shards.leader_of(index) == self._broker_id
            raise CoordinatorLoadInProgress() if leads else NotCoordinator()
        shard.verify(transactional_id, producer, place)

    def _join(
        self, index: int, transactional_id: str, producer: Identity, places: frozenset[Place]
    ) -> "asyncio.Future[None] | None":
        shard = self._runtime.maybe_state(index)
        if shard is None:
            raise CoordinatorLoadInProgress
        known = shard.transactions.get(transactional_id)
        if known is not None and known.state in PREPARED and known.identity == producer:
            # Its previous transaction is decided, and about to be complete.
            return self._begin_waiting(self.add_partitions(transactional_id, producer, places))
        _, waiting = self._runtime.write_now(
            index, lambda shard: shard.add(transactional_id, producer, places)
        )
        return None if waiting is None else self._begin_waiting(until_committed(waiting))

    def _begin_waiting(self, wait: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.get_running_loop().create_task(wait)
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)
        return task

    def _index_of(self, transactional_id: str, missing: type[KafkaError]) -> int:
        count = self._shards.count
        if not transactional_id or not count:
            raise missing
        return shard_of(transactional_id, count)

    # ------------------------------------------------------------------ administration

    async def describe(self, transactional_id: str) -> Transaction:
        """What is known of an id; raises `TransactionalIdNotFound`."""
        if not transactional_id:
            raise InvalidRequest("the transactional id is empty")
        if not self._shards.count:
            raise TransactionalIdNotFound
        known: Transaction | None = await self._write(
            transactional_id,
            lambda shard: Decision(shard.transactions.get(transactional_id)),
        )
        if known is None:
            raise TransactionalIdNotFound
        return known

    @property
    def count(self) -> int:
        """How many ids are known here."""
        return sum(len(shard.transactions) for _, shard in self._runtime.states())

    def transactions(self) -> dict[str, Transaction]:
        """Every id that is known; raises while some are not yet loaded."""
        if any(self._runtime.is_loading(index) for index in range(self._shards.count)):
            raise CoordinatorLoadInProgress
        found: dict[str, Transaction] = {}
        for _, shard in self._runtime.states():
            found |= shard.transactions
        return found

    # ------------------------------------------------------------------ completion

    async def _completion(self, transactional_id: str) -> bool:
        """Wait until the markers of the id's transaction were tried once, or that takes long; False if that is over already."""
        attempt = self._first_attempts.get(transactional_id)
        if attempt is None:
            return False
        await asyncio.wait({attempt})
        return True

    def _start_completing(self, index: int, transactional_id: str) -> None:
        loop = asyncio.get_running_loop()
        before = self._completing.get(transactional_id)
        self._first_attempts.setdefault(transactional_id, loop.create_future())
        slow = ("slow markers", transactional_id)
        self.timers.schedule(slow, _COMPLETION_MS, lambda: self._attempted(transactional_id))
        task = loop.create_task(self._complete(index, transactional_id, before))
        self._completing[transactional_id] = task

        def done(task: "asyncio.Task[None]") -> None:
            if self._completing.get(transactional_id) is task:
                del self._completing[transactional_id]
            self._attempted(transactional_id)
            if not task.cancelled() and task.exception() is not None:
                log.error(
                    "the completion of %s failed", transactional_id, exc_info=task.exception()
                )

        task.add_done_callback(done)

    async def _complete(
        self, index: int, transactional_id: str, before: "asyncio.Task[None] | None"
    ) -> None:
        """Write the markers of a decided transaction, however often it takes, and record that it is done."""
        if before is not None:
            await asyncio.wait({before})
        while True:
            try:
                await self._shards.ensure_loaded(index)
                await self._complete_once(index, transactional_id)
                return
            except NotCoordinator:
                return  # whoever leads the shard now has found it decided, and completes it
            except KafkaError as error:
                log.warning("the completion of %s is tried again: %s", transactional_id, error)
            self._attempted(transactional_id)
            await self._pause(transactional_id)

    def _attempted(self, transactional_id: str) -> None:
        self.timers.cancel(("slow markers", transactional_id))
        attempt = self._first_attempts.pop(transactional_id, None)
        if attempt is not None and not attempt.done():
            attempt.set_result(None)

    async def _complete_once(self, index: int, transactional_id: str) -> None:
        shard = self._runtime.maybe_state(index)
        known: Transaction | None = shard and shard.transactions.get(transactional_id)
        if known is None or known.state not in PREPARED:
            return
        end = EndOfTransaction(
            known.producer_id,
            known.producer_epoch,
            known.state is PREPARE_COMMIT,
            self._partitions.get(TRANSACTION_STATE, index).leader_epoch,
        )
        await self.markers.write_all(end, known.places)
        identity = known.identity
        await self._runtime.write(index, lambda shard: shard.complete(transactional_id, identity))

    async def _pause(self, transactional_id: str) -> None:
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def wake() -> None:
            if not over.done():
                over.set_result(None)

        self.timers.schedule(("markers", transactional_id), _RETRY_MS, wake)
        await over


async def _let_in(
    waiting: "asyncio.Future[None]", ask: Callable[[], asyncio.Future[None] | None]
) -> None:
    """Wait for an answer; ask again where a marker has made it void, so many times at most."""
    for _ in range(_ATTEMPTS):
        await asyncio.shield(waiting)  # others may wait for it, too
        again = ask()
        if again is None:
            return
        waiting = again
    raise ConcurrentTransactions
