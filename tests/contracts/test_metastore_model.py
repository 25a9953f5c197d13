"""Random schedules: every store answers each call as the one in memory does."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from rigs import MemoryRig, Rig

from tidelog.metastore.contract import (
    Entry,
    Metastore,
    MetastoreError,
    Session,
    Snapshot,
    Tick,
)

HANDLES = 3
STEPS = 150


class Schedule:
    """The same calls to a store and to the model."""

    def __init__(self, rig: Rig, seed: int) -> None:
        self._rig = rig
        self._model_rig = MemoryRig()
        self._chance = random.Random(seed)
        self._stores: list[tuple[Metastore, Metastore]] = []
        self._sessions: list[tuple[int, Session, Session]] = []
        """Handle, and the session in the store and in the model."""
        self.story: list[str] = []

    async def run(self) -> None:
        for _ in range(HANDLES):
            self._stores.append((await self._rig.handle(), await self._model_rig.handle()))
        steps = [self._open] * 2 + [self._close, self._beat, self._lead, self._lead]
        steps += [self._append] * 6 + [self._read] * 3 + [self._save, self._load]
        steps += [self._controller, self._tick, self._pass_time]
        for _ in range(STEPS):
            await self._chance.choice(steps)()

    async def _both(
        self, name: str, handle: int, real: Callable[[Metastore], Awaitable[Any]], model: Any = None
    ) -> Any:
        """Call both, and compare unless sessions are the result."""
        results = []
        calls = (real, model or real)
        for store, call in zip(self._stores[handle], calls, strict=True):
            try:
                results.append(await call(store))
            except MetastoreError as error:
                results.append(type(error))
        self.story.append(f"{handle}: {name} -> {results[1]!r}")
        if isinstance(results[1], Session):
            assert isinstance(results[0], Session), self.story
        else:
            assert results[0] == results[1], self.story
        return results

    async def _open(self) -> None:
        handle, member = self._chance.randrange(HANDLES), self._chance.randrange(4)
        real, model = await self._both(
            f"open_session({member})",
            handle,
            lambda store: store.open_session(member, self._rig.timeout_ms),
            lambda store: store.open_session(member, self._model_rig.timeout_ms),
        )
        if isinstance(real, Session):
            self._sessions.append((handle, real, model))

    async def _with_session(self, name: str) -> None:
        if self._sessions:
            handle, real, model = self._chance.choice(self._sessions[-5:])
            await self._both(
                f"{name}({model})",
                handle,
                lambda store: getattr(store, name)(real),
                lambda store: getattr(store, name)(model),
            )

    async def _close(self) -> None:
        await self._with_session("close_session")

    async def _beat(self) -> None:
        await self._with_session("heartbeat")

    async def _lead(self) -> None:
        await self._with_session("lead")

    async def _append(self) -> None:
        epoch = self._some_epoch()
        data = self._chance.randbytes(self._chance.randrange(20))
        handle = self._chance.randrange(HANDLES)
        await self._both(f"append({epoch})", handle, lambda store: store.append(epoch, data))

    async def _save(self) -> None:
        epoch, kept = self._some_epoch(), self._model_rig.store
        number = self._chance.randint(kept.snapshot.number if kept.snapshot else 0, kept.log_end)
        snapshot = Snapshot(number, self._chance.randbytes(5))
        handle = self._chance.randrange(HANDLES)
        await self._both(
            f"save_snapshot({epoch}, {number})",
            handle,
            lambda store: store.save_snapshot(epoch, snapshot),
        )

    async def _read(self) -> None:
        after = self._chance.randint(0, self._model_rig.store.log_end + 1)
        limit = self._chance.randint(1, 10)

        async def read(store: Metastore) -> list[Entry]:
            return await store.read(after, limit)

        await self._both(f"read({after}, {limit})", self._chance.randrange(HANDLES), read)

    async def _load(self) -> None:
        await self._both(
            "snapshot()", self._chance.randrange(HANDLES), lambda store: store.snapshot()
        )

    async def _controller(self) -> None:
        await self._both(
            "controller()", self._chance.randrange(HANDLES), lambda store: store.controller()
        )

    async def _tick(self) -> None:
        """Ticks may lag, but come to the truth without anything else happening."""
        real, model = self._stores[self._chance.randrange(HANDLES)]
        wanted = _shape(await model.tick())
        async with asyncio.timeout(30):
            tick = await real.tick()
            while _shape(tick) != wanted:
                tick = await real.wait(tick)

    async def _pass_time(self) -> None:
        if self._rig.timeout_ms == self._model_rig.timeout_ms:
            seconds = self._chance.uniform(0.5, 6)
            self._rig.pass_time(seconds)
            self._model_rig.pass_time(seconds)

    def _some_epoch(self) -> int:
        epoch = self._model_rig.store.epoch
        return self._chance.choice([epoch] * 5 + [epoch - 1, epoch + 1])


def _shape(tick: Tick) -> tuple[int, int, list[int]]:
    return tick.log_end, tick.controller_epoch, sorted(member for member, _ in tick.sessions)


@pytest.mark.parametrize("seed", range(4))
async def test_a_store_answers_as_the_model_does(rig, seed):
    schedule = Schedule(rig, seed)
    await schedule.run()
    assert any("append" in line and "Fenced" not in line for line in schedule.story)
