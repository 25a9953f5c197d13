"""Three whole brokers of one metastore, on real sockets: any of them takes any request."""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from hot_path import batch, produce_request

from tidelog import aio
from tidelog.broker.broker import Broker
from tidelog.broker.settings import BrokerSettings
from tidelog.client.connection import Connection
from tidelog.clock import SystemClock
from tidelog.cluster.image import Delta, Image
from tidelog.errors import (
    BrokerIdNotRegistered,
    ElectionNotNeeded,
    InconsistentClusterId,
    InvalidReplicaAssignment,
    InvalidRequest,
    NetworkException,
    NoReassignmentInProgress,
    NotController,
    NotLeaderOrFollower,
    PrincipalDeserializationFailure,
    StaleBrokerEpoch,
    StartError,
    ThrottlingQuotaExceeded,
    UnknownTopicOrPartition,
)
from tidelog.metastore.memory import MemoryMetastore, MemoryStore
from tidelog.protocol.frame import LENGTH_BYTES, encode_request
from tidelog.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from tidelog.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tidelog.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from tidelog.protocol.messages.broker_registration import BrokerRegistrationRequest
from tidelog.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tidelog.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tidelog.protocol.messages.describe_cluster import DescribeClusterRequest
from tidelog.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from tidelog.protocol.messages.envelope import EnvelopeRequest
from tidelog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tidelog.protocol.messages.init_producer_id import InitProducerIdRequest
from tidelog.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tidelog.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from tidelog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tidelog.protocol.messages.unregister_broker import UnregisterBrokerRequest
from tidelog.storage.files import Files, LocalFiles
from tidelog.testing.faulty_files import Fault, FaultyFiles, Point

QUICK = {
    "broker.session.timeout.ms": "60000",
    "broker.heartbeat.interval.ms": "20",
    "offsets.topic.num.partitions": "2",
    "log.cleaner.enable": "false",
}


class Cluster:
    """Brokers in this process."""

    def __init__(self, directory: Path) -> None:
        self.store = MemoryStore()
        self._directory = directory
        self.brokers: dict[int, Broker] = {}
        self._connections: dict[int, Connection] = {}

    def make(self, number: int, **more: str) -> Broker:
        given = {
            **QUICK,
            "broker.id": str(number),
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": str(self._directory / str(number)),
            **more,
        }
        return Broker(
            BrokerSettings.load(given),
            metastore=MemoryMetastore(self.store, SystemClock()),
            files=self._files(number),
        )

    def _files(self, number: int) -> Files:
        return LocalFiles()

    async def start(self, *numbers: int) -> None:
        for number in numbers:
            self.brokers[number] = self.make(number)
        await asyncio.gather(*(self.brokers[number].start() for number in numbers))
        for number in numbers:
            host, port = self.brokers[number].addresses[0]
            self._connections[number] = await Connection.open(
                host, port, client_id="tester", timeout_s=10
            )

    async def ask(self, number: int, request: Any) -> Any:
        return await self._connections[number].ask(request, timeout_s=30)

    async def stop(self, *numbers: int) -> None:
        for number in numbers:
            self._connections.pop(number).close()
        await asyncio.gather(*(self.brokers.pop(number).stop() for number in numbers))

    @property
    def controller(self) -> int:
        assert self.store.leader is not None
        return self.store.leader.member

    @property
    def others(self) -> list[int]:
        return [each for each in self.brokers if each != self.controller]

    async def create(self, number: int, name: str, partitions: int = 3, factor: int = 3) -> Any:
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor)
        return (await self.ask(number, CreateTopicsRequest(topics=[topic]))).topics[0]

    async def partitions(self, number: int, name: str) -> list[Any]:
        """As a broker tells them."""
        wanted = [MetadataRequestTopic(name=name)]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        return (await self.ask(number, request)).topics[0].partitions

    async def until(self, hope: Callable[[], Any]) -> None:
        async with asyncio.timeout(60):
            while not await hope():  # noqa: ASYNC110  (over the wire nobody rings)
                await asyncio.sleep(0.01)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    made = Cluster(tmp_path)
    await made.start(0, 1, 2)
    yield made
    await made.stop(*made.brokers)


async def test_everybody_tells_the_same(cluster: Cluster):
    for number in cluster.brokers:
        told = await cluster.ask(number, DescribeClusterRequest())
        assert told.controller_id == cluster.controller
        assert sorted(each.broker_id for each in told.brokers) == [0, 1, 2]
        assert {(each.host, each.port) for each in told.brokers} == {
            tuple(broker.addresses[0]) for broker in cluster.brokers.values()
        }
        metadata = await cluster.ask(number, MetadataRequest(topics=None))
        assert metadata.controller_id == cluster.controller
        assert len(metadata.brokers) == 3


