"""A broker's way to the simulated metastore: a link that can be slow or cut, as to any other host.

The store itself never fails.  A call over a cut link waits, and fails when it has waited for too long: then nobody knows
whether it was done, for the answer may be what was lost.  A broker that cannot reach the store loses its session there
when the timeout is over.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tidelog.clock import Clock
from tidelog.metastore.contract import (
    Controller,
    Entry,
    Metastore,
    MetastoreError,
    Session,
    SessionLost,
    Snapshot,
    Tick,
    Wakeups,
)
from tidelog.metastore.memory import MemoryMetastore, MemoryStore

from .network import SimNetwork

T = TypeVar("T")

STORE = "store"
"""The host of the metastore."""

_PATIENCE_S = 2.0
_LOOK_AGAIN_S = 0.05


class SimMetastore(Metastore):
    """One broker's handle on a `MemoryStore` that is behind a link."""

    poll_seconds = 0.25

    def __init__(self, store: MemoryStore, clock: Clock, network: SimNetwork, host: str) -> None:
        super().__init__()
        self._clock = clock
        self._inner = MemoryMetastore(store, clock)
        self._network = network
        self._host = host

    async def _call(self, work: Callable[[], Awaitable[T]]) -> T:
        await self._pass(self._host, STORE)
        try:
            result = await work()
        except MetastoreError:
            await self._pass(STORE, self._host)
            raise
        await self._pass(STORE, self._host)
        return result

    async def _pass(self, source: str, target: str) -> None:
        """Return when a message has gone this way."""
        link = self._network.link(source, target)
        waited = delay = link.delay(self._network.chance)
        await asyncio.sleep(delay)
        while link.cut:
            if waited > _PATIENCE_S:
                raise MetastoreError("the metastore does not answer")
            await asyncio.sleep(_LOOK_AGAIN_S)
            waited += _LOOK_AGAIN_S

    async def open(self) -> None:
        await self._call(self._inner.open)

    async def close(self) -> None:
        await self._call(self._inner.close)

    async def cluster_id(self, proposal: str) -> str:
        return await self._call(lambda: self._inner.cluster_id(proposal))

    async def open_session(self, member: int, timeout_ms: int) -> Session:
        sent = self._clock.monotonic()
        session = await self._call(lambda: self._inner.open_session(member, timeout_ms))
        self._set_deadline(session, sent + timeout_ms / 1000)
        return session

    async def heartbeat(self, session: Session) -> None:
        # From when it was sent, not from when the answer came: so never later than the store has it.
        sent = self._clock.monotonic()
        try:
            await self._call(lambda: self._inner.heartbeat(session))
        except SessionLost:
            self._forget_deadline(session)
            raise
        self._set_deadline(session, sent + session.timeout_ms / 1000)

    async def close_session(self, session: Session) -> None:
        self._forget_deadline(session)
        await self._call(lambda: self._inner.close_session(session))

    async def lead(self, session: Session) -> int | None:
        return await self._call(lambda: self._inner.lead(session))

    async def controller(self) -> Controller | None:
        return await self._call(self._inner.controller)

    async def append(self, epoch: int, data: bytes) -> int:
        return await self._call(lambda: self._inner.append(epoch, data))

    async def read(self, after: int, limit: int = 1000) -> list[Entry]:
        return await self._call(lambda: self._inner.read(after, limit))

    async def snapshot(self) -> Snapshot | None:
        return await self._call(self._inner.snapshot)

    async def save_snapshot(self, epoch: int, snapshot: Snapshot) -> None:
        await self._call(lambda: self._inner.save_snapshot(epoch, snapshot))

    async def tick(self) -> Tick:
        return await self._call(self._inner.tick)

    def wakeups(self) -> Wakeups:
        return self._inner.wakeups()
