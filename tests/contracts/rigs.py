"""One face for the tests over every metastore: make handles, let time pass, let a session fall silent."""

import asyncio
import secrets
from contextlib import AsyncExitStack
from pathlib import Path

from zookeeper import ZooKeeper

from tidelog.clock import SystemClock
from tidelog.metastore.contract import Metastore, Session
from tidelog.metastore.memory import MemoryMetastore, MemoryStore
from tidelog.metastore.sqlite import SqliteMetastore
from tidelog.metastore.zookeeper import ZooKeeperMetastore


class HandClock:
    def __init__(self) -> None:
        self.seconds = 1_000.0

    def now_ms(self) -> int:
        return int(self.seconds * 1000)

    def monotonic(self) -> float:
        return self.seconds


class Rig:
    """A store, and what makes it one of three kinds."""

    timeout_ms = 9_000
    """Of sessions that are to live."""
    short_ms = 9_000
    """Of sessions that are to be lost by silence."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self._handles = AsyncExitStack()

    def make(self) -> Metastore:
        raise NotImplementedError

    async def handle(self) -> Metastore:
        """One more handle on the same store."""
        return await self._handles.enter_async_context(self.make())

    async def leading(self) -> Metastore:
        store = await self.handle()
        assert await store.lead(await store.open_session(1, self.timeout_ms)) == 1
        return store

    def pass_time(self, seconds: float) -> None:
        """Where time is made by hand."""
        self.clock.seconds += seconds

    async def fall_silent(self, *sessions: Session) -> None:
        """Return when the sessions, which have `short_ms`, are lost because nobody renewed them."""
        self.pass_time(10)

    def monotonic(self) -> float:
        return self.clock.monotonic()

    async def close(self) -> None:
        await self._handles.aclose()


class MemoryRig(Rig):
    def __init__(self) -> None:
        super().__init__()
        self.store = MemoryStore()

    def make(self) -> Metastore:
        return MemoryMetastore(self.store, self.clock)


class SqliteRig(Rig):
    def __init__(self, directory: Path) -> None:
        super().__init__()
        self.path = directory / "metadata.db"

    def make(self) -> Metastore:
        store = SqliteMetastore(self.path, self.clock)
        # Time that is made by hand rings no bell.
        store.poll_seconds = 0.002
        return store


class ZooKeeperRig(Rig):
    timeout_ms = 30_000
    short_ms = 1_500

    def __init__(self, zookeeper: ZooKeeper) -> None:
        super().__init__()
        self.zookeeper = zookeeper
        self.chroot = f"/tests/{secrets.token_hex(4)}"

    def make(self) -> Metastore:
        return ZooKeeperMetastore(self.zookeeper.hosts, self.chroot, SystemClock())

    def pass_time(self, seconds: float) -> None:
        pass

    async def fall_silent(self, *sessions: Session) -> None:
        observer = await self.handle()
        await gone(observer, *sessions)

    def monotonic(self) -> float:
        return SystemClock().monotonic()


async def gone(observer: Metastore, *sessions: Session) -> None:
    """Return when the observer no longer sees any of the sessions."""
    lost = {(each.member, each.token) for each in sessions}
    async with asyncio.timeout(60):
        tick = await observer.tick()
        while tick.sessions & lost:
            tick = await observer.wait(tick)