async def test_a_client_need_not_find_the_controller(cluster: Cluster):
    asked = cluster.others[0]
    made = await cluster.create(asked, "orders")
    assert (made.error_code, made.num_partitions, made.replication_factor) == (0, 3, 3)
    states = await cluster.partitions(asked, "orders")  # it is there, where it was asked for
    assert sorted(each.leader_id for each in states) == [0, 1, 2]
    assert (await cluster.create(asked, "orders")).error_code == 36  # exists
    alter = IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=4,
                resource_name=str(cluster.controller),
                configs=[AlterableConfig(name="num.partitions", value="7")],
            )
        ]
    )
    (altered,) = (await cluster.ask(asked, alter)).responses
    assert altered.error_code == 0
    gone = DeleteTopicsRequest(topics=[DeleteTopicState(name="orders")])
    assert (await cluster.ask(asked, gone)).responses[0].error_code == 0
    wanted = [MetadataRequestTopic(name="orders")]
    request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
    (topic,) = (await cluster.ask(asked, request)).topics
    assert topic.error_code == UnknownTopicOrPartition.code


async def test_a_topic_is_made_when_it_is_first_asked_for_anywhere(cluster: Cluster):
    request = MetadataRequest(topics=[MetadataRequestTopic(name="new")])
    for number in cluster.brokers:
        (topic,) = (await cluster.ask(number, request)).topics
        assert topic.error_code == 0


async def test_producer_ids_come_from_one_place(cluster: Cluster):
    given = [
        (await cluster.ask(number, InitProducerIdRequest(transactional_id=None))).producer_id
        for number in [*cluster.brokers, *cluster.brokers]
    ]
    assert len(set(given)) == 6


async def test_a_broker_that_stops_is_not_missed(cluster: Cluster):
    await cluster.create(0, "orders")
    leaving = cluster.controller
    await cluster.stop(leaving)
    for number in cluster.brokers:

        async def known(number: int = number) -> bool:
            states = await cluster.partitions(number, "orders")
            return all(
                leaving not in [each.leader_id, *each.isr_nodes] and each.leader_id >= 0
                for each in states
            )

        await cluster.until(known)
    number = next(iter(cluster.brokers))

    async def fenced() -> bool:
        told = await cluster.ask(number, DescribeClusterRequest(include_fenced_brokers=True))
        return [each.broker_id for each in told.brokers if each.is_fenced] == [leaving]

    await cluster.until(fenced)
    assert len((await cluster.ask(number, DescribeClusterRequest())).brokers) == 2
    assert (await cluster.ask(number, MetadataRequest(topics=[]))).controller_id != leaving
    await cluster.start(leaving)

    async def in_sync() -> bool:
        states = await cluster.partitions(leaving, "orders")
        return all(len(each.isr_nodes) == 3 for each in states)

    await cluster.until(in_sync)


async def test_a_session_that_is_lost_costs_no_restart(cluster: Cluster):
    await cluster.create(0, "orders")
    for number in (cluster.others[0], cluster.controller):
        before = {each: cluster.store.leases[each][0].token for each in cluster.brokers}
        del cluster.store.leases[number]  # as when its time had run out
        cluster.store.wakeups.ring()

        async def back(number: int = number, before: dict[int, str] = before) -> bool:
            lease = cluster.store.leases.get(number)
            if lease is None or lease[0].token == before[number]:
                return False
            told = await cluster.ask(cluster.others[0], DescribeClusterRequest())
            states = await cluster.partitions(cluster.others[0], "orders")
            return len(told.brokers) == 3 and all(len(each.isr_nodes) == 3 for each in states)

        await cluster.until(back)
    assert (await cluster.create(0, "later")).error_code == 0


async def test_a_leader_out_of_touch_does_not_answer_as_one(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
):
    """The metastore is silent: it goes on while those in sync fetch from it, and then another may lead."""
    await cluster.create(0, "orders", 1)
    leader = (await cluster.partitions(cluster.controller, "orders"))[0].leader_id
    request = produce_request(batch(b"one"), topic="orders", timeout_ms=30_000)

    async def written() -> bool:
        answer = await cluster.ask(leader, request)
        return answer.responses[0].partition_responses[0].error_code == 0

    await cluster.until(written)
    assert (await answers(cluster, leader)) == (leader, 0, 0, 0)
    member = cluster.brokers[leader]._member
    assert member is not None
    monkeypatch.setattr(member, "_renew_lease", lambda: None)
    member.lease.until = -math.inf  # as when no sign of life had reached the metastore for long
    assert (await answers(cluster, leader)) == (leader, 0, 0, 0), "its followers are there"
    for each in cluster.brokers:
        if each != leader:
            replication = cluster.brokers[each]._replication
            assert replication is not None
            await replication.stop()

    async def silent() -> bool:
        return (await answers(cluster, leader))[0] == -1

    await cluster.until(silent)
    code = NotLeaderOrFollower.code
    assert (await answers(cluster, leader)) == (-1, code, code, code)


