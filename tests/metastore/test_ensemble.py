"""Three ZooKeeper servers, of which some or all go away while members write and follow."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest
from rigs import gone
from zookeeper import Server, ZooKeeper

from tidelog.clock import SystemClock
from tidelog.metastore.contract import Metastore, MetastoreError, Session
from tidelog.metastore.zookeeper import ZooKeeperMetastore

TIMEOUT_MS = 10_000

Handle = Callable[[], Awaitable[Metastore]]


@pytest.fixture
async def handle(ensemble: ZooKeeper) -> AsyncIterator[Handle]:
    """Makes one more handle on the same store."""
    chroot = f"/tests/{secrets.token_hex(4)}"
    async with AsyncExitStack() as stack:

        async def make() -> Metastore:
            store = ZooKeeperMetastore(ensemble.hosts, chroot, SystemClock(), patience=3)
            return await stack.enter_async_context(store)

        yield make


class Load:
    """A controller that appends, and followers; every append that fails is tried again under a new text."""

    def __init__(self, writer: Metastore, session: Session, readers: list[Metastore]) -> None:
        self._writer = writer
        self._session = session
        self._readers = readers
        self.acknowledged: dict[int, bytes] = {}
        self.unknown: set[bytes] = set()
        self._enough = asyncio.Event()
        self._finished = asyncio.Event()
        self._progress = asyncio.Event()

    async def run(self, trouble: Callable[[], Awaitable[None]]) -> None:
        """Cause the trouble under load, and go on for a while afterwards."""
        async with asyncio.timeout(120), asyncio.TaskGroup() as tasks:
            writing = tasks.create_task(self._write())
            tasks.create_task(self._keep_session())
            following = [tasks.create_task(self._follow(each)) for each in self._readers]
            await self.appended(20)
            await trouble()
            await self.appended(20)
            self._enough.set()
            await writing
            self._finished.set()
        for task in following:
            self.check(task.result())

    async def appended(self, more: int) -> None:
        count = len(self.acknowledged)
        while len(self.acknowledged) < count + more:
            self._progress.clear()
            await self._progress.wait()

    def check(self, seen: list[tuple[int, bytes]]) -> None:
        assert [number for number, _ in seen] == list(range(1, len(seen) + 1))
        assert self.acknowledged.items() <= set(seen), (
            "an acknowledged entry is lost or has changed"
        )
        extra = {data for number, data in seen if number not in self.acknowledged}
        assert extra <= self.unknown
        assert len({data for _, data in seen}) == len(seen), "an entry is there twice"

    async def _write(self) -> None:
        epoch = await self._writer.lead(self._session)
        assert epoch is not None
        serial = 0
        while not self._enough.is_set():
            serial += 1
            data = b"%d" % serial
            try:
                self.acknowledged[await self._writer.append(epoch, data)] = data
            except MetastoreError as error:
                check_away(error)
                self.unknown.add(data)
            self._progress.set()

    async def _keep_session(self) -> None:
        while not self._enough.is_set():
            # A session survives, because there is always time to come back.
            try:
                await self._writer.heartbeat(self._session)
            except MetastoreError as error:
                check_away(error)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._enough.wait(), 1)

    async def _follow(self, reader: Metastore) -> list[tuple[int, bytes]]:
        seen: list[tuple[int, bytes]] = []
        ended = asyncio.create_task(self._finished.wait())
        while True:
            try:
                tick = await reader.tick()
                entries = await reader.read(len(seen))
                seen.extend(entries)
                if not entries:
                    last = max(self.acknowledged, default=0)
                    if ended.done() and len(seen) >= last:
                        return seen
                    waiting = asyncio.create_task(reader.wait(tick))
                    await asyncio.wait([waiting, ended], return_when=asyncio.FIRST_COMPLETED)
                    if not waiting.done():
                        waiting.cancel()
            except MetastoreError as error:
                check_away(error)


def check_away(error: MetastoreError) -> None:
    if "does not answer" not in str(error):
        raise error


@pytest.fixture
async def load(handle: Handle) -> Load:
    writer = await handle()
    return Load(writer, await writer.open_session(1, TIMEOUT_MS), [await handle(), await handle()])


async def restart(server: Server) -> None:
    server.start()
    await asyncio.to_thread(server.wait)


async def test_one_of_three_is_killed_and_comes_back(ensemble, load):
    async def trouble() -> None:
        server = ensemble.follower()
        server.kill()
        await load.appended(20)
        await restart(server)

    await load.run(trouble)


async def test_the_leader_is_killed_and_comes_back(ensemble, load):
    async def trouble() -> None:
        server = ensemble.leader()
        server.kill()
        await load.appended(20)
        await restart(server)

    await load.run(trouble)


async def test_the_leader_is_stopped_for_a_while(ensemble, load):
    async def trouble() -> None:
        server = ensemble.leader()
        server.pause()
        try:
            await load.appended(20)
        finally:
            server.resume()
        await asyncio.to_thread(server.wait)

    await load.run(trouble)


async def test_all_are_away_for_a_while(ensemble, load):
    async def trouble() -> None:
        for server in ensemble.servers:
            server.kill()
        with pytest.raises(MetastoreError, match="does not answer"):
            await load._readers[0].controller()
        for server in ensemble.servers:
            server.start()
        for server in ensemble.servers:
            await asyncio.to_thread(server.wait)

    await load.run(trouble)


async def test_a_new_controller_sees_everything_the_old_one_wrote(ensemble, handle):
    """Reads may come from a server that is behind; after an election they do not."""
    stores = [await handle() for _ in range(4)]
    for turn in range(12):
        store = stores[turn % len(stores)]
        session = await store.open_session(turn, 60_000)
        assert await store.lead(session) == turn + 1
        entries = await store.read(0)
        assert len(entries) == turn * 5
        for each in range(5):
            await store.append(turn + 1, b"%d/%d" % (turn, each))
        await store.close_session(session)
        await gone(stores[(turn + 1) % len(stores)], session)
