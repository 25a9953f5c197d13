"""One runtime for every coordinator: decide, record, replay, answer.

State is cut into shards, one for each partition of the coordinator's internal topic.  A request goes through
one door, `Runtime.write`:

1. `decide(state)` looks at the shard's state and returns a `Decision`: records, and what to answer;
2. the records are appended to the shard's journal as one batch;
3. they are replayed into the state: replay is the only way in which recorded state changes;
4. when the append is committed the answers go out.

If step 2 fails the state was not touched, and the answers become errors.  If step 3 was done and the commit then
fails (the disk, the leadership), the state is ahead of the log: the shard is dropped, and is loaded anew on demand or after a
while.  A timer's decision goes the same way, and is made again until it is recorded.
All of it runs on the loop without a pause between 1 and 3, so the events of a shard are serial by nature.  A
decision without records still waits for the records before it, so nobody hears of a state that may yet vanish.

A shard is loaded by replaying its journal in chunks, and waiting until all of it is committed: what a new leader finds
above the high watermark may yet vanish, and nobody may act on it before.  Until then its requests get
`CoordinatorLoadInProgress`.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Hashable, Sequence
from dataclasses import field
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from tidelog.coordination.timers import Timers
from tidelog.dataclass import dataclass
from tidelog.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    KafkaError,
    KafkaStorageError,
    NotCoordinator,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    RequestTimedOut,
    UnknownTopicOrPartition,
)

log = logging.getLogger(__name__)

R = TypeVar("R")
"""A record of the coordinator, before it is encoded."""
R_contra = TypeVar("R_contra", contravariant=True)
T = TypeVar("T")

Reply = Callable[[Any], None]
"""Takes the response, or the `KafkaError`, of a request that was left waiting."""

_TIMER_RETRY_MS = 500
"""A timer whose records could not be appended is tried again after this."""
_LOAD_AGAIN_MS = 5_000
"""A shard that was given up, or could not be loaded, is loaded again after this though nobody asks: time-outs are due in it."""
_COMMIT_SECONDS = 5.0
"""How long a request waits for the other replicas (offsets.commit.timeout.ms); the records stay, and may count later."""

_AS_TOLD_TO_CLIENTS: dict[type[KafkaError], type[KafkaError]] = {
    NotLeaderOrFollower: NotCoordinator,
    KafkaStorageError: NotCoordinator,
    UnknownTopicOrPartition: CoordinatorNotAvailable,
    NotEnoughReplicas: CoordinatorNotAvailable,
    NotEnoughReplicasAfterAppend: CoordinatorNotAvailable,
    RequestTimedOut: CoordinatorNotAvailable,
}


@dataclass(slots=True)
class Decision(Generic[R, T]):
    """What a request leads to: records to append, then answers."""

    response: T
    records: list[R] = field(default_factory=list)
    then: Callable[[], None] | None = None
    """A change of memory that is not recorded, and must not be made unless the append succeeds."""
    answers: list[tuple[Reply, Any]] = field(default_factory=list)
    """Requests that waited until now, and what each is told."""
    producer: tuple[int, int] | None = None
    """Id and epoch of the producer in whose transaction the records are written; None outside of one."""


class State(Protocol[R_contra]):
    """The memory of one shard."""

    def replay(self, record: R_contra) -> None:
        """Take in one record, just appended or read at load."""
        ...

    def end_transaction(self, producer_id: int, commit: bool) -> None:
        """A transaction that wrote to this shard has ended."""
        ...

    def loaded(self) -> None:
        """The whole journal was replayed; timers may start."""
        ...

    def unloaded(self) -> list[tuple[Reply, Any]]:
        """The shard is given up; returns the answers for all who wait."""
        ...


@dataclass(frozen=True, slots=True)
class Marker:
    """In a journal: the transaction of this producer ended."""

    producer_id: int
    commit: bool


class EndOfTransaction(NamedTuple):
    """How a producer's transaction ended, as its coordinator has it written to the logs."""

    producer_id: int
    producer_epoch: int
    commit: bool
    coordinator_epoch: int


class Journal(Protocol[R]):
    """A shard's log: the partition of the internal topic, seen as records."""

    def append(self, records: Sequence[R]) -> int:
        """Append as one batch; returns the offset of the last record.  Raises `KafkaError`."""
        ...

    def append_in_transaction(self, records: Sequence[R], producer: tuple[int, int]) -> int:
        """Append as one batch that belongs to the open transaction of `producer`."""
        ...

    def append_marker(self, marker: "EndOfTransaction") -> int:
        """Append the end of a transaction; returns its offset."""
        ...

    def committed(self, offset: int) -> "asyncio.Future[None] | None":
        """None if everything up to `offset` is committed, else a future that is done when it is."""
        ...

    def all_committed(self) -> "asyncio.Future[None] | None":
        """As `committed`, for everything that was written so far."""
        ...

    def scan(self) -> AsyncIterator[list[R | Marker]]:
        """Everything from the beginning, in chunks."""
        ...


