"""A simulated cluster: hosts with a disk and a clock, on which real brokers live and die.

    cluster = SimCluster(loop, story, brokers=3)
    await cluster.start()
    cluster.nodes[1].kill()                 as kill -9: the page cache stays
    cluster.nodes[1].cut_power()            what was not synced is lost or torn
    cluster.nodes[1].start()                a new process on what is left

A node that was started and could not come up is started again, as a supervisor does.  The cleaner is off, because it is
a process of its own.
"""

import asyncio
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.settings import BrokerSettings
from tidelog.errors import StartError
from tidelog.metastore.memory import MemoryStore

from .disk import SimDisk
from .loop import Process, SimLoop
from .network import SimNetwork
from .store import STORE, SimMetastore
from .story import Story

PORT = 9092
_EPOCH_MS = 1_700_000_000_000
_START_AGAIN_S = 0.5

SETTINGS = {
    "log.cleaner.enable": "false",
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "400",
    "replica.leader.silence.max.ms": "1200",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "auto.create.topics.enable": "false",
    "log.segment.bytes": "20000",
    "log.flush.offset.checkpoint.interval.ms": "3000",
    "log.flush.start.offset.checkpoint.interval.ms": "3000",
    "replica.high.watermark.checkpoint.interval.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
    "log.retention.check.interval.ms": "5000",
    "queued.max.request.bytes": "1000000",
}
"""Small numbers, so that much happens in little time; a run may change them."""


