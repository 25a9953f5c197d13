"""What all brokers must agree on is in the metadata log, and comes into force for all at the same place of it."""

from dataclasses import replace
from uuid import UUID, uuid4

import pytest

from tidelog.cluster.controller import Controller
from tidelog.cluster.image import Image
from tidelog.cluster.isr import IsrChange
from tidelog.cluster.metadata import (
    BrokerRecord,
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    TopicRecord,
)
from tidelog.cluster.remote_controller import RemoteController
from tidelog.cluster.tail import Tail
from tidelog.cluster.topics import Rules
from tidelog.metastore.memory import MemoryMetastore, MemoryStore
from tidelog.protocol.messages.alter_partition import (
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)
from tidelog.testing.manual_clock import ManualClock

ID = UUID(int=1)
LEAST = "min.insync.replicas"
TOPIC = [
    *(BrokerRecord(each, (), None, f"life-{each}") for each in (1, 2, 3)),
    TopicRecord("t", ID),
    PartitionRecord(ID, 0, (1, 2, 3), (1, 2, 3), 1),
]


def rules(least: str) -> Rules:
    return Rules(
        partitions=1,
        replication_factor=1,
        check_config=lambda _: None,
        new_id=uuid4,
        shared={LEAST: least},
    )


async def elected(store: MemoryStore, least: str) -> Controller:
    """The next controller, whose settings file says `least`."""
    metastore = MemoryMetastore(store, ManualClock())
    await metastore.open()
    session = await metastore.open_session(store.log_end + 10, 9000)
    epoch = await metastore.lead(session)
    assert epoch is not None
    return Controller(metastore, Tail(metastore), epoch, lambda: rules(least))


def test_a_topics_own_comes_before_everybodys_before_the_controllers():
    image, _ = Image().apply(TOPIC, 1)
    found = [image.min_in_sync("t")]
    for record in (
        ConfigRecord("cluster", "", LEAST, "2"),
        ConfigRecord("broker", "1", LEAST, "7"),  # of a single broker: not in force
        ConfigRecord("broker", "", LEAST, "3"),
        ConfigRecord("topic", "t", LEAST, "4"),
    ):
        image, _ = image.apply([record], image.number + 1)
        found.append(image.min_in_sync("t"))
    assert found == [1, 2, 2, 3, 4]
    assert image.needed_in_sync(ID, image.topics["t"].partitions[0]) == 3, "as many as there are"


async def test_a_controller_writes_its_own_down_before_it_decides():
    store = MemoryStore()
    first = await elected(store, "2")
    await first.submit(lambda _: (TOPIC, None))
    assert first.image.min_in_sync("t") == 2
    end = first.image.number
    await first.submit(lambda _: ([], None))
    assert first.image.number == end, "once"


async def test_with_another_value_nobody_is_eligible():
    """A controller of another setting: leaders that see it may commit with fewer."""
    store = MemoryStore()
    first = await elected(store, "2")
    await first.submit(lambda _: (TOPIC, None))
    await first.submit(lambda _: ([PartitionChangeRecord(ID, 0, isr=(1,))], None))
    assert first.image.topics["t"].partitions[0].eligible == (2, 3)
    await first._metastore.close()
    second = await elected(store, "1")
    await second.submit(lambda _: ([], None))
    assert second.image.min_in_sync("t") == 1
    assert second.image.topics["t"].partitions[0].eligible == ()


class SlowTail:
    """A broker's picture, which has not followed the log yet."""

    def __init__(self) -> None:
        self.image, _ = Image().apply(TOPIC, 1)

    async def catch_up(self) -> None:
        records = [
            ConfigRecord("cluster", "", LEAST, "2"),
            PartitionChangeRecord(ID, 0, isr=(1,), eligible=(2, 3)),
        ]
        self.image, _ = self.image.apply(records, 2)


class Peers:
    async def ask(self, *_, **__) -> AlterPartitionResponse:
        told = AlterPartitionResponsePartitionData(
            partition_index=0, leader_id=1, leader_epoch=0, isr=[1], partition_epoch=1
        )
        return AlterPartitionResponse(
            topics=[AlterPartitionResponseTopicData(topic_id=ID, partitions=[told])]
        )


@pytest.mark.parametrize("isr", [(1,), (1, 2)])
async def test_a_leader_that_goes_on_with_fewer_knows_what_the_controller_went_by(isr):
    tail = SlowTail()
    remote = RemoteController(1, 2, Peers(), tail, "c", 1000)
    change = IsrChange(ID, 0, 0, 0, isr)
    [outcome] = await remote.alter_partition(1, 1, [change])
    assert outcome == tail.image.topics["t"].partitions[0]
    assert tail.image.min_in_sync("t") == 2
    # To go on with as many, or with more, needs no look at the log.
    tail.image = replace(tail.image, number=2)
    await remote.alter_partition(1, 1, [replace(change, isr=(1, 2, 3))])
