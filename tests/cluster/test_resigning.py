"""Partitions whose disk refuses writes are handed on, where somebody else has them."""

import asyncio
from uuid import UUID

import pytest

from tidelog.cluster import resigning as resigning_module
from tidelog.cluster.image import Broker, Image, PartitionState, Topic
from tidelog.cluster.resigning import Resigning
from tidelog.errors import InvalidUpdateVersion, NotController
from tidelog.testing.manual_clock import ManualClock

ID = UUID(int=3)


def image(leader=1, isr=(1, 2, 3), live=(1, 2, 3), partition_epoch=5, least="1") -> Image:
    state = PartitionState(leader, 4, partition_epoch, (1, 2, 3), isr)
    return Image(
        brokers={each: Broker(each, 10 + each, (), None) for each in live},
        topics={"t": Topic("t", ID, (state,))},
        topic_names={ID: "t"},
        configs={("cluster", ""): {"min.insync.replicas": least}},
    )


class Rig:
    """Broker 1, and a controller that answers what the test says."""

    def __init__(self) -> None:
        self.image = image()
        self.clock = ManualClock()
        self.asked: asyncio.Queue = asyncio.Queue()
        self.heard = {2, 3}
        self.resigning = Resigning(
            1, lambda: self.image, self.alter, self.clock, lambda *_: self.heard
        )

    async def alter(self, changes):
        answer = asyncio.get_running_loop().create_future()
        await self.asked.put((changes, answer))
        return await answer

    async def next(self):
        async with asyncio.timeout(60):
            [change], answer = await self.asked.get()
            return change, answer

    async def quiet(self) -> bool:
        for _ in range(20):
            await asyncio.sleep(0)
        return self.asked.empty()


@pytest.fixture
async def rig():
    rig = Rig()
    task = asyncio.create_task(rig.resigning.run())
    yield rig
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def handed_on(rig: Rig) -> list[PartitionState]:
    rig.image = image(leader=2, isr=(2, 3), partition_epoch=6)
    return [rig.image.topics["t"].partitions[0]]


async def test_the_leader_of_a_full_disk_asks_to_be_left_out(rig):
    rig.resigning.begin(ID, 0)
    change, answer = await rig.next()
    assert (change.leader_epoch, change.partition_epoch, change.isr) == (4, 5, (2, 3))
    answer.set_result(handed_on(rig))
    assert await rig.quiet()


async def test_a_follower_that_cannot_write_is_not_waited_for(rig):
    rig.image = image(leader=2)
    for partition_epoch in (5, 9):  # however often
        rig.image = image(leader=2, partition_epoch=partition_epoch)
        rig.resigning.begin(ID, 0)
        change, answer = await rig.next()
        assert (change.partition_epoch, change.isr) == (partition_epoch, (2, 3))
        answer.set_result(handed_on(rig))
        assert await rig.quiet()


async def test_it_goes_round_only_once_in_a_while(rig):
    rig.resigning.begin(ID, 0)
    _, answer = await rig.next()
    answer.set_result(handed_on(rig))
    assert await rig.quiet()
    rig.image = image(partition_epoch=9)
    rig.resigning.begin(ID, 0)
    assert await rig.quiet()
    rig.clock.advance(60_000)
    rig.resigning.begin(ID, 0)
    assert (await rig.next())[0].partition_epoch == 9


@pytest.mark.parametrize(
    "now",
    [
        image(leader=2, isr=(2, 3)),
        image(isr=(1,)),
        image(live=(1,)),
        image(isr=(1, 2), least="2"),
        image(isr=(1, 2, 3), live=(1, 2), least="2"),
        image(leader=2, isr=(1, 2), least="2"),
        Image(),
    ],
    ids=[
        "not in sync",
        "alone in sync",
        "the others are gone",
        "too few others",
        "too few others live",
        "a follower with too few others",
        "deleted",
    ],
)
async def test_nobody_is_asked_where_it_would_not_help(rig, now):
    rig.image = now
    rig.resigning.begin(ID, 0)
    assert await rig.quiet()


@pytest.mark.parametrize("error", [InvalidUpdateVersion(), NotController()])
async def test_it_is_asked_again_with_what_the_image_says_now(rig, error):
    rig.resigning.begin(ID, 0)
    _, answer = await rig.next()
    rig.image = image(isr=(1, 3), partition_epoch=6)
    if isinstance(error, NotController):
        answer.set_exception(error)
    else:
        answer.set_result([error])
    change, _ = await rig.next()
    assert (change.partition_epoch, change.isr) == (6, (3,))


async def test_a_disk_that_is_gone_is_left_as_soon_as_somebody_is_in_sync(rig):
    rig.image = image(isr=(1,))
    rig.resigning.begin(ID, 0, for_good=True)
    assert await rig.quiet()
    rig.image = image(isr=(1, 2), partition_epoch=7)
    change, answer = await rig.next()
    assert (change.partition_epoch, change.isr) == (7, (2,))
    answer.set_result(handed_on(rig))
    assert await rig.quiet()


async def test_a_full_disk_is_handed_on_to_those_who_have_fetched_since(rig, monkeypatch):
    monkeypatch.setattr(resigning_module, "_PAUSE_S", 0.0)
    rig.image = image(least="2")
    rig.heard = {3}  # broker 2 has a session, and may be dead
    rig.resigning.begin(ID, 0)
    assert await rig.quiet()
    rig.heard = {2, 3}
    change, _ = await rig.next()
    assert (change.isr, change.for_good) == ((2, 3), False)


async def test_who_has_not_been_heard_is_left_out(rig):
    rig.heard = {3}
    rig.resigning.begin(ID, 0)
    assert (await rig.next())[0].isr == (3,)


async def test_it_is_not_waited_for_ever_to_hear_somebody(rig, monkeypatch):
    monkeypatch.setattr(resigning_module, "_PAUSE_S", 0.0)
    rig.heard = set()
    rig.resigning.begin(ID, 0)
    assert await rig.quiet()
    rig.clock.advance(10_000)
    assert await rig.quiet()
    rig.heard = {2, 3}
    assert await rig.quiet(), "the next write that is refused begins anew"
    rig.resigning.begin(ID, 0)
    assert (await rig.next())[0].isr == (2, 3)


async def test_a_disk_that_is_gone_waits_for_nobody(rig):
    rig.image = image(least="3")
    rig.heard = set()
    rig.resigning.begin(ID, 0, for_good=True)
    change, _ = await rig.next()
    assert (change.isr, change.for_good) == ((2, 3), True)
