"""The controller writes nothing that a registered broker cannot read."""

from uuid import UUID, uuid4

import pytest

from tidelog.cluster import metadata, registration
from tidelog.cluster.controller import Controller
from tidelog.cluster.image import Image
from tidelog.cluster.metadata import (
    METADATA_VERSION,
    BrokerRecord,
    MetadataError,
    NewerMetadata,
    PartitionChangeRecord,
    ProducerIdsRecord,
    TopicRecord,
)
from tidelog.cluster.tail import Tail
from tidelog.cluster.topics import Rules
from tidelog.errors import UnsupportedVersion
from tidelog.metastore.memory import MemoryMetastore, MemoryStore
from tidelog.testing.manual_clock import ManualClock

NEW = METADATA_VERSION + 1
ID = UUID(int=1)


@pytest.fixture(autouse=True)
def novelties(monkeypatch):
    """A record type and a field of the next version."""
    monkeypatch.setitem(metadata._SINCE, ("producer_ids", ""), NEW)
    monkeypatch.setitem(metadata._SINCE, ("partition_change", "eligible"), NEW)


@pytest.fixture
async def controller():
    async with MemoryMetastore(MemoryStore(), ManualClock()) as metastore:
        epoch = await metastore.lead(await metastore.open_session(0, 9000))
        assert epoch is not None
        rules = Rules(partitions=1, replication_factor=1, check_config=lambda _: None, new_id=uuid4)
        yield Controller(metastore, Tail(metastore), epoch, lambda: rules)


def broker(number: int, life: str = "a") -> BrokerRecord:
    return BrokerRecord(number, (), None, f"{number}{life}", fenced=True)


async def write(controller: Controller) -> None:
    await controller.submit(lambda _: ([ProducerIdsRecord(7)], None))


async def test_what_a_broker_cannot_read_is_written_when_it_has_been_updated(controller):
    await controller.register(broker(1), -1, NEW)
    await controller.register(broker(2), -1)
    with pytest.raises(UnsupportedVersion, match=r"broker\(s\) \[2\] cannot read: update them"):
        await write(controller)
    assert controller.image.metadata_version == 1
    await controller.register(broker(2, "b"), -1, NEW)
    await write(controller)
    assert controller.image.next_producer_id == 7


async def test_a_broker_that_is_down_counts_until_it_is_unregistered(controller):
    await controller.register(broker(1), -1, NEW)
    await controller.register(broker(2), -1, METADATA_VERSION)
    with pytest.raises(UnsupportedVersion):
        await write(controller)
    await controller.unregister(2)
    await write(controller)
    assert "2" not in {name for _, name in controller.image.configs}


async def test_a_broker_that_an_older_controller_registered_tells_later(controller):
    await controller.register(broker(1), -1)
    assert controller.image.metadata_version == 1
    await controller.register(broker(1), -1, NEW)
    await controller.register(broker(1), -1, NEW)
    assert controller.image.metadata_version == NEW
    again, _ = Image().apply(controller.image.records(), controller.image.number)
    assert again == controller.image, "a snapshot has it"


def test_an_older_program_under_the_same_id_has_no_version():
    """Registered by an older controller, which does not take the note back."""
    told = registration.register(
        Image(), broker(1), frozenset(), clean=True, unclean=lambda _: False, version=NEW
    )
    image, _ = Image().apply(told, 1)
    assert image.metadata_version == NEW
    image, _ = image.apply([broker(1, "older")], 2)
    assert image.metadata_version == 1


def test_a_field_counts_where_it_says_something():
    plain = PartitionChangeRecord(ID, 0, leader=1)
    assert metadata.version_of([plain, TopicRecord("t", ID)]) == 1
    assert metadata.version_of([plain, PartitionChangeRecord(ID, 0, eligible=())]) == NEW


@pytest.mark.parametrize(
    "entry", [b'[["novelty",{}]]', b'[["topic",{"name":"t","topic_id":"AA","colour":"red"}]]']
)
def test_what_is_newer_is_told_apart_from_what_is_damaged(entry):
    with pytest.raises(NewerMetadata, match=r"newer tidelog: '(novelty|colour)' is not known"):
        metadata.decode(entry)
    with pytest.raises(MetadataError, match="damaged"):
        metadata.decode(entry[:-3])
