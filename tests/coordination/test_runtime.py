"""The runtime's promises: replay after append, answers after commit, nothing half done."""

import asyncio
import gc
from typing import Any

import pytest

from tidelog.coordination.runtime import Decision, Marker, Runtime
from tidelog.coordination.timers import Timers
from tidelog.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    IllegalGeneration,
    KafkaStorageError,
    NotCoordinator,
    NotEnoughReplicas,
)
from tidelog.testing.manual_clock import ManualClock


class Numbers:
    """A state that adds up; waiting replies are told when it is given up."""

    def __init__(self, timers: Any) -> None:
        self.timers = timers
        self.seen: list[int] = []
        self.ended: list[tuple[int, bool]] = []
        self.is_loaded = False
        self.waiting: list[Any] = []

    def replay(self, record: int) -> None:
        self.seen.append(record)

    def end_transaction(self, producer_id: int, commit: bool) -> None:
        self.ended.append((producer_id, commit))

    def loaded(self) -> None:
        self.is_loaded = True

    def unloaded(self) -> list[Any]:
        return [(each, NotCoordinator()) for each in self.waiting]


class Journal:
    def __init__(self, *stored: int | Marker) -> None:
        self.stored: list[Any] = list(stored)
        self.fail: Exception | None = None
        self.futures: list[asyncio.Future[None]] | None = None
        self.gate: asyncio.Event | None = None

    def append(self, records: Any) -> int:
        if self.fail is not None:
            raise self.fail
        self.stored += records
        return len(self.stored) - 1

    def committed(self, offset: int) -> asyncio.Future[None] | None:
        if self.futures is None:
            return None
        self.futures.append(asyncio.get_running_loop().create_future())
        return self.futures[-1]

    def all_committed(self) -> asyncio.Future[None] | None:
        return self.committed(len(self.stored) - 1)

    async def scan(self) -> Any:
        if self.gate is not None:
            await self.gate.wait()
        yield list(self.stored)


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def timers(clock):
    return Timers(clock)


@pytest.fixture
def runtime(timers):
    return Runtime(make_state=lambda index, own: Numbers(own), timers=timers, name="numbers")


def state_of(runtime):
    return dict(runtime.states())[0]


async def test_append_replay_answer(runtime):
    journal = Journal()
    await runtime.load(0, journal)
    heard: list[Any] = []
    decision = Decision("yes", [1, 2], answers=[(heard.append, "told")])
    assert await runtime.write(0, lambda _: decision) == "yes"
    assert journal.stored == state_of(runtime).seen == [1, 2]
    assert heard == ["told"]


async def test_failed_append_touches_nothing(runtime):
    journal = Journal()
    await runtime.load(0, journal)
    heard: list[Any] = []
    journal.fail = NotEnoughReplicas()
    decision = Decision(
        None, [1], then=lambda: heard.append("then"), answers=[(heard.append, "told")]
    )
    with pytest.raises(CoordinatorNotAvailable):
        await runtime.write(0, lambda _: decision)
    assert state_of(runtime).seen == []
    assert [type(each) for each in heard] == [CoordinatorNotAvailable]


async def test_answers_wait_for_the_commit_even_without_records(runtime):
    journal = Journal()
    await runtime.load(0, journal)
    journal.futures = []
    heard: list[Any] = []
    first = asyncio.create_task(runtime.write(0, lambda _: Decision(1, [1])))
    await asyncio.sleep(0)
    second = asyncio.create_task(
        runtime.write(0, lambda state: Decision(list(state.seen), answers=[(heard.append, "told")]))
    )
    await asyncio.sleep(0)
    assert state_of(runtime).seen == [1], "replayed when appended"
    assert not first.done()
    assert not second.done()
    for each in journal.futures:
        each.set_result(None)
    assert await first == 1
    assert await second == [1]
    assert heard == ["told"]


async def test_answers_of_others_survive_a_cancelled_request(runtime):
    journal = Journal()
    await runtime.load(0, journal)
    journal.futures = []
    heard: list[Any] = []
    task = asyncio.create_task(
        runtime.write(0, lambda _: Decision(None, [1], answers=[(heard.append, "told")]))
    )
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    journal.futures[0].set_result(None)
    await asyncio.sleep(0)
    assert heard == ["told"]