class ShardTimers(Generic[R]):
    """The timers of one shard; what they run goes through the runtime's door."""

    def __init__(self, timers: Timers, index: int, fire: Callable[[int, Callable[[], Any]], None]):
        self._timers = timers
        self._index = index
        self._fire = fire
        self._keys: set[Hashable] = set()

    def __contains__(self, key: Hashable) -> bool:
        return key in self._keys

    def schedule(
        self, key: Hashable, delay_ms: float, decide: Callable[[], Decision[R, Any]]
    ) -> None:
        """Make `decide` in `delay_ms`; a timer that `key` had before is replaced."""
        self._schedule(key, delay_ms, decide, logging.WARNING)

    def _schedule(
        self,
        key: Hashable,
        delay_ms: float,
        decide: Callable[[], Decision[R, Any]],
        level: int,
    ) -> None:
        def due() -> None:
            self._keys.discard(key)
            try:
                self._fire(self._index, decide)
            except KafkaError as error:
                # Told once: a log may refuse for hours, and many timers may be due.
                log.log(level, "timer %s is tried again until it succeeds: %s", key, error)
                self._schedule(key, _TIMER_RETRY_MS, decide, logging.DEBUG)

        self._keys.add(key)
        self._timers.schedule((self._index, key), delay_ms, due)

    def cancel(self, key: Hashable) -> None:
        """Forget the timer of `key`, if it has one."""
        if key in self._keys:
            self._keys.discard(key)
            self._timers.cancel((self._index, key))

    def cancel_all(self) -> None:
        """Forget every timer of the shard."""
        for key in list(self._keys):
            self.cancel(key)


class _Shard(Generic[R]):
    __slots__ = ("journal", "last_offset", "state", "timers")

    def __init__(self, state: State[R], journal: Journal[R], timers: ShardTimers[R]) -> None:
        self.state = state
        self.journal = journal
        self.timers = timers
        self.last_offset = -1
        """Offset of the last record that was appended and replayed since the load; -1 before the first."""


