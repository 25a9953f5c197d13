"""One suite over every metastore: whatever holds the metadata, this is what it promises."""

import asyncio
import math

import pytest

from tidelog.metastore.contract import (
    Compacted,
    Entry,
    Fenced,
    MemberTaken,
    SessionLost,
    Snapshot,
)


async def test_the_cluster_id_is_chosen_once(rig):
    first, second = await rig.handle(), await rig.handle()
    assert await first.cluster_id("aaa") == "aaa"
    assert await second.cluster_id("bbb") == "aaa"


async def test_two_that_propose_a_cluster_id_at_once_agree(rig):
    handles = [await rig.handle() for _ in range(4)]
    proposals = [each.cluster_id(f"id-{number}") for number, each in enumerate(handles)]
    assert len(set(await asyncio.gather(*proposals))) == 1


# Sessions


async def test_a_member_id_is_held_by_one_live_session(rig):
    first, second = await rig.handle(), await rig.handle()
    session = await first.open_session(1, rig.short_ms)
    with pytest.raises(MemberTaken):
        await second.open_session(1, rig.short_ms)
    await rig.fall_silent(session)
    await second.open_session(1, rig.short_ms)


async def test_a_member_id_is_given_to_one_of_many_at_once(rig):
    handles = [await rig.handle() for _ in range(4)]
    tries = [each.open_session(1, rig.timeout_ms) for each in handles]
    results = await asyncio.gather(*tries, return_exceptions=True)
    assert sum(isinstance(each, MemberTaken) for each in results) == 3


async def test_heartbeats_keep_a_session_and_silence_loses_it(rig):
    store = await rig.handle()
    session = await store.open_session(1, rig.short_ms)
    for _ in range(5):
        rig.pass_time(8)
        await store.heartbeat(session)
    await rig.fall_silent(session)
    with pytest.raises(SessionLost):
        await store.heartbeat(session)
    assert (await store.tick()).sessions == frozenset()


async def test_the_same_handle_opens_a_new_session_after_a_lost_one(rig):
    store = await rig.handle()
    lost = await store.open_session(1, rig.short_ms)
    await rig.fall_silent(lost)
    fresh = await store.open_session(1, rig.timeout_ms)
    assert fresh.token != lost.token
    await store.heartbeat(fresh)
    with pytest.raises(SessionLost):
        await store.heartbeat(lost)


async def test_a_closed_session_is_over(rig):
    store = await rig.handle()
    session = await store.open_session(1, rig.timeout_ms)
    await store.close_session(session)
    with pytest.raises(SessionLost):
        await store.heartbeat(session)
    with pytest.raises(SessionLost):
        await store.lead(session)
    await store.close_session(session)


async def test_a_closed_handle_gives_its_sessions_back(rig):
    first, second = await rig.handle(), await rig.handle()
    await first.open_session(1, rig.timeout_ms)
    await first.close()
    await second.open_session(1, rig.timeout_ms)


async def test_the_holder_knows_until_when_its_lease_lives(rig):
    store = await rig.handle()
    before = rig.monotonic()
    session = await store.open_session(1, rig.timeout_ms)
    deadline = store.session_deadline(session)
    assert before < deadline <= rig.monotonic() + session.timeout_ms / 1000
    rig.pass_time(5)
    await store.heartbeat(session)
    assert store.session_deadline(session) > deadline
    await store.close_session(session)
    assert store.session_deadline(session) == -math.inf


async def test_a_lost_lease_had_passed_its_deadline(rig):
    store = await rig.handle()
    session = await store.open_session(1, rig.short_ms)
    await store.heartbeat(session)
    deadline = store.session_deadline(session)
    await rig.fall_silent(session)
    assert rig.monotonic() > deadline


# Election


async def test_one_controller_at_a_time(rig):
    first, second = await rig.handle(), await rig.handle()
    one = await first.open_session(1, rig.timeout_ms)
    two = await second.open_session(2, rig.timeout_ms)
    assert await first.lead(one) == 1
    assert await second.lead(two) is None
    assert await first.lead(one) == 1
    assert await second.controller() == (1, 1)


