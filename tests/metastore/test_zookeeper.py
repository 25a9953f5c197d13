"""ZooKeeper behind a network that breaks, and a server that restarts."""

import asyncio
import random
import secrets
from collections.abc import AsyncIterator

import pytest
from rigs import gone
from tcp_proxy import TcpProxy
from zookeeper import ZooKeeper

from tidelog.clock import SystemClock
from tidelog.metastore.contract import (
    Entry,
    Fenced,
    Metastore,
    MetastoreError,
    SessionLost,
    Snapshot,
)
from tidelog.metastore.zookeeper import ZooKeeperMetastore, log
from tidelog.metastore.zookeeper.ensemble import Delete

SHORT_MS = 3_000
LONG_MS = 60_000


@pytest.fixture
def chroot() -> str:
    return f"/{secrets.token_hex(4)}"


@pytest.fixture
async def proxy(zookeeper: ZooKeeper) -> AsyncIterator[TcpProxy]:
    async with TcpProxy(zookeeper.hosts[0]) as proxy:
        yield proxy


@pytest.fixture
async def near(zookeeper: ZooKeeper, chroot: str) -> AsyncIterator[Metastore]:
    """A handle with nothing between it and the server."""
    async with ZooKeeperMetastore(zookeeper.hosts, chroot, SystemClock()) as store:
        yield store


@pytest.fixture
async def far(proxy: TcpProxy, chroot: str) -> AsyncIterator[Metastore]:
    """A handle behind the proxy."""
    async with ZooKeeperMetastore([proxy.address], chroot, SystemClock()) as store:
        yield store
        proxy.mend()


@pytest.mark.parametrize("hurt", ["freeze", "cut"])
async def test_a_member_behind_a_broken_network_loses_its_session(hurt, near, far, proxy):
    session = await far.open_session(1, SHORT_MS)
    assert await far.lead(session) == 1
    assert await far.append(1, b"before") == 1
    await far.heartbeat(session)
    getattr(proxy, hurt)()
    await gone(near, session)
    # It knew by itself, and earlier than the others.
    assert far.session_deadline(session) < SystemClock().monotonic()
    successor = await near.open_session(2, LONG_MS)
    assert await near.lead(successor) == 2
    assert await near.append(2, b"after") == 2
    late = asyncio.create_task(far.append(1, b"late"))
    proxy.mend()
    with pytest.raises(Fenced):
        await late
    with pytest.raises(SessionLost):
        await far.heartbeat(session)
    assert await far.read(0) == [Entry(1, b"before"), Entry(2, b"after")]
    await far.open_session(1, LONG_MS)


async def test_a_short_cut_costs_neither_session_nor_entry(near, far, proxy):
    session = await far.open_session(1, LONG_MS)
    mine = await near.open_session(2, LONG_MS)
    assert await near.lead(mine) == 1
    tick = await far.tick()
    waiting = asyncio.create_task(far.wait(tick))
    for number in range(1, 6):
        proxy.cut()
        assert await near.append(1, b"%d" % number) == number
        proxy.mend()
        async with asyncio.timeout(60):
            while (await waiting).log_end < number:
                waiting = asyncio.create_task(far.wait(waiting.result()))
        waiting = asyncio.create_task(far.wait(waiting.result()))
        assert len(await far.read(0)) == number
    await far.heartbeat(session)
    waiting.cancel()


async def test_an_append_whose_answer_is_lost_happens_once(near, far, proxy):
    session = await far.open_session(1, LONG_MS)
    assert await far.lead(session) == 1
    for number in range(2, 22, 2):
        # Nothing is left to be asked before the next one.
        assert await far.append(1, b"%d" % (number - 1)) == number - 1
        tick = await near.tick()
        proxy.deafen()
        append = asyncio.create_task(far.append(1, b"%d" % number))
        async with asyncio.timeout(60):
            while tick.log_end < number:
                tick = await near.wait(tick)
        # It is in the log, and its author does not know.
        assert not append.done()
        proxy.drop()
        proxy.thaw()
        assert await append == number
    assert [each.data for each in await near.read(0)] == [b"%d" % n for n in range(1, 21)]


async def unanswered_append(
    far: Metastore, near: Metastore, proxy: TcpProxy
) -> "asyncio.Task[int]":
    """An append that is in the log as the second entry, and whose author does not know."""
    assert await far.append(1, b"first") == 1
    tick = await near.tick()
    proxy.deafen()
    append = asyncio.create_task(far.append(1, b"second"))
    async with asyncio.timeout(60):
        while tick.log_end < 2:
            tick = await near.wait(tick)
    return append


async def test_a_deposed_controller_learns_that_its_append_had_happened(near, far, proxy):
    session = await far.open_session(1, SHORT_MS)
    assert await far.lead(session) == 1
    append = await unanswered_append(far, near, proxy)
    await gone(near, session)
    successor = await near.open_session(2, LONG_MS)
    assert await near.lead(successor) == 2
    assert await near.append(2, b"theirs") == 3
    proxy.drop()
    proxy.thaw()
    assert await append == 2
    with pytest.raises(Fenced):
        await far.append(1, b"late")


