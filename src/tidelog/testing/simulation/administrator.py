"""What an administrator does to a cluster while it is in trouble: topics, partitions, leaders, replicas, brokers.

Each deed is a short-lived client.  That it fails is nothing: the cluster is in trouble.  That it harms is what the run
looks for.
"""

from collections.abc import Awaitable, Callable
from random import Random

from tidelog import aio
from tidelog.errors import TidelogError
from tidelog.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tidelog.protocol.messages.elect_leaders import ElectLeadersRequest
from tidelog.protocol.schema import Request

from .cluster import SimClock, SimCluster
from .observer import Observer
from .workload import CLIENT

_MOST_PARTITIONS = 5
_SCRATCH = ("s0", "s1")
"""Topics that come and go; nothing is expected of them."""

Deed = Callable[[aio.Admin], Awaitable[object]]


class Administrator:
    """Does one thing at a time, chosen by chance."""

    def __init__(self, cluster: SimCluster, observer: Observer, topic: str, chance: Random) -> None:
        self._cluster = cluster
        self._observer = observer
        self._topic = topic
        self._chance = chance
        self._calls = 0

    def act(self) -> None:
        """Start something; nobody waits for it."""
        chosen = self._chance.choice(
            (self.create, self.delete, self.grow, self.elect, self.elect, self.move, self.move)
        )
        chosen()

    def create(self) -> None:
        name = self._chance.choice(_SCRATCH)
        self.create_topic(name, self._chance.randint(1, min(3, len(self._cluster.nodes))))

    def create_topic(self, name: str, factor: int) -> None:
        self._do(
            f"creates {name} with {factor} replicas",
            lambda admin: self._create_and_fill(admin, name, factor),
        )

    async def _create_and_fill(self, admin: aio.Admin, name: str, factor: int) -> None:
        """What is written is of no account, but all replicas must have the same."""
        await admin.create_topics({name: 2}, replication_factor=factor)
        config = {"bootstrap.servers": self._cluster.bootstrap, **CLIENT}
        config |= {"delivery.timeout.ms": 5_000, "max.block.ms": 2_000}
        async with aio.Producer(config, clock=SimClock(self._cluster.loop)) as producer:
            for number in range(8):
                value = f"{name} at {self._calls}: {number}".encode()
                await producer.send(name, value, partition=number % 2)

    def delete(self) -> None:
        self.delete_topic(self._chance.choice(_SCRATCH))

    def delete_topic(self, name: str) -> None:
        self._do(f"deletes {name}", lambda admin: admin.delete_topics([name]))

    def grow(self) -> None:
        topic = self._observer.image.topics.get(self._topic)
        if topic is not None and len(topic.partitions) < _MOST_PARTITIONS:
            total = len(topic.partitions) + 1
            self._do(
                f"gives {self._topic} {total} partitions",
                lambda admin: admin.add_partitions(self._topic, total),
            )

    def elect(self) -> None:
        self._ask("elects the preferred leaders", ElectLeadersRequest(topic_partitions=None))

    def move(self) -> None:
        """Move a partition to other replicas, or the same in another order."""
        topic = self._observer.image.topics.get(self._topic)
        if topic is None:
            return
        index = self._chance.randrange(len(topic.partitions))
        known = sorted(self._cluster.nodes)
        count = min(3, len(known))
        self.move_to(index, self._chance.sample(known, count))

    def move_to(self, index: int, replicas: list[int]) -> None:
        moved = ReassignablePartition(partition_index=index, replicas=replicas)
        request = AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic(name=self._topic, partitions=[moved])]
        )
        self._ask(f"moves {self._topic}-{index} to {replicas}", request)

    def _ask(self, what: str, request: Request) -> None:
        self._do(what, lambda admin: admin._cluster.ask_controller(request))

    def _do(self, what: str, deed: Deed) -> None:
        self._calls += 1
        name = f"admin{self._calls}"
        story = self._cluster.story
        story.tell(name, what)
        config = {"bootstrap.servers": self._cluster.bootstrap, "client.id": name, **CLIENT}

        async def work() -> None:
            try:
                async with aio.Admin(config) as admin:
                    await deed(admin)
            except TidelogError as error:
                story.tell(name, f"failed: {error}", detail=True)
            else:
                story.tell(name, "is done", detail=True)

        self._cluster.client(name, work())