async def test_many_would_be_controllers_at_once(rig):
    handles = [await rig.handle() for _ in range(5)]
    sessions = [await each.open_session(n, rig.timeout_ms) for n, each in enumerate(handles)]
    for epoch in range(1, 4):
        tries = (each.lead(session) for each, session in zip(handles, sessions, strict=True))
        results = await asyncio.gather(*tries)
        assert sorted(each for each in results if each is not None) == [epoch]
        winner = next(at for at, each in enumerate(results) if each is not None)
        assert await handles[0].controller() == (winner, epoch)
        await handles[winner].close_session(sessions[winner])
        sessions[winner] = await handles[winner].open_session(winner, rig.timeout_ms)


async def test_the_epoch_grows_with_every_election(rig):
    first, second = await rig.handle(), await rig.handle()
    one = await first.open_session(1, rig.timeout_ms)
    two = await second.open_session(2, rig.short_ms)
    assert await first.lead(one) == 1
    await first.close_session(one)
    assert await second.controller() is None
    assert await second.lead(two) == 2
    await rig.fall_silent(two)
    again = await first.open_session(1, rig.timeout_ms)
    assert await first.lead(again) == 3


async def test_a_lost_session_cannot_lead(rig):
    store = await rig.handle()
    session = await store.open_session(1, rig.short_ms)
    await rig.fall_silent(session)
    with pytest.raises(SessionLost):
        await store.lead(session)


async def test_a_member_that_comes_back_is_not_the_controller_it_was(rig):
    store = await rig.handle()
    session = await store.open_session(1, rig.timeout_ms)
    assert await store.lead(session) == 1
    await store.close_session(session)
    session = await store.open_session(1, rig.timeout_ms)
    assert await store.controller() is None
    assert await store.lead(session) == 2
    with pytest.raises(Fenced):
        await store.append(1, b"from a former life")


# The log


async def test_a_deposed_controllers_late_append_leaves_no_trace(rig):
    first, second = await rig.handle(), await rig.handle()
    one = await first.open_session(1, rig.short_ms)
    assert await first.lead(one) == 1
    assert await first.append(1, b"a") == 1
    await rig.fall_silent(one)
    two = await second.open_session(2, rig.timeout_ms)
    assert await second.lead(two) == 2
    with pytest.raises(Fenced):
        await first.append(1, b"late")
    with pytest.raises(Fenced):
        await first.save_snapshot(1, Snapshot(1, b"late"))
    assert await second.append(2, b"b") == 2
    assert await first.read(0) == [Entry(1, b"a"), Entry(2, b"b")]
    assert await first.snapshot() is None


async def test_nobody_appends_before_an_election(rig):
    store = await rig.handle()
    with pytest.raises(Fenced):
        await store.append(1, b"a")


async def test_appends_at_once_have_numbers_of_their_own(rig):
    store = await rig.leading()
    numbers = await asyncio.gather(*(store.append(1, b"%d" % each) for each in range(20)))
    assert sorted(numbers) == list(range(1, 21))
    data = {each.number: each.data for each in await store.read(0)}
    assert [data[number] for number in numbers] == [b"%d" % each for each in range(20)]


async def test_reading_goes_on_after_an_index(rig):
    store = await rig.leading()
    for number in range(10):
        await store.append(1, b"%d" % number)
    assert [each.number for each in await store.read(0)] == list(range(1, 11))
    assert [each.number for each in await store.read(4, limit=3)] == [5, 6, 7]
    assert await store.read(10) == []


