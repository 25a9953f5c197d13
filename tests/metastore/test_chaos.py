"""Members that are killed and stopped at random while they fight for the lead: nothing acknowledged is lost or doubled.

TIDELOG_METASTORE_FAULTS=100 makes it longer.
"""

import asyncio
import os
import random
import secrets
import sys
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP

import pytest
import struggling_member

from tidelog.clock import SystemClock
from tidelog.metastore.address import open_metastore
from tidelog.metastore.contract import Metastore, Tick

FAULTS = int(os.environ.get("TIDELOG_METASTORE_FAULTS", "3"))
MEMBERS = 3
TIMEOUT_MS = 2_000


class Struggle:
    """The processes, and what they said."""

    def __init__(self, address: str, observer: Metastore) -> None:
        self._address = address
        self._observer = observer
        self._processes: dict[int, asyncio.subprocess.Process] = {}
        self._listening: list[asyncio.Task[None]] = []
        self.acknowledged: dict[int, str] = {}
        self.unknown: set[str] = set()
        self.kills = 0
        self._heard = asyncio.Event()

    async def start(self, member: int) -> None:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            struggling_member.__file__,
            self._address,
            str(member),
            str(TIMEOUT_MS),
            stdout=asyncio.subprocess.PIPE,
        )
        self._processes[member] = process
        self._listening.append(asyncio.create_task(self._listen(process)))

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while (line := await process.stdout.readline()).endswith(b"\n"):
            number, text = line.decode().split()
            if number == "?":
                self.unknown.add(text)
            else:
                assert int(number) not in self.acknowledged
                self.acknowledged[int(number)] = text
            self._heard.set()

    async def appended(self, more: int) -> None:
        count = len(self.acknowledged)
        while len(self.acknowledged) < count + more:
            self._heard.clear()
            await self._heard.wait()

    async def kill(self, member: int) -> None:
        self._processes[member].send_signal(SIGKILL)
        await self._processes[member].wait()
        self.kills += 1

    async def pause(self, member: int) -> None:
        """Stop it until nobody takes it for live any more."""
        process = self._processes[member]
        tick = await self._observer.tick()
        process.send_signal(SIGSTOP)
        try:
            while _has(tick, member):
                tick = await self._observer.wait(tick)
        finally:
            process.send_signal(SIGCONT)

    async def end(self) -> None:
        for member in self._processes:
            await self.kill(member)
        await asyncio.gather(*self._listening)

    async def check(self) -> None:
        entries: list[tuple[int, str]] = []
        while batch := await self._observer.read(len(entries)):
            entries += [(each.number, each.data.decode()) for each in batch]
        assert [number for number, _ in entries] == list(range(1, len(entries) + 1))
        assert self.acknowledged.items() <= set(entries)
        texts = [text for _, text in entries]
        assert len(set(texts)) == len(texts), "an entry is there twice"
        silent = set(texts) - set(self.acknowledged.values()) - self.unknown
        assert len(silent) <= self.kills, "more than what was on its way at a kill"
        epochs = [int(text.split("/")[-1]) for text in texts]
        assert epochs == sorted(epochs), "a deposed controller has appended"


@pytest.mark.parametrize("store", ["sqlite", "zookeeper"])
async def test_members_killed_and_stopped_at_random(store, request, tmp_path: Path):
    if store == "sqlite":
        address = f"sqlite:{tmp_path / 'metadata.db'}"
    else:
        address = f"{request.getfixturevalue('zookeeper').address}/{secrets.token_hex(4)}"
    seed = int(os.environ.get("TIDELOG_SEED", "1"))
    chance = random.Random(seed)
    async with open_metastore(address, SystemClock()) as observer:
        struggle = Struggle(address, observer)
        for member in range(MEMBERS):
            await struggle.start(member)
        try:
            for _ in range(FAULTS):
                async with asyncio.timeout(120):
                    await struggle.appended(10)
                    controller = await observer.controller()
                    victim = chance.randrange(MEMBERS)
                    if controller is not None and chance.random() < 0.7:
                        victim = controller.member
                    if chance.random() < 0.5:
                        await struggle.kill(victim)
                        await struggle.start(victim)
                    else:
                        await struggle.pause(victim)
            async with asyncio.timeout(120):
                await struggle.appended(10)
        finally:
            await struggle.end()
        await struggle.check()


def _has(tick: Tick, member: int) -> bool:
    return any(each == member for each, _ in tick.sessions)