async def answers(cluster: Cluster, number: int) -> tuple[int, int, int, int]:
    """Who leads `orders`, by Metadata; and what Fetch, ListOffsets and OffsetForLeaderEpoch say."""
    (state,) = await cluster.partitions(number, "orders")
    member = cluster.brokers[number]._member
    assert member is not None
    topic_id = member.tail.image.topics["orders"].id
    fetched = await cluster.ask(
        number,
        FetchRequest(
            max_wait_ms=0,
            topics=[
                FetchTopic(topic_id=topic_id, partitions=[FetchPartition(partition_max_bytes=100)])
            ],
        ),
    )
    listed = await cluster.ask(
        number,
        ListOffsetsRequest(
            topics=[ListOffsetsTopic(name="orders", partitions=[ListOffsetsPartition()])]
        ),
    )
    ended = await cluster.ask(
        number,
        OffsetForLeaderEpochRequest(
            topics=[OffsetForLeaderTopic(topic="orders", partitions=[OffsetForLeaderPartition()])]
        ),
    )
    return (
        state.leader_id,
        fetched.responses[0].partitions[0].error_code,
        listed.topics[0].partitions[0].error_code,
        ended.topics[0].partitions[0].error_code,
    )


async def test_a_broker_whose_picture_stands_still_ends(cluster: Cluster):
    """It would go on leading, with a session that lives, what others lead by now."""
    await cluster.create(0, "orders")
    gone = cluster.others[0]
    broker = cluster.brokers[gone]

    def broken(image: Image, delta: Delta) -> None:
        raise LookupError("a listener of the image has failed")

    assert broker._member is not None
    broker._member.tail.subscribe(broken)
    await cluster.create(cluster.controller, "later", factor=1)
    await asyncio.wait_for(broker.ended.wait(), 60)
    assert gone not in cluster.store.leases, "its session is over at once"
    del cluster._connections[gone]
    await cluster.brokers.pop(gone).stop()

    async def handed_over() -> bool:
        states = await cluster.partitions(cluster.controller, "orders")
        return all(each.leader_id not in (gone, -1) for each in states)

    await cluster.until(handed_over)
    await cluster.start(gone)
    assert not cluster.brokers[gone].ended.is_set()


async def test_leaders_by_hand(cluster: Cluster):
    await cluster.create(0, "orders", 1)
    asked = cluster.others[0]
    wanted = [TopicPartitions(topic="orders", partitions=[0, 9])]
    told = await cluster.ask(asked, ElectLeadersRequest(topic_partitions=wanted))
    codes = [each.error_code for each in told.replica_election_results[0].partition_result]
    assert codes == [ElectionNotNeeded.code, UnknownTopicOrPartition.code]
    told = await cluster.ask(asked, ElectLeadersRequest(topic_partitions=None))
    assert (told.error_code, told.replica_election_results) == (0, [])
    told = await cluster.ask(asked, ElectLeadersRequest(election_type=7))
    assert told.error_code == InvalidRequest.code


async def test_a_move_from_beginning_to_end(cluster: Cluster):
    asked = cluster.others[0]
    topic = CreatableTopic(name="orders", num_partitions=1, replication_factor=1)
    await cluster.ask(asked, CreateTopicsRequest(topics=[topic]))
    (state,) = await cluster.partitions(asked, "orders")
    target = [each for each in range(3) if each != state.leader_id]

    def move(replicas: list[int] | None, index: int = 0) -> AlterPartitionReassignmentsRequest:
        partition = ReassignablePartition(partition_index=index, replicas=replicas)
        return AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic(name="orders", partitions=[partition])]
        )

    async def code(request: AlterPartitionReassignmentsRequest) -> int:
        return (await cluster.ask(asked, request)).responses[0].partitions[0].error_code

    assert await code(move(None)) == NoReassignmentInProgress.code
    assert await code(move([8])) == InvalidReplicaAssignment.code
    assert await code(move([1], index=5)) == UnknownTopicOrPartition.code
    assert await code(move(target)) == 0

    async def moved() -> bool:
        (now,) = await cluster.partitions(asked, "orders")
        return now.replica_nodes == target and sorted(now.isr_nodes) == sorted(target)

    await cluster.until(moved)
    listed = await cluster.ask(asked, ListPartitionReassignmentsRequest(topics=None))
    assert (listed.error_code, listed.topics) == (0, [])