@pytest.mark.parametrize("size", [0, 1, 600_000, 2_500_000])
async def test_entries_and_snapshots_of_any_size(rig, size):
    store, other = await rig.leading(), await rig.handle()
    data = bytes(range(256)) * (size // 256) + bytes(size % 256)
    assert await store.append(1, data) == 1
    assert await store.append(1, b"next") == 2
    assert await other.read(0) == [Entry(1, data), Entry(2, b"next")]
    await store.save_snapshot(1, Snapshot(1, data))
    assert await other.snapshot() == (1, data)
    await store.save_snapshot(1, Snapshot(2, b"small"))
    assert await other.snapshot() == (2, b"small")


async def test_a_snapshot_cuts_the_log(rig):
    store = await rig.leading()
    for number in range(5):
        await store.append(1, b"%d" % number)
    await store.save_snapshot(1, Snapshot(3, b"state"))
    assert await store.snapshot() == (3, b"state")
    assert [each.number for each in await store.read(3)] == [4, 5]
    with pytest.raises(Compacted):
        await store.read(1)


async def test_numbers_go_on_after_everything_was_cut(rig):
    store = await rig.leading()
    await store.append(1, b"a")
    await store.save_snapshot(1, Snapshot(1, b"state"))
    assert (await store.tick()).log_end == 1
    assert await store.read(1) == []
    with pytest.raises(Compacted):
        await store.read(0)
    assert await store.append(1, b"b") == 2


async def test_what_was_written_is_there_for_the_next_handle(rig):
    store = await rig.leading()
    await store.cluster_id("aaa")
    for number in range(4):
        await store.append(1, b"%d" % number)
    await store.save_snapshot(1, Snapshot(2, b"state"))
    await store.close()
    store = await rig.handle()
    assert await store.cluster_id("bbb") == "aaa"
    assert await store.snapshot() == (2, b"state")
    assert await store.read(2) == [Entry(3, b"2"), Entry(4, b"3")]
    assert (await store.tick())[:2] == (4, 1)
    assert await store.lead(await store.open_session(7, rig.timeout_ms)) == 2
    assert await store.append(2, b"4") == 5


# Waiting


async def test_a_watcher_misses_nothing_and_sees_nothing_twice(rig):
    writer = await rig.leading()
    readers = [await rig.handle() for _ in range(3)]
    seen: list[list[int]] = [[] for _ in readers]

    async def follow(reader, mine) -> None:
        tick = await reader.tick()
        while len(mine) < 50:
            entries = await reader.read(mine[-1] if mine else 0)
            mine.extend(each.number for each in entries)
            if not entries:
                tick = await reader.wait(tick)

    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        for reader, mine in zip(readers, seen, strict=True):
            tasks.create_task(follow(reader, mine))
        for number in range(50):
            await writer.append(1, b"%d" % number)
            await asyncio.sleep(0)
    assert seen == [list(range(1, 51))] * 3


async def test_a_watcher_that_falls_behind_goes_on_from_the_snapshot(rig):
    writer, reader = await rig.leading(), await rig.handle()
    seen: list[int] = []

    async def follow() -> None:
        tick = await reader.tick()
        while not seen or seen[-1] < 60:
            try:
                entries = await reader.read(seen[-1] if seen else 0, limit=4)
            except Compacted:
                snapshot = await reader.snapshot()
                assert snapshot is not None
                assert snapshot.data == b"%d" % snapshot.number
                seen.append(snapshot.number)
                continue
            seen.extend(each.number for each in entries)
            if not entries:
                tick = await reader.wait(tick)

    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        tasks.create_task(follow())
        for number in range(1, 61):
            await writer.append(1, b"%d" % number)
            if number % 7 == 0:
                await writer.save_snapshot(1, Snapshot(number, b"%d" % number))
    assert seen == sorted(set(seen))


async def test_everybody_who_waits_in_one_process_is_woken(rig):
    writer, reader = await rig.leading(), await rig.handle()
    tick = await reader.tick()
    waiting = [asyncio.create_task(reader.wait(tick)) for _ in range(5)]
    await asyncio.sleep(0)
    await writer.append(1, b"a")
    async with asyncio.timeout(60):
        assert {each.log_end for each in await asyncio.gather(*waiting)} == {1}


async def test_waiting_sees_sessions_come_and_go(rig):
    first, second = await rig.handle(), await rig.handle()
    await first.open_session(1, rig.timeout_ms)
    tick = await first.tick()
    session = await second.open_session(2, rig.timeout_ms)
    tick = await asyncio.wait_for(first.wait(tick), 10)
    assert {member for member, _ in tick.sessions} == {1, 2}
    await second.close_session(session)
    tick = await asyncio.wait_for(first.wait(tick), 10)
    assert {member for member, _ in tick.sessions} == {1}


async def test_waiting_sees_an_election(rig):
    first, second = await rig.handle(), await rig.handle()
    session = await second.open_session(2, rig.timeout_ms)
    tick = await first.tick()
    await second.lead(session)
    async with asyncio.timeout(10):
        while tick.controller_epoch == 0:
            tick = await first.wait(tick)
    assert tick.controller_epoch == 1


async def test_waiting_ends_when_its_time_is_over(rig):
    store = await rig.handle()
    tick = await store.tick()
    assert await store.wait(tick, timeout=0) == tick
