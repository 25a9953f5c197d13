"""A cluster at rest does next to nothing, whatever was done to its topics before: counted in turns of the simulated loop."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from tidelog import TopicPartition, aio
from tidelog.testing.simulation.cluster import SimClock, SimCluster
from tidelog.testing.simulation.loop import SimLoop
from tidelog.testing.simulation.run import _from_the_seed_alone, _quiet_burial
from tidelog.testing.simulation.story import Story
from tidelog.testing.simulation.workload import CLIENT

Change = Callable[[aio.Admin, "World"], Awaitable[Any]]

SETTLES_S = 15.0
"""A connection that nobody uses is closed, a moved replica has caught up, a deleted log is gone."""
WATCHED_S = 10.0
QUIET = 600
"""Turns a second of three brokers at rest: below 300 for heartbeats, their timers and waiting fetches; one fetch that is
answered at once, for ever, makes several thousand."""


class World:
    """Three brokers, and somebody who administers them."""

    def __init__(self, loop: SimLoop) -> None:
        self.loop = loop
        self.story = Story(loop.time)
        settings = {"default.replication.factor": "3", "min.insync.replicas": "2"}
        settings |= {"offsets.topic.replication.factor": "3"}
        self.cluster = SimCluster(loop, self.story, brokers=3, settings=settings)
        self._config = {"bootstrap.servers": self.cluster.bootstrap, **CLIENT}
        self._calls = 0
        loop.run_until_complete(self.cluster.start())

    def do(self, change: Change) -> None:
        """Make a change as a client of its own, which is gone afterwards."""
        self._calls += 1

        async def work() -> None:
            async with aio.Admin(self._config) as admin:
                await change(admin, self)

        done = self.loop.create_future()
        process = self.cluster.client(f"admin{self._calls}", _telling(work(), done))
        self.loop.run_until_complete(asyncio.wait_for(done, 60))
        self.loop.kill(process)
        self.cluster.network.process_died(process)

    def turns_a_second(self) -> float:
        """At rest, after a while."""
        self.loop.run_until_complete(asyncio.sleep(SETTLES_S))
        before = self.loop.turns
        self.loop.run_until_complete(asyncio.sleep(WATCHED_S))
        return (self.loop.turns - before) / WATCHED_S

    async def write(self, topic: str) -> None:
        async with aio.Producer(self._config, clock=SimClock(self.loop)) as producer:
            for number in range(20):
                await producer.send(topic, b"v", partition=number % 2)

    async def restart(self, number: int) -> None:
        node = self.cluster.nodes[number]
        node.stop()
        await self.cluster.until(lambda: not node.running, 60)
        node.start()
        await self.cluster.until(lambda: node.broker is not None, 60)


async def _telling(work: Awaitable[None], done: "asyncio.Future[None]") -> None:
    try:
        await work
    except BaseException as error:  # noqa: BLE001  (raised by whoever waits)
        done.set_exception(error)
    else:
        done.set_result(None)


def create(*names: str) -> Change:
    return lambda admin, _: admin.create_topics(dict.fromkeys(names, 2), replication_factor=3)


def delete(*names: str) -> Change:
    return lambda admin, _: admin.delete_topics(names)


def write(name: str) -> Change:
    return lambda _, world: world.write(name)


def grow(name: str, total: int) -> Change:
    return lambda admin, _: admin.add_partitions(name, total)


def move(name: str, *replicas: int) -> Change:
    return lambda admin, _: admin.reassign({TopicPartition(name, 0): replicas})


def elect() -> Change:
    return lambda admin, _: admin.elect_leaders()


def configure(name: str) -> Change:
    return lambda admin, _: admin.alter_topic_configs(name, {"retention.ms": "60000"})


def cut(name: str) -> Change:
    return lambda admin, _: admin.delete_records({TopicPartition(name, 0): 5})


def restart(number: int) -> Change:
    return lambda _, world: world.restart(number)


HISTORIES: dict[str, list[Change]] = {
    "nothing": [],
    "created": [create("a")],
    "created, deleted": [create("a"), delete("a")],
    "created, deleted, another created": [create("a"), delete("a"), create("b")],
    "written, deleted, created again": [create("a"), write("a"), delete("a"), create("a")],
    "one of two deleted": [create("a", "b"), write("a"), delete("a"), write("b")],
    "grown": [create("a"), write("a"), grow("a", 7), delete("a"), create("b")],
    "moved": [create("a"), write("a"), move("a", 1, 2), move("a", 3, 2), delete("a"), create("b")],
    "configured, cut": [create("a"), write("a"), configure("a"), cut("a")],
    "elected": [create("a"), write("a"), restart(1), elect()],
    "deleted during a restart": [create("a"), restart(2), delete("a"), restart(3), create("b")],
}


@pytest.fixture
def loop() -> Iterator[SimLoop]:
    with _from_the_seed_alone(3), _quiet_burial():
        loop = SimLoop(3)
        try:
            yield loop
        finally:
            loop.forget_the_dead()
            loop.close()


@pytest.mark.parametrize("changes", HISTORIES.values(), ids=HISTORIES)
def test_brokers_at_rest_do_next_to_nothing(loop: SimLoop, changes: list[Change]):
    world = World(loop)
    for change in changes:
        world.do(change)
    turns = world.turns_a_second()
    assert turns < QUIET, f"{turns:.0f} turns a second:\n{world.story.text()}"
    assert loop.failures == []
