"""The controller's decisions about topics, and the door through which they take effect."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from itertools import count
from uuid import UUID

import pytest

from tidelog.cluster import controller as controller_module
from tidelog.cluster.controller import Controller
from tidelog.cluster.image import Topic
from tidelog.cluster.metadata import BrokerRecord
from tidelog.cluster.tail import Tail
from tidelog.cluster.topics import Created, MorePartitions, NewTopic, Rules
from tidelog.errors import (
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidTopicException,
    KafkaError,
    NotController,
    TopicAlreadyExists,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from tidelog.metastore.memory import MemoryMetastore, MemoryStore
from tidelog.testing.manual_clock import ManualClock

_numbers = count(1)


def check(configs: Mapping[str, str]) -> None:
    if "bad" in configs:
        raise InvalidConfig("bad is not a topic setting")


def rules() -> Rules:
    return Rules(
        partitions=2,
        replication_factor=1,
        check_config=check,
        new_id=lambda: UUID(int=next(_numbers)),
    )


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
async def controller(store: MemoryStore) -> AsyncIterator[Controller]:
    async with MemoryMetastore(store, ManualClock()) as metastore:
        epoch = await metastore.lead(await metastore.open_session(0, 9000))
        assert epoch is not None
        made = Controller(metastore, Tail(metastore), epoch, rules)
        for broker in range(3):
            await made.register(BrokerRecord(broker, (("PLAINTEXT", "", 9092),), None, "x"), -1)
        yield made


async def test_a_topic_gets_the_defaults(controller: Controller):
    (made,) = await controller.create_topics([NewTopic(name="orders")])
    assert isinstance(made, Created)
    assert (made.partitions, made.replication_factor) == (2, 1)
    topic = controller.image.topics["orders"]
    assert topic.id == made.topic_id
    assert all(state.leader == state.replicas[0] for state in topic.partitions)
    assert all(state.isr == state.replicas for state in topic.partitions)


async def test_an_assignment_is_kept(controller: Controller):
    given = {0: (2, 1), 1: (1, 0)}
    await controller.create_topics([NewTopic(name="orders", assignments=given)])
    states = controller.image.topics["orders"].partitions
    assert [state.replicas for state in states] == [(2, 1), (1, 0)]


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        (NewTopic(name="a/b"), InvalidTopicException),
        (NewTopic(name=".."), InvalidTopicException),
        (NewTopic(name="__cluster_metadata"), InvalidTopicException),
        (NewTopic(name="x" * 300), InvalidTopicException),
        (NewTopic(name="taken"), TopicAlreadyExists),
        (NewTopic(name="dotted_name"), InvalidTopicException),
        (NewTopic(name="t", partitions=0), InvalidPartitions),
        (NewTopic(name="t", partitions=-2), InvalidPartitions),
        (NewTopic(name="t", partitions=100_000), InvalidPartitions),
        (NewTopic(name="t", replication_factor=0), InvalidReplicationFactor),
        (NewTopic(name="t", replication_factor=4), InvalidReplicationFactor),
        (NewTopic(name="t", configs={"bad": "1"}), InvalidConfig),
        (NewTopic(name="t", partitions=1, assignments={0: (0,)}), InvalidRequest),
        (NewTopic(name="t", assignments={1: (0,)}), InvalidReplicaAssignment),
        (NewTopic(name="t", assignments={0: (0, 0)}), InvalidReplicaAssignment),
        (NewTopic(name="t", assignments={0: (9,)}), InvalidReplicaAssignment),
        (NewTopic(name="t", assignments={0: ()}), InvalidReplicaAssignment),
        (NewTopic(name="t", assignments={0: (0,), 1: (0, 1)}), InvalidReplicaAssignment),
    ],
)
async def test_what_cannot_be_made(
    controller: Controller, wanted: NewTopic, error: type[KafkaError]
):
    await controller.create_topics([NewTopic(name="taken"), NewTopic(name="dotted.name")])
    outcome, other = await controller.create_topics([wanted, NewTopic(name="good")])
    assert isinstance(outcome, error)
    assert isinstance(other, Created)
    assert controller.image.topics.keys() == {"taken", "dotted.name", "good"}


async def test_validation_makes_nothing(controller: Controller):
    (made,) = await controller.create_topics([NewTopic(name="orders")], validate_only=True)
    assert isinstance(made, Created)
    assert not controller.image.topics


async def test_deletion_by_name_and_id(controller: Controller):
    _, two = await controller.create_topics([NewTopic(name="one"), NewTopic(name="two")])
    assert isinstance(two, Created)
    outcomes = await controller.delete_topics(["one", two.topic_id, "three", UUID(int=999)])
    assert isinstance(outcomes[0], Topic)
    assert isinstance(outcomes[1], Topic)
    assert isinstance(outcomes[2], UnknownTopicOrPartition)
    assert isinstance(outcomes[3], UnknownTopicId)
    assert not controller.image.topics


async def test_topics_only_grow(controller: Controller):
    await controller.create_topics([NewTopic(name="orders")])
    grow = controller.create_partitions
    assert await grow([MorePartitions(name="orders", count=5)]) == [None]
    assert controller.image.partition_count("orders") == 5
    for count_, error in ((5, InvalidPartitions), (1, InvalidPartitions)):
        (outcome,) = await grow([MorePartitions(name="orders", count=count_)])
        assert isinstance(outcome, error)
    (outcome,) = await grow([MorePartitions(name="orders", count=6, assignments=[(0, 1)])])
    assert isinstance(outcome, InvalidReplicaAssignment)
    (outcome,) = await grow([MorePartitions(name="nothing", count=6)])
    assert isinstance(outcome, UnknownTopicOrPartition)
    assert await grow([MorePartitions(name="orders", count=6, assignments=[(2,)])]) == [None]
    assert controller.image.topics["orders"].partitions[5].replicas == (2,)


async def test_producer_ids_are_never_given_twice(controller: Controller):
    blocks = await asyncio.gather(*(controller.allocate_producer_ids() for _ in range(5)))
    given = [each for block in blocks for each in block]
    assert len(given) == len(set(given)) == 5000


async def test_a_deposed_controller_changes_nothing(controller: Controller, store: MemoryStore):
    controller.epoch -= 1
    with pytest.raises(NotController):
        await controller.create_topics([NewTopic(name="orders")])
    assert not controller.image.topics


async def test_the_log_is_cut_by_snapshots(
    controller: Controller, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(controller_module, "SNAPSHOT_EVERY", 10)
    for number in range(40):
        await controller.create_topics([NewTopic(name=f"topic{number}")])
    assert len(store.log) < 11
    tail = Tail(MemoryMetastore(store, ManualClock()))
    await tail.load()
    assert tail.image.topics == controller.image.topics


async def test_a_broker_that_fell_behind_a_snapshot_catches_up(
    controller: Controller, store: MemoryStore
):
    behind = Tail(MemoryMetastore(store, ManualClock()))
    await behind.load()
    deltas = []
    behind.subscribe(lambda _, delta: deltas.append(delta))
    await controller.create_topics([NewTopic(name="orders")])
    await controller.save_snapshot()
    await behind.catch_up()
    assert behind.image.topics == controller.image.topics
    assert [topic.name for delta in deltas for topic in delta.created] == ["orders"]
