"""Calls of an async consumer that are cancelled at every await: nothing is skipped, nothing leaks, and `close` works."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog import Admin, Message, Producer, aio

T = TypeVar("T")
Names = Callable[[str], str]

MESSAGES = 300


class CancelledAt(Awaitable[T]):
    """Runs a coroutine in the caller's task, and cancels that when it waits for the `at`-th time."""

    def __init__(self, work: Coroutine[Any, Any, T], at: int) -> None:
        self._work = work
        self._at = at

    def __await__(self) -> Generator[Any, Any, T]:
        steps = self._work.__await__()
        place = 0
        try:
            waits_for = next(steps)
            while True:
                if place == self._at:
                    task = asyncio.current_task()
                    assert task is not None
                    task.cancel()
                place += 1
                try:
                    value = yield waits_for
                except BaseException as error:  # noqa: BLE001 - whatever comes is the coroutine's
                    waits_for = steps.throw(error)
                else:
                    waits_for = steps.send(value)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


async def attempt(work: Coroutine[Any, Any, T], at: int) -> T | None:
    """What comes of it, if it is not cancelled before."""

    async def run() -> T:
        return await CancelledAt(work, at)

    task = asyncio.ensure_future(run())
    try:
        return await task
    except asyncio.CancelledError:
        return None


async def one(consumer: aio.Consumer, at: int) -> list[Message]:
    found = await attempt(consumer.getone(), at)
    return [] if found is None else [found]


async def following(consumer: aio.Consumer, at: int) -> list[Message]:
    found = await attempt(anext(aiter(consumer)), at)  # type: ignore[arg-type]
    return [] if found is None else [found]


async def polled(consumer: aio.Consumer, at: int) -> list[Message]:
    return await attempt(consumer.poll(0.05, max_records=20), at) or []


async def many(consumer: aio.Consumer, at: int) -> list[Message]:
    found = await attempt(consumer.getmany(timeout=0.05, max_records=20), at) or {}
    return [each for some in found.values() for each in some]


async def committing(consumer: aio.Consumer, at: int) -> list[Message]:
    await attempt(consumer.commit(), at)
    return []


async def looking(consumer: aio.Consumer, at: int) -> list[Message]:
    await attempt(consumer.committed(), at)
    return []


CALLS = (one, following, polled, many, committing, looking)


@pytest.fixture(scope="module")
def filled(bootstrap: str) -> str:
    name = "cancelled"
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics({name: 3})
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(MESSAGES):
            producer.send(name, b"%d" % number, partition=number % 3)
    return name


groups = iter(range(1_000_000))


@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from(["classic", "consumer"]),
    st.lists(st.tuples(st.sampled_from(CALLS), st.integers(0, 6)), min_size=10, max_size=40),
    st.integers(0, 12),
)
def test_whatever_is_cancelled_nothing_is_skipped_and_nothing_leaks(
    bootstrap: str, filled: str, protocol: str, calls: list[Any], closing_at: int
) -> None:
    group = f"cancelled-{next(groups)}"

    async def run() -> None:
        consumer = aio.Consumer(
            bootstrap_servers=bootstrap,
            group_id=group,
            group_protocol=protocol,
            auto_offset_reset="earliest",
            auto_commit_interval_ms=10,
            max_partition_fetch_bytes=500,
            topics=filled,
        )
        found: list[Message] = []
        async with asyncio.timeout(60):
            for call, at in calls:
                if len(found) == MESSAGES:
                    break
                found += await call(consumer, at)
            while sum((await consumer.positions()).values()) < MESSAGES:
                found += await consumer.poll(1.0)
            places = [(each.partition, each.offset) for each in found]
            for partition in range(3):
                mine = [offset for index, offset in places if index == partition]
                assert mine == list(range(MESSAGES // 3))
            await attempt(consumer.close(), closing_at)
            await consumer.close()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            assert not others, others

    asyncio.run(run())
    with Admin(bootstrap_servers=bootstrap) as admin:
        assert not admin.describe_groups([group])[group].members
        for tp, each in admin.group_offsets(group).items():
            assert each.offset <= MESSAGES // 3, tp


@pytest.mark.parametrize("at", range(8))
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_a_cancelled_close_leaves_no_member(
    bootstrap: str, filled: str, unique: Names, admin: Admin, protocol: str, at: int
) -> None:
    group = unique("group")
    consumer = aio.Consumer(
        bootstrap_servers=bootstrap, group_id=group, group_protocol=protocol, topics=filled
    )
    while not await consumer.assigned():
        await consumer.poll(0.05)
    await attempt(consumer.close(), at)
    await consumer.close()
    assert not admin.describe_groups([group])[group].members


async def test_a_close_that_is_cancelled_goes_on_by_itself(
    bootstrap: str, filled: str, unique: Names, admin: Admin
) -> None:
    group = unique("group")
    consumer = aio.Consumer(bootstrap_servers=bootstrap, group_id=group, topics=filled)
    while not await consumer.assigned():
        await consumer.poll(0.05)
    await attempt(consumer.close(), 0)
    async with asyncio.timeout(30):
        while (await asyncio.to_thread(admin.describe_groups, [group]))[group].members:  # noqa: ASYNC110 - a broker gives no event
            await asyncio.sleep(0.01)


async def test_a_listener_that_has_begun_comes_to_its_end(
    bootstrap: str, filled: str, unique: Names
) -> None:
    """Though the call that runs it is cancelled: what it was to do is not done by halves."""
    begun, go_on, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def assigned(_: object) -> None:
        begun.set()
        await go_on.wait()
        ended.set()

    async with aio.Consumer(
        bootstrap_servers=bootstrap, group_id=unique("group"), auto_offset_reset="earliest"
    ) as consumer:
        await consumer.subscribe(filled, on_assigned=assigned)
        polling = asyncio.ensure_future(consumer.poll(30))
        await begun.wait()
        polling.cancel()
        await asyncio.wait([polling])
        assert not ended.is_set()
        go_on.set()
        assert await consumer.poll(30)
        assert ended.is_set()


async def test_close_ends_in_time_when_there_is_nobody_left_to_tell(
    bootstrap: str, filled: str, unique: Names
) -> None:
    consumer = aio.Consumer(
        bootstrap_servers=bootstrap,
        group_id=unique("group"),
        topics=filled,
        auto_offset_reset="earliest",
    )
    while not await consumer.poll(1.0):
        pass

    async def silence(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    consumer.cluster.ask_coordinator = silence  # type: ignore[assignment,method-assign]
    async with asyncio.timeout(20):
        await consumer.close(timeout=0.2)