async def test_failed_commit_gives_the_shard_up(runtime):
    journal = Journal()
    await runtime.load(0, journal)
    state = state_of(runtime)
    heard: list[Any] = []
    state.waiting.append(heard.append)
    journal.futures = []
    task = asyncio.create_task(runtime.write(0, lambda _: Decision(None, [1])))
    await asyncio.sleep(0)
    journal.futures[0].set_exception(KafkaStorageError())
    with pytest.raises(NotCoordinator):
        await task
    assert not runtime.is_loaded(0)
    assert isinstance(heard[0], NotCoordinator)
    with pytest.raises(NotCoordinator):
        await runtime.write(0, lambda _: Decision(None))


@pytest.mark.parametrize("when", ["commit", "load"])
async def test_a_shard_that_was_given_up_is_loaded_again_though_nobody_asks(
    runtime, timers, clock, when
):
    """Time-outs are due in it: of transactions above all, which hold back all readers."""
    journal = Journal(1, 2)
    asked: list[int] = []
    runtime.load_again = asked.append
    if when == "load":
        journal.futures = []
        loading = runtime.load(0, journal)
        for _ in range(5):
            await asyncio.sleep(0)
        journal.futures[0].set_exception(NotEnoughReplicas())
        await loading
    else:
        await runtime.load(0, journal)
        journal.futures = []
        _, waiting = runtime.write_now(0, lambda _: Decision(None, [3]))
        waiting.set_exception(KafkaStorageError())
        await asyncio.sleep(0)
    assert not runtime.is_loaded(0)
    clock.advance(10_000)
    timers.run_due()
    assert asked == [0]
    journal.futures = None
    await runtime.load(0, journal)
    clock.advance(10_000)
    timers.run_due()
    assert asked == [0]


async def test_load_replays_and_meanwhile_asks_for_patience(runtime):
    journal = Journal(1, Marker(7, True), 2)
    journal.gate = asyncio.Event()
    task = runtime.load(0, journal)
    with pytest.raises(CoordinatorLoadInProgress):
        await runtime.write(0, lambda _: Decision(None))
    assert runtime.load(0, journal) is task
    journal.gate.set()
    await task
    state = state_of(runtime)
    assert (state.seen, state.ended, state.is_loaded) == ([1, 2], [(7, True)], True)


async def test_refusal_reaches_the_caller(runtime):
    await runtime.load(0, Journal())

    def refuse(_: Any) -> Decision[int, None]:
        raise IllegalGeneration

    with pytest.raises(IllegalGeneration):
        await runtime.write(0, refuse)


async def test_timer_goes_through_the_same_door_and_is_tried_again(runtime, timers, clock):
    journal = Journal()
    await runtime.load(0, journal)
    state = state_of(runtime)
    state.timers.schedule("a", 1000, lambda: Decision(None, [1]))
    journal.fail = NotEnoughReplicas()
    clock.advance(1000)
    timers.run_due()
    assert state.seen == []
    journal.fail = None
    clock.advance(500)
    timers.run_due()
    assert state.seen == [1]
    state.timers.schedule("b", 1000, lambda: Decision(None, [2]))
    runtime.unload(0)
    clock.advance(1000)
    assert timers.run_due() == 0


async def test_a_load_that_was_given_up_does_not_complain_of_what_comes_then(runtime):
    journal = Journal(1)
    journal.futures = []
    told: list[Any] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: told.append(context))
    runtime.load(0, journal)
    for _ in range(5):
        await asyncio.sleep(0)
    runtime.unload(0)
    await asyncio.sleep(0)
    journal.futures.pop().set_exception(KafkaStorageError())
    await asyncio.sleep(0)
    gc.collect()
    assert told == []


async def test_close_ends_a_load(runtime):
    journal = Journal()
    journal.gate = asyncio.Event()
    task = runtime.load(0, journal)
    await asyncio.sleep(0)
    await runtime.close()
    assert task.cancelled()
