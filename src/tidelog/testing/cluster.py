"""A cluster of broker processes for a test, which it can take apart.

    def test_failover(tidelog_cluster):
        cluster = tidelog_cluster(3)
        topic = cluster.topic("orders", partitions=1)       # a replica on every broker
        cluster.produce(topic, "a")
        cluster.broker_of(topic, 0).kill()
        cluster.produce(topic, "b")                          # another leads now

The brokers are `ChildBroker`s on one metastore, each with its own faults.  A cluster belongs to one test.
"""

import contextlib
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Self

from tidelog.errors import UnknownTopicOrPartition
from tidelog.names import TopicPartition
from tidelog.testing.child_broker import ChildBroker
from tidelog.testing.faults import Faults
from tidelog.testing.fixture import Stage, seconds_of, texts_of

if TYPE_CHECKING:
    from tidelog.client.admin import PartitionDescription

_LOOK_AGAIN_S = 0.02
_PATIENCE_S = 30.0
_ANSWER_MS = "3000"


class ClusterBroker(ChildBroker):
    """One broker of a cluster."""

    def __init__(self, broker_id: int, metastore: Path, settings: Mapping[str, str]) -> None:
        own = {"broker.id": str(broker_id), "metastore": f"sqlite:{metastore}"}
        super().__init__({**settings, **own})
        self.id = broker_id
        self.faults = Faults(self)


class Cluster(Stage):
    """Brokers 0 to n - 1, and what a test does with them."""

    def __init__(
        self, brokers: int, settings: Mapping[str, str] | None = None, suffix: str = "test"
    ) -> None:
        if brokers < 1:
            raise ValueError(f"a cluster of {brokers} brokers?")
        super().__init__(suffix)
        self._directory = Path(tempfile.mkdtemp(prefix="tidelog-cluster-"))
        replicas = str(min(3, brokers))
        given = {
            "default.replication.factor": replicas,
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.replication.factor": replicas,
            "broker.session.timeout.ms": "6000",  # a broker that hangs is noticed sooner
            "broker.heartbeat.interval.ms": "1000",
            "replica.lag.time.max.ms": "6000",
            **(settings or {}),
        }
        self.brokers = [
            ClusterBroker(each, self._directory / "metadata.db", given) for each in range(brokers)
        ]

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers, with commas."""
        return ",".join(each.bootstrap for each in self.brokers)

    def start(self) -> Self:
        """Start all brokers, and return when each knows of all."""
        try:
            with ThreadPoolExecutor(len(self.brokers)) as pool:
                list(pool.map(lambda each: each.start(), self.brokers))
            self._until(
                lambda: len(self.admin.describe_cluster().brokers) == len(self.brokers),
                "all brokers are known",
            )
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """End all brokers and remove what they have written."""
        self.close_clients()
        for each in self.brokers:
            each.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    # ------------------------------------------------------------------ topics and leaders

    def topic(
        self,
        word: str = "topic",
        partitions: int | None = None,
        *,
        replication_factor: int | None = None,
        configs: Mapping[str, object] | None = None,
    ) -> str:
        """The name of a topic, made when it is first asked for, with one partition and a replica on every broker unless told.

        Asked for again with more partitions, it grows.
        """
        if word in self._topics:
            name = self._again(word, partitions, configs)
        else:
            name = self.name(word)
            total, given = partitions or 1, texts_of(configs)
            self.admin.create_topics(
                {name: total},
                replication_factor=replication_factor or len(self.brokers),
                configs=given,
            )
            self._topics[word] = name
            self._made[word] = (total, given)
        self._until(lambda: self._known(name, self._made[word][0]), f"all brokers know {name}")
        return name

    def leader(self, topic: str, partition: int = 0) -> int | None:
        """The id of the broker that leads a partition; None while there is none."""
        leader = self._partition(topic, partition).leader
        return leader if leader >= 0 else None

    def broker_of(self, topic: str, partition: int = 0) -> ClusterBroker:
        """The broker that leads a partition; waits until there is one."""
        self._until(
            lambda: self.leader(topic, partition) is not None, f"{topic}-{partition} is led"
        )
        leader = self.leader(topic, partition)
        assert leader is not None
        return self.brokers[leader]

    def in_sync(self, topic: str, partition: int = 0) -> list[int]:
        """The ids of the brokers that have all of a partition."""
        return sorted(self._partition(topic, partition).isr)

    def wait_in_sync(self, topic: str, partition: int = 0, *, timeout: float = _PATIENCE_S) -> None:
        """Return when every replica has all of a partition."""
        self._until(
            lambda: (
                len(self.in_sync(topic, partition))
                == len(self._partition(topic, partition).replicas)
            ),
            f"all replicas of {topic}-{partition} are in sync",
            timeout,
        )

    def move_leader(self, topic: str, partition: int = 0, to: int | None = None) -> int:
        """Have another replica lead a partition, or the one that is named; returns when it does, with its id."""
        now = self._partition(topic, partition)
        others = [each for each in now.replicas if each != now.leader]
        target = to if to is not None else next(iter(others), None)
        if target is None or target not in now.replicas:
            raise ValueError(
                f"{topic}-{partition} is on broker {', '.join(map(str, now.replicas))}; "
                "none other can lead it"
            )
        tp = TopicPartition(topic, partition)
        self.wait_in_sync(topic, partition)
        order = [target, *(each for each in now.replicas if each != target)]
        self.admin.alter_partition_reassignments({tp: order})
        self.admin.elect_leaders([tp])
        self._until(lambda: self.leader(topic, partition) == target, f"broker {target} leads {tp}")
        return target

    # ------------------------------------------------------------------ time

    def advance(self, **time: float) -> None:
        """Put the time of all running brokers forward, one after the other: `advance(minutes=10)`."""
        for each in self.brokers:
            if each.running:
                each.call("advance", seconds=seconds_of(**time))

    # ------------------------------------------------------------------ inside

    def _config(self) -> dict[str, str]:
        # A broker that hangs must not hold up what the others can answer.
        impatient = ("request.timeout.ms", "socket.connection.setup.timeout.ms")
        return {**super()._config(), **dict.fromkeys(impatient, _ANSWER_MS)}

    def _known(self, topic: str, partitions: int) -> bool:
        """Whether every broker that runs knows the topic, and a leader of each partition."""
        told = [each.call("leaders", topic=topic) for each in self.brokers if each.running]
        return all(len(each) == partitions and min(each) >= 0 for each in told)

    def _partition(self, topic: str, partition: int) -> "PartitionDescription":
        return self.admin.describe_topics([topic])[topic].partitions[partition]

    def _until(self, holds: Callable[[], bool], what: str, timeout: float = _PATIENCE_S) -> None:
        deadline = time.monotonic() + timeout
        while True:
            with contextlib.suppress(UnknownTopicOrPartition):  # a broker that is behind
                if holds():
                    return
            if time.monotonic() > deadline:
                raise TimeoutError(f"after {timeout:g} s it is not so that {what}")
            time.sleep(_LOOK_AGAIN_S)