class Runtime(Generic[R]):
    """The shards that this broker coordinates."""

    def __init__(
        self,
        *,
        make_state: Callable[[int, ShardTimers[R]], State[R]],
        timers: Timers,
        name: str,
    ) -> None:
        self._make_state = make_state
        self._timers = timers
        self._name = name
        self._shards: dict[int, _Shard[R]] = {}
        self._loading: dict[int, asyncio.Task[None]] = {}
        self.load_again: Callable[[int], None] = lambda index: None
        """Begins to load a shard if this broker leads it; set by whoever knows that."""

    # ------------------------------------------------------------------ requests

    async def write(self, index: int, decide: Callable[[Any], Decision[R, T]]) -> T:
        """Decide on the shard's state, append, replay; returns the response once it is committed."""
        response, waiting = self.write_now(index, decide)
        if waiting is not None:
            await until_committed(waiting)
        return response

    def write_now(
        self, index: int, decide: Callable[[Any], Decision[R, T]]
    ) -> "tuple[T, asyncio.Future[None] | None]":
        """As `write`, without waiting: the response holds when the future, if there is one, is done."""
        shard = self._active(index)
        decision = decide(shard.state)
        return decision.response, self._carry_out(index, shard, decision)

    async def read(self, index: int, look: Callable[[Any], T]) -> T:
        """Look at the shard's state; what was seen is committed when this returns."""
        return await self.write(index, lambda state: Decision(look(state)))

    async def end_transaction(self, index: int, end: EndOfTransaction) -> None:
        """Write the end of a transaction to the shard; returns once it is committed."""
        shard = self._active(index)
        decision: Decision[R, None] = Decision(None)
        decision.then = lambda: self._end(shard, end)
        waiting = self._carry_out(index, shard, decision)
        if waiting is not None:
            await until_committed(waiting)

    @staticmethod
    def _end(shard: _Shard[R], end: EndOfTransaction) -> None:
        shard.last_offset = shard.journal.append_marker(end)
        shard.state.end_transaction(end.producer_id, end.commit)

    def maybe_state(self, index: int) -> Any | None:
        """The state of a shard as it is now, committed or not; None while it is not loaded."""
        shard = self._shards.get(index)
        return None if shard is None else shard.state

    def states(self) -> list[tuple[int, Any]]:
        """Every loaded shard's state, for questions about all of them."""
        return [(index, shard.state) for index, shard in self._shards.items()]

    def _active(self, index: int) -> _Shard[R]:
        shard = self._shards.get(index)
        if shard is None:
            raise CoordinatorLoadInProgress() if index in self._loading else NotCoordinator()
        return shard

    def _carry_out(
        self, index: int, shard: _Shard[R], decision: Decision[R, Any]
    ) -> "asyncio.Future[None] | None":
        """Steps 2 to 4; returns what the caller has to wait for."""
        try:
            if decision.records:
                shard.last_offset = _append(shard.journal, decision)
                for record in decision.records:
                    shard.state.replay(record)
            if decision.then is not None:
                decision.then()
            waiting = shard.journal.committed(shard.last_offset)
        except KafkaError as error:
            _answer(decision.answers, told(error))
            raise told(error) from error
        if waiting is None:
            _answer(decision.answers)
            return None

        def committed(future: "asyncio.Future[None]") -> None:
            error = asyncio.CancelledError() if future.cancelled() else future.exception()
            if error is None:
                _answer(decision.answers)
                return
            _answer(
                decision.answers, told(error) if isinstance(error, KafkaError) else NotCoordinator()
            )
            self._give_up(index, shard, str(error))

        waiting.add_done_callback(committed)
        return waiting

    def _fire(self, index: int, decide: Callable[[], Decision[R, Any]]) -> None:
        """A timer's decision goes the same way as a request's."""
        shard = self._shards.get(index)
        if shard is not None:
            self._carry_out(index, shard, decide())

    # ------------------------------------------------------------------ life of a shard

    def is_loaded(self, index: int) -> bool:
        return index in self._shards

    def is_loading(self, index: int) -> bool:
        return index in self._loading

    def load(self, index: int, journal: Journal[R]) -> "asyncio.Task[None]":
        """Begin to load a shard that this broker leads from now on; the task ends when it is loaded."""
        task = self._loading.get(index)
        if task is None:
            self.unload(index)
            task = asyncio.get_running_loop().create_task(self._load(index, journal))
            self._loading[index] = task
        return task

    async def _load(self, index: int, journal: Journal[R]) -> None:
        timers: ShardTimers[R] = ShardTimers(self._timers, index, self._fire)
        state = self._make_state(index, timers)
        count = 0
        try:
            async for chunk in journal.scan():
                for record in chunk:
                    if isinstance(record, Marker):
                        state.end_transaction(record.producer_id, record.commit)
                    else:
                        state.replay(record)
                count += len(chunk)
                await asyncio.sleep(0)
            waiting = journal.all_committed()
            if waiting is not None:
                waiting.add_done_callback(_heard)
                await asyncio.shield(waiting)
            self._shards[index] = _Shard(state, journal, timers)
            state.loaded()
        except KafkaError as error:
            log.error("%s shard %d could not be loaded: %s", self._name, index, error)
            self._load_later(index)
        except Exception:  # the root of this task
            log.exception("%s shard %d could not be loaded", self._name, index)
            self._load_later(index)
        finally:
            if self._loading.get(index) is asyncio.current_task():
                del self._loading[index]
        if count:
            log.info("%s shard %d loaded: %d records", self._name, index, count)

    def unload(self, index: int) -> None:
        """This broker no longer leads the shard: forget it, and send away who waits."""
        self._timers.cancel(("load", index))
        task = self._loading.pop(index, None)
        if task is not None:
            task.cancel()
        shard = self._shards.pop(index, None)
        if shard is not None:
            shard.timers.cancel_all()
            _answer(shard.state.unloaded())

    async def close(self) -> None:
        """Forget every shard."""
        tasks = list(self._loading.values())
        for index in [*self._shards, *self._loading]:
            self.unload(index)
        await asyncio.gather(*tasks, return_exceptions=True)

    def _give_up(self, index: int, shard: _Shard[R], why: str) -> None:
        if self._shards.get(index) is shard:
            log.error("%s shard %d is given up, its log failed: %s", self._name, index, why)
            self.unload(index)
            self._load_later(index)

    def _load_later(self, index: int) -> None:
        self._timers.schedule(("load", index), _LOAD_AGAIN_MS, lambda: self.load_again(index))


def _append(journal: Journal[R], decision: Decision[R, Any]) -> int:
    if decision.producer is None:
        return journal.append(decision.records)
    return journal.append_in_transaction(decision.records, decision.producer)


def _heard(future: "asyncio.Future[None]") -> None:
    """Whoever waited for it may have been sent away meanwhile: then its error is no news."""
    if not future.cancelled():
        future.exception()


async def until_committed(waiting: "asyncio.Future[None]") -> None:
    """Wait for the other replicas, for so long; raises what clients are told."""
    try:
        async with asyncio.timeout(_COMMIT_SECONDS):
            await asyncio.shield(waiting)
    except TimeoutError:
        raise told(RequestTimedOut()) from None
    except KafkaError as error:
        raise told(error) from error


def told(error: KafkaError) -> KafkaError:
    """The error of a log, as a coordinator's clients understand it."""
    return _AS_TOLD_TO_CLIENTS.get(type(error), type(error))(error.message)


def _answer(answers: list[tuple[Reply, Any]], error: KafkaError | None = None) -> None:
    for reply, response in answers:
        reply(error or response)
