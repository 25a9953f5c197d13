"""One suite over every metastore: whatever holds the metadata, this is what it promises."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tidelog.metastore.contract import (
    Compacted,
    Entry,
    Fenced,
    MemberTaken,
    Metastore,
    SessionLost,
    Snapshot,
)
from tidelog.metastore.memory import MemoryMetastore, MemoryStore
from tidelog.metastore.sqlite import SqliteMetastore

TIMEOUT_MS = 9_000


class HandClock:
    def __init__(self) -> None:
        self.seconds = 1_000.0

    def now_ms(self) -> int:
        return int(self.seconds * 1000)

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture(params=["memory", "sqlite"])
async def handle(
    request: pytest.FixtureRequest, tmp_path: Path, clock: HandClock
) -> AsyncIterator[Callable[[], object]]:
    """Makes one more handle on the same store."""
    shared = MemoryStore()
    async with AsyncExitStack() as stack:

        async def make() -> Metastore:
            store: Metastore
            if request.param == "memory":
                store = MemoryMetastore(shared, clock)
            else:
                store = SqliteMetastore(tmp_path / "metadata.db", clock)
                store.poll_seconds = 0.002
            return await stack.enter_async_context(store)

        yield make


async def test_the_cluster_id_is_chosen_once(handle):
    first, second = await handle(), await handle()
    assert await first.cluster_id("aaa") == "aaa"
    assert await second.cluster_id("bbb") == "aaa"


async def test_a_member_id_is_held_by_one_live_session(handle, clock):
    first, second = await handle(), await handle()
    await first.open_session(1, TIMEOUT_MS)
    with pytest.raises(MemberTaken):
        await second.open_session(1, TIMEOUT_MS)
    clock.seconds += 10
    await second.open_session(1, TIMEOUT_MS)


async def test_heartbeats_keep_a_session_and_silence_loses_it(handle, clock):
    store = await handle()
    session = await store.open_session(1, TIMEOUT_MS)
    for _ in range(5):
        clock.seconds += 8
        await store.heartbeat(session)
    clock.seconds += 10
    with pytest.raises(SessionLost):
        await store.heartbeat(session)


async def test_a_closed_handle_gives_its_sessions_back(handle):
    first, second = await handle(), await handle()
    await first.open_session(1, TIMEOUT_MS)
    await first.close()
    await second.open_session(1, TIMEOUT_MS)


async def test_one_controller_at_a_time(handle):
    first, second = await handle(), await handle()
    one, two = await first.open_session(1, TIMEOUT_MS), await second.open_session(2, TIMEOUT_MS)
    assert await first.lead(one) == 1
    assert await second.lead(two) is None
    assert await first.lead(one) == 1
    assert await second.controller() == (1, 1)


async def test_the_epoch_grows_with_every_election(handle, clock):
    first, second = await handle(), await handle()
    one, two = await first.open_session(1, TIMEOUT_MS), await second.open_session(2, TIMEOUT_MS)
    assert await first.lead(one) == 1
    await first.close_session(one)
    assert await second.controller() is None
    assert await second.lead(two) == 2
    clock.seconds += 10
    again = await first.open_session(1, TIMEOUT_MS)
    assert await first.lead(again) == 3


async def test_a_lost_session_cannot_lead(handle, clock):
    store = await handle()
    session = await store.open_session(1, TIMEOUT_MS)
    clock.seconds += 10
    with pytest.raises(SessionLost):
        await store.lead(session)


async def test_a_deposed_controllers_late_append_leaves_no_trace(handle, clock):
    first, second = await handle(), await handle()
    one = await first.open_session(1, TIMEOUT_MS)
    assert await first.lead(one) == 1
    assert await first.append(1, b"a") == 1
    clock.seconds += 10
    two = await second.open_session(2, TIMEOUT_MS)
    assert await second.lead(two) == 2
    with pytest.raises(Fenced):
        await first.append(1, b"late")
    with pytest.raises(Fenced):
        await first.save_snapshot(1, Snapshot(1, b"late"))
    assert await second.append(2, b"b") == 2
    assert await first.read(0) == [Entry(1, b"a"), Entry(2, b"b")]


async def test_nobody_appends_before_an_election(handle):
    store = await handle()
    with pytest.raises(Fenced):
        await store.append(1, b"a")


async def test_reading_goes_on_after_an_index(handle):
    store = await leading(handle)
    for number in range(10):
        await store.append(1, b"%d" % number)
    assert [each.number for each in await store.read(0)] == list(range(1, 11))
    assert [each.number for each in await store.read(4, limit=3)] == [5, 6, 7]
    assert await store.read(10) == []


async def test_a_snapshot_cuts_the_log(handle):
    store = await leading(handle)
    for number in range(5):
        await store.append(1, b"%d" % number)
    await store.save_snapshot(1, Snapshot(3, b"state"))
    assert await store.snapshot() == (3, b"state")
    assert [each.number for each in await store.read(3)] == [4, 5]
    with pytest.raises(Compacted):
        await store.read(1)


async def test_numbers_go_on_after_everything_was_cut(handle):
    store = await leading(handle)
    await store.append(1, b"a")
    await store.save_snapshot(1, Snapshot(1, b"state"))
    assert (await store.tick()).log_end == 1
    assert await store.read(1) == []
    with pytest.raises(Compacted):
        await store.read(0)
    assert await store.append(1, b"b") == 2


async def test_a_watcher_misses_nothing_and_sees_nothing_twice(handle):
    writer = await leading(handle)
    reader = await handle()
    seen: list[int] = []

    async def follow() -> None:
        tick = await reader.tick()
        while len(seen) < 50:
            entries = await reader.read(seen[-1] if seen else 0)
            seen.extend(each.number for each in entries)
            if not entries:
                tick = await reader.wait(tick)

    task = asyncio.create_task(follow())
    for number in range(50):
        await writer.append(1, b"%d" % number)
        await asyncio.sleep(0)
    await asyncio.wait_for(task, 20)
    assert seen == list(range(1, 51))


async def test_waiting_sees_sessions_come_and_go(handle, clock):
    first, second = await handle(), await handle()
    await first.open_session(1, TIMEOUT_MS)
    tick = await first.tick()
    session = await second.open_session(2, TIMEOUT_MS)
    tick = await asyncio.wait_for(first.wait(tick), 10)
    assert {member for member, _ in tick.sessions} == {1, 2}
    await second.close_session(session)
    tick = await asyncio.wait_for(first.wait(tick), 10)
    assert {member for member, _ in tick.sessions} == {1}


async def test_waiting_ends_when_its_time_is_over(handle):
    store = await handle()
    tick = await store.tick()
    assert await store.wait(tick, timeout=0) == tick


async def leading(handle) -> Metastore:
    store = await handle()
    assert await store.lead(await store.open_session(1, TIMEOUT_MS)) == 1
    return store