@pytest.mark.parametrize("side", ["leader", "follower"])
async def test_a_move_is_throttled_by_either_side(cluster: Cluster, side: str):
    """Takes at least as long as it must; a slow machine may take longer."""
    rate, size, count = 1_000_000, 100_000, 50
    replicas = [CreatableTopicConfig(name=f"{side}.replication.throttled.replicas", value="*")]
    topic = CreatableTopic(name="stock", num_partitions=1, replication_factor=1, configs=replicas)
    await cluster.ask(cluster.controller, CreateTopicsRequest(topics=[topic]))
    (state,) = await cluster.partitions(cluster.controller, "stock")
    limit = AlterConfigsResource(
        resource_type=4,
        resource_name="",
        configs=[AlterableConfig(name=f"{side}.replication.throttled.rate", value=str(rate))],
    )
    told = await cluster.ask(cluster.controller, IncrementalAlterConfigsRequest(resources=[limit]))
    assert told.responses[0].error_code == 0
    request = produce_request(batch(bytes(size)), topic="stock", timeout_ms=30_000)

    async def written() -> bool:
        answer = await cluster.ask(state.leader_id, request)
        return answer.responses[0].partition_responses[0].error_code == 0

    for _ in range(count):
        await cluster.until(written)  # the leader may not know yet that it is one
    target = [each for each in range(3) if each != state.leader_id][:1]
    partition = ReassignablePartition(partition_index=0, replicas=target)
    topics = [ReassignableTopic(name="stock", partitions=[partition])]
    start = time.monotonic()
    await cluster.ask(cluster.controller, AlterPartitionReassignmentsRequest(topics=topics))

    async def moved() -> bool:
        (now,) = await cluster.partitions(cluster.controller, "stock")
        return now.replica_nodes == target and now.isr_nodes == target

    await cluster.until(moved)
    # Five seconds' worth, of which one may have been saved up, and one fetch of a megabyte may overdraw.
    assert time.monotonic() - start > 2


async def test_brokers_are_forgotten_only_when_they_are_gone(cluster: Cluster):
    asked = cluster.others[0]
    told = await cluster.ask(asked, UnregisterBrokerRequest(broker_id=9))
    assert told.error_code == BrokerIdNotRegistered.code
    told = await cluster.ask(asked, UnregisterBrokerRequest(broker_id=asked))
    assert told.error_code == InvalidRequest.code
    assert "running" in told.error_message
    leaving = cluster.others[1]
    await cluster.stop(leaving)

    async def forgotten() -> bool:
        told = await cluster.ask(asked, UnregisterBrokerRequest(broker_id=leaving))
        return told.error_code == 0

    await cluster.until(forgotten)  # as soon as it is fenced
    told = await cluster.ask(asked, DescribeClusterRequest(include_fenced_brokers=True))
    assert leaving not in [each.broker_id for each in told.brokers]


async def test_an_id_in_use_is_refused(cluster: Cluster, tmp_path: Path):
    twin = cluster.make(
        1, **{"log.dirs": str(tmp_path / "twin"), "broker.session.timeout.ms": "100"}
    )
    with pytest.raises(StartError, match="broker id 1 is in use by another live broker"):
        await twin.start()
    await cluster.create(0, "orders")  # nothing has happened to the others


async def test_what_only_brokers_ask(cluster: Cluster):
    controller, other = cluster.controller, cluster.others[0]
    stranger = BrokerRegistrationRequest(broker_id=7, cluster_id="another")
    told = await cluster.ask(controller, stranger)
    assert told.error_code == InconsistentClusterId.code
    beat = BrokerHeartbeatRequest(broker_id=other, broker_epoch=10_000)
    assert (await cluster.ask(controller, beat)).error_code == StaleBrokerEpoch.code
    assert (await cluster.ask(other, beat)).error_code == NotController.code


def frame(request: Any, version: int) -> bytes:
    return bytes(encode_request(request, version, 5, "client")[LENGTH_BYTES:])