class SimClock:
    """A host's clocks: the wall clock may be wrong and may step, the other follows the loop."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self.off_ms = 0.0
        self.drift = 0.0

    def now_ms(self) -> int:
        return int(_EPOCH_MS + self.off_ms + self._loop.time() * 1000 * (1 + self.drift))

    def monotonic(self) -> float:
        return self._loop.time()


class Node:
    """A host for one broker, through all its lives."""

    def __init__(self, cluster: "SimCluster", broker_id: int, settings: Mapping[str, str]) -> None:
        self.broker_id = broker_id
        self.host = f"b{broker_id}"
        self._chance = cluster.loop.chance_for(self.host)
        self.disk = SimDisk(self._chance)
        self.clock = SimClock(cluster.loop)
        self.settings = dict(settings)
        self.log_dirs = self.settings["log.dirs"].split(",")
        self.process: Process | None = None
        self.broker: Broker | None = None
        """Of the present life, once it serves."""
        self.accept_empty = False
        """Whether the next process may begin on an empty disk."""
        self.wanted = False
        """Whether it is to run: it is then started again should it end by itself."""
        self.lives = 0
        self.boots = 1
        self._failed_starts = 0
        self._cluster = cluster

    @property
    def running(self) -> bool:
        return self.process is not None

    @property
    def paused(self) -> bool:
        return self.process is not None and self.process.paused

    def start(self) -> None:
        """Start a process; `broker` is there when it serves."""
        assert self.process is None
        cluster = self._cluster
        cluster.network.power_on(self.host)
        self.wanted = True
        self.lives += 1
        self.process = process = Process(self.host, f"{self.host}#{self.lives}")
        cluster.story.tell(process.name, "starts")
        cluster.loop.start(process, self._live(process))

    async def _live(self, process: Process) -> None:
        cluster = self._cluster
        broker = Broker(
            BrokerSettings.load(self.settings),
            clock=self.clock,
            files=self.disk,
            metastore=SimMetastore(cluster.store, self.clock, cluster.network, self.host),
            network=cluster.network.open_socket,
            random=Random(self._chance.getrandbits(64)),
            boot_id=f"boot {self.boots}",
            accept_empty=self.accept_empty,
        )
        try:
            await broker.start()
        except StartError as error:
            cluster.story.tell(process.name, f"does not start: {error}")
            self._failed_starts += 1
            cluster.loop.call_later(
                _START_AGAIN_S * min(self._failed_starts, 8),
                self._start_again,
                process,
                context=cluster.network.context,
            )
            return
        self.broker = broker
        self.accept_empty = False
        self._failed_starts = 0
        cluster.story.tell(process.name, "serves")
        await broker.ended.wait()
        cluster.story.tell(process.name, "has ended by itself")
        cluster.loop.call_soon(self._start_again, process, context=cluster.network.context)

    def _start_again(self, process: Process) -> None:
        if self.process is process:
            self._end()
            if self.wanted:
                self.start()

    def kill(self) -> None:
        """As kill -9."""
        if self.process is not None:
            self.wanted = False
            self._cluster.story.tell(self.process.name, "is killed")
            self._end()

    def cut_power(self) -> None:
        """The host loses its power, and with it what was not synced."""
        self.wanted = False
        lost = self.disk.unsynced()
        self._cluster.story.tell(self.host, f"loses its power, with {lost} bytes not synced")
        self._cluster.network.power_off(self.host)
        if self.process is not None:
            self._end()
        self.disk.cut_power()
        self.boots += 1

    def stop(self) -> None:
        """As SIGTERM: in good order; the process is gone some time later."""
        broker, process = self.broker, self.process
        if broker is None or process is None:
            self.kill()
            return
        self.wanted = False
        self.broker = None
        self._cluster.story.tell(process.name, "is told to stop")

        async def stop() -> None:
            await broker.stop()
            self._cluster.story.tell(process.name, "has stopped")
            self._cluster.loop.call_soon(
                self._stopped, process, context=self._cluster.network.context
            )

        self._cluster.loop.start(process, stop())

    def _stopped(self, process: Process) -> None:
        if self.process is process:
            self._end()

    def pause(self) -> None:
        if self.process is not None:
            self._cluster.story.tell(self.process.name, "is paused")
            self._cluster.loop.pause(self.process)

    def resume(self) -> None:
        if self.process is not None and self.process.paused:
            self._cluster.story.tell(self.process.name, "goes on")
            self._cluster.loop.resume(self.process)

    def _end(self) -> None:
        process, self.process, self.broker = self.process, None, None
        assert process is not None
        self._cluster.loop.kill(process)
        self._cluster.network.process_died(process)
        self.disk.process_died()


class SimCluster:
    """The nodes, what they share, and the hosts of clients."""

    def __init__(
        self,
        loop: SimLoop,
        story: Story,
        *,
        brokers: int,
        settings: Mapping[str, str] | None = None,
        log_dirs: int = 1,
    ) -> None:
        self.loop = loop
        self._log_dirs = log_dirs
        self.story = story
        self.network = SimNetwork(loop)
        self.store = MemoryStore()
        self.nodes: dict[int, Node] = {}
        self._settings = dict(settings or {})
        for broker_id in range(1, brokers + 1):
            self.add(broker_id)

    def add(self, broker_id: int) -> Node:
        """A new host; nothing runs on it yet."""
        host = f"b{broker_id}"
        settings = {
            **SETTINGS,
            **self._settings,
            "broker.id": str(broker_id),
            "log.dirs": ",".join(f"/{host}/{each}" for each in range(self._log_dirs)),
            "broker.rack": f"r{broker_id % 3}",
            "listeners": f"PLAINTEXT://{host}:{PORT}",
            "advertised.listeners": f"PLAINTEXT://{host}:{PORT}",
        }
        node = self.nodes[broker_id] = Node(self, broker_id, settings)
        return node

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{node.host}:{PORT}" for node in self.nodes.values())

    @property
    def hosts(self) -> list[str]:
        return [node.host for node in self.nodes.values()] + [STORE]

    async def start(self) -> None:
        """Start every node, and wait until all serve."""
        for node in self.nodes.values():
            node.start()
        await self.until(lambda: all(node.broker is not None for node in self.nodes.values()), 60)

    async def until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until something holds; False when it does not in time."""
        deadline = self.loop.time() + timeout_s
        while not condition():
            if self.loop.time() >= deadline:
                return False
            await asyncio.sleep(0.05)
        return True

    def client(self, name: str, work: Any) -> Process:
        """Run a coroutine as a process on a host of its own."""
        process = Process(name)
        self.loop.start(process, work)
        return process
