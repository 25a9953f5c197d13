"""A broker that cannot go on ends by itself."""

import asyncio

import pytest

from tidelog.broker.background import Background
from tidelog.broker.ending import Ending
from tidelog.errors import StartError


class Rig:
    def __init__(self) -> None:
        self.aborted = 0
        self.ending = Ending(self.abort)
        self.background = Background(self.ending.failed)

    async def abort(self) -> None:
        self.aborted += 1
        await self.background.stop()

    async def fail(self, name: str, *, vital: bool) -> None:
        async def work() -> None:
            raise LookupError("lost")

        self.background.run(name, work(), vital=vital)
        for _ in range(5):
            await asyncio.sleep(0)


async def test_only_vital_work_ends_it_and_once():
    rig = Rig()
    await rig.fail("a chore", vital=False)
    assert not rig.ending.has_begun
    await rig.fail("metadata", vital=True)
    await rig.fail("membership", vital=True)
    await asyncio.wait_for(rig.ending.done.wait(), 60)
    assert rig.aborted == 1


async def test_what_fails_while_it_stops_is_no_news():
    rig = Rig()
    rig.ending.expected = True
    await rig.fail("metadata", vital=True)
    assert not rig.ending.has_begun


async def test_what_fails_while_it_starts_is_why_it_does_not():
    rig = Rig()

    async def start() -> None:
        with rig.ending.watched_start():
            await rig.fail("membership", vital=True)
            await asyncio.get_running_loop().create_future()

    with pytest.raises(StartError, match="membership cannot go on: lost"):
        await asyncio.wait_for(start(), 60)
    assert rig.aborted == 0, "the start lets go of what it took"


async def test_a_start_that_is_cancelled_is_cancelled():
    rig = Rig()

    async def start() -> None:
        with rig.ending.watched_start():
            await asyncio.get_running_loop().create_future()

    task = asyncio.create_task(start())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
