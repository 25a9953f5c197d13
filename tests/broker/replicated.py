"""Partitions with other replicas on the hot path's broker, whose followers the test plays."""

from types import SimpleNamespace

from hot_path import TOPIC_ID, HotPath, fetch_request

from tidelog.cluster.image import Broker, Image, PartitionState
from tidelog.cluster.partition import Partition
from tidelog.cluster.replication_config import RACK_AWARE_SELECTOR
from tidelog.cluster.surroundings import Surroundings
from tidelog.names import TopicPartition
from tidelog.protocol.messages.fetch import ReplicaState
from tidelog.storage.config import LogConfig
from tidelog.storage.files import LocalFiles
from tidelog.storage.log import Log

VERSION = 17


class ReplicatedPath(HotPath):
    """Broker 1 of three; partition 0 of `events` has all of them as replicas, and broker 1 leads in epoch 3."""

    def __init__(self, directory, **config) -> None:
        super().__init__(directory, partitions=0)
        self.proposals: list[Partition] = []
        self.cuts: list[int] = []
        racks = {1: "a", 2: "b", 3: "c"}
        self.image = Image(
            brokers={each: Broker(each, 10 + each, (), rack) for each, rack in racks.items()}
        )
        self.services.image = lambda: self.image
        self.services.settings = SimpleNamespace(
            broker=SimpleNamespace(fetch_max_bytes=50_000_000, rack="a"),
            replication=SimpleNamespace(
                selector_class=RACK_AWARE_SELECTOR, leader_throttled_rate=1 << 62
            ),
        )
        log = Log.open(
            str(directory / "events-0"),
            files=LocalFiles(),
            config=LogConfig(**config),
            clock=self.clock,
            topic_partition=TopicPartition("events", 0),
        )
        self.replica = Partition(
            "events", 0, TOPIC_ID, log, flusher=self.flusher,
            surroundings=Surroundings(
                broker_id=1,
                now_ms=lambda: int(self.clock.monotonic() * 1000),
                max_lag_ms=lambda: 10_000,
                eligible=lambda broker_id, epoch: epoch in (-1, 10 + broker_id),
                propose=self.proposals.append,
                truncated=lambda log, offset: self.cuts.append(offset),
            ),
        )  # fmt: skip
        self.services.partitions.add(self.replica)
        self.lead()

    def state(self, leader=1, epoch=3, partition_epoch=0, isr=(1, 2, 3), replicas=(1, 2, 3)):
        return PartitionState(leader, epoch, partition_epoch, replicas, isr)

    def lead(self, **state) -> None:
        self.replica.become_leader(self.state(**state))
        self.services.partitions.role_changed(self.replica)

    def follow(self, leader=2, epoch=4, **state) -> None:
        self.replica.become_follower(self.state(leader, epoch, **state))
        self.services.partitions.role_changed(self.replica)

    async def fetched_by(self, broker_id: int, offset: int, *, epoch=3, last_epoch=-1, **rest):
        """The answer to a follower's fetch, for its one partition."""
        response = await self.ask(replica_fetch(broker_id, offset, epoch, last_epoch, **rest), 17)
        assert response.error_code == 0
        found = [each for topic in response.responses for each in topic.partitions]
        return found[0] if found else None


def replica_fetch(broker_id: int, offset: int, epoch=3, last_epoch=-1, broker_epoch=None, **rest):
    request = fetch_request(offset, version=VERSION, current_leader_epoch=epoch, **rest)
    own = 10 + broker_id if broker_epoch is None else broker_epoch
    request.replica_state = ReplicaState(replica_id=broker_id, replica_epoch=own)
    for topic in request.topics:
        for each in topic.partitions:
            each.last_fetched_epoch = last_epoch
            each.log_start_offset = 0
    return request