async def test_envelopes(cluster: Cluster):
    controller, other = cluster.controller, cluster.others[0]
    who = b"\0\0\5User\4bob\0\0"
    good = frame(CreateTopicsRequest(topics=[CreatableTopic(name="a", num_partitions=1)]), 7)

    async def code(number: int, data: bytes, principal: bytes = who) -> int:
        request = EnvelopeRequest(
            request_data=data, request_principal=principal, client_host_address=b"\x7f\0\0\1"
        )
        return (await cluster.ask(number, request)).error_code

    assert await code(other, good) == NotController.code
    assert await code(controller, good, b"\0\0") == PrincipalDeserializationFailure.code
    assert await code(controller, frame(MetadataRequest(), 12)) == InvalidRequest.code
    assert await code(controller, frame(EnvelopeRequest(), 0)) == InvalidRequest.code
    assert await code(controller, good) == 0


@pytest.mark.parametrize("data", [b"", b"\0\x13\0\7\0\0\0\1\xff\xff\0\xff\xff\xff\xff"])
async def test_garbage_in_an_envelope_costs_its_connection_alone(cluster: Cluster, data: bytes):
    request = EnvelopeRequest(request_data=data)
    with pytest.raises(NetworkException, match="lost"):
        await cluster.ask(cluster.controller, request)
    assert (await cluster.create(cluster.others[0], "orders")).error_code == 0


class FaultyCluster(Cluster):
    """Its disks can be told to fail."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.broken: dict[int, Fault] = {}
        """By broker what its disk does with what is to be written to a log."""

    def _files(self, number: int) -> Files:
        root = str(self._directory / str(number))
        return FaultyFiles(root, plan=lambda point: self._fault(number, point))

    def _fault(self, number: int, point: Point) -> Fault | None:
        if point.action == "write" and point.path.endswith(".log"):
            return self.broken.get(number)
        return None


@pytest.fixture
async def faulty(tmp_path: Path) -> AsyncIterator[FaultyCluster]:
    made = FaultyCluster(tmp_path)
    await made.start(0, 1, 2)
    yield made
    made.broken.clear()
    await made.stop(*made.brokers)


@pytest.mark.parametrize("fault", [Fault.NO_SPACE, Fault.IO_ERROR], ids=["full", "broken"])
async def test_a_leader_whose_disk_refuses_it_hands_on_what_others_have(
    faulty: FaultyCluster, fault: Fault
):
    cluster = faulty
    await cluster.create(cluster.controller, "t", partitions=3)
    addresses = [broker.addresses[0] for broker in cluster.brokers.values()]
    bootstrap = ",".join(f"{host}:{port}" for host, port in addresses)
    asked = cluster.controller

    async def led_by(number: int) -> list[int]:
        found = await cluster.partitions(asked, "t")
        return [each.partition_index for each in found if each.leader_id == number]

    async def all_in_sync() -> bool:
        return all(len(each.isr_nodes) == 3 for each in await cluster.partitions(asked, "t"))

    await cluster.until(all_in_sync)
    victim = cluster.others[0]
    [index] = await led_by(victim)
    async with aio.Producer(bootstrap_servers=bootstrap) as producer:
        await (await producer.send("t", b"before", partition=index))
        cluster.broken[victim] = fault
        async with asyncio.timeout(60):
            delivery = await (await producer.send("t", b"after", partition=index))
        assert delivery.offset == 1
        assert await led_by(victim) == []


async def test_the_quota_of_changes_is_the_controllers_whoever_is_asked(cluster: Cluster):
    entity = [EntityData(entity_type="client-id", entity_name="tester")]
    ops = [OpData(key="controller_mutation_rate", value=0.001)]
    quota = AlterClientQuotasRequest(entries=[EntryData(entity=entity, ops=ops)])
    one, other = cluster.others
    assert (await cluster.ask(one, quota)).entries[0].error_code == 0
    topic = CreatableTopic(name="paid", num_partitions=1, replication_factor=1)
    made = await cluster.ask(one, CreateTopicsRequest(topics=[topic]))
    assert made.topics[0].error_code == 0
    assert made.throttle_time_ms == 25_000  # it pays for it, and `one` holds it
    topic = CreatableTopic(name="refused", num_partitions=1, replication_factor=1)
    refused = await cluster.ask(other, CreateTopicsRequest(topics=[topic]))
    assert refused.topics[0].error_code == ThrottlingQuotaExceeded.code
    held = asyncio.ensure_future(cluster.ask(one, MetadataRequest()))
    await cluster.ask(cluster.controller, MetadataRequest())
    assert not held.done()
    quota.entries[0].ops[0].remove = True
    assert (await cluster.ask(cluster.controller, quota)).entries[0].error_code == 0
    await held  # every broker lets go when it hears of it