async def test_an_append_that_was_cut_away_meanwhile_is_not_called_fenced(near, far, proxy):
    session = await far.open_session(1, SHORT_MS)
    assert await far.lead(session) == 1
    append = await unanswered_append(far, near, proxy)
    await gone(near, session)
    assert await near.lead(await near.open_session(2, LONG_MS)) == 2
    await near.save_snapshot(2, Snapshot(2, b"state"))
    proxy.drop()
    proxy.thaw()
    with pytest.raises(MetastoreError, match="was cut before it was known") as caught:
        await append
    assert not isinstance(caught.value, Fenced)


@pytest.mark.parametrize("seed", range(3))
async def test_appends_and_snapshots_over_a_network_that_breaks_at_random(seed, near, far, proxy):
    chance = random.Random(seed)
    session = await far.open_session(1, LONG_MS)
    assert await far.lead(session) == 1
    sizes = [chance.choice([3, 3, 3, 3, 3, 3, 3, 300_000]) for _ in range(60)]

    async def hurt() -> None:
        while True:
            await asyncio.sleep(chance.uniform(0, 0.15))
            chance.choice([proxy.drop, proxy.drop, proxy.deafen, proxy.freeze])()
            await asyncio.sleep(chance.uniform(0, 0.03))
            proxy.drop()
            proxy.thaw()

    trouble = asyncio.create_task(hurt())
    snapshots = [0]
    for number, size in enumerate(sizes, 1):
        assert await far.append(1, b"%d" % number * size) == number
        if chance.random() < 0.1:
            await far.save_snapshot(
                1, Snapshot(number, b"%d" % number * chance.choice([1, 300_000]))
            )
            snapshots.append(number)
    trouble.cancel()
    after = snapshots[-1]
    assert (await near.read(after)) == [
        Entry(number, b"%d" % number * sizes[number - 1]) for number in range(after + 1, 61)
    ]
    snapshot = await near.snapshot()
    assert (snapshot.number if snapshot else 0) == after


async def test_elections_over_a_network_that_breaks_at_random(near, far, proxy):
    chance = random.Random(0)

    async def hurt() -> None:
        while True:
            await asyncio.sleep(chance.uniform(0, 0.05))
            chance.choice([proxy.drop, proxy.deafen])()
            await asyncio.sleep(chance.uniform(0, 0.02))
            proxy.drop()
            proxy.thaw()

    trouble = asyncio.create_task(hurt())
    for epoch in range(1, 9):
        session = await far.open_session(1, LONG_MS)
        assert await far.lead(session) == epoch
        assert await near.controller() == (1, epoch)
        trouble.cancel()
        proxy.thaw()
        await far.close_session(session)
        await gone(near, session)
        trouble = asyncio.create_task(hurt())
    trouble.cancel()
    proxy.drop()


async def test_a_server_that_is_killed_and_started_again(zookeeper, near):
    session = await near.open_session(1, LONG_MS)
    assert await near.lead(session) == 1
    assert await near.append(1, b"before") == 1
    server = zookeeper.servers[0]
    server.kill()
    append = asyncio.create_task(near.append(1, b"meanwhile"))
    server.start()
    assert await append == 2
    await near.heartbeat(session)
    assert await near.lead(session) == 1
    assert await near.read(0) == [Entry(1, b"before"), Entry(2, b"meanwhile")]


async def test_what_was_never_finished_is_swept_away(zookeeper, near, chroot):
    session = await near.open_session(1, LONG_MS)
    await near.lead(session)
    big = bytes(2 * log.PART_BYTES)
    await near.append(1, big)
    await near.save_snapshot(1, Snapshot(1, big))
    await near.append(1, big)
    await near.save_snapshot(1, Snapshot(1, b"small"))
    reader = near._ensemble
    by = reader.deadline()
    assert len(await reader.children(f"{chroot}/snapshots", by)) == 1
    assert {name[:10] for name in await reader.children(f"{chroot}/parts", by)} == {"0000000002"}


async def test_nodes_that_somebody_removed_are_named(near, chroot):
    session = await near.open_session(1, LONG_MS)
    await near.lead(session)
    await near.append(1, b"a")
    steps = [Delete(f"{chroot}/log/0000000001"), Delete(f"{chroot}/log")]
    await near._ensemble.commit(steps, near._ensemble.deadline())
    for call in (near.tick(), near.read(0), near.append(1, b"b")):
        with pytest.raises(MetastoreError, match="removed"):
            await call


async def test_too_large_is_refused(near):
    await near.lead(await near.open_session(1, LONG_MS))
    with pytest.raises(MetastoreError, match="too many for the metastore"):
        await near.append(1, bytes(log.LARGEST_BYTES + 1))


async def test_an_ensemble_that_is_not_there_is_refused_with_one_line():
    store = ZooKeeperMetastore(["127.0.0.1:1", "127.0.0.1:2"], "", SystemClock(), patience=0.3)
    with pytest.raises(MetastoreError) as caught:
        await store.open()
    assert str(caught.value) == "ZooKeeper at 127.0.0.1:1,127.0.0.1:2 does not answer"


async def test_closing_does_not_wait_for_a_server_that_does_not_answer(proxy, chroot):
    store = ZooKeeperMetastore([proxy.address], chroot, SystemClock(), patience=1)
    await store.open()
    await store.open_session(1, LONG_MS)
    proxy.freeze()
    async with asyncio.timeout(30):
        await store.close()


async def test_a_closed_handle_says_so(zookeeper, chroot):
    store = ZooKeeperMetastore(zookeeper.hosts, chroot, SystemClock())
    await store.open()
    await store.close()
    with pytest.raises(MetastoreError, match="closed"):
        await store.append(1, b"a")
