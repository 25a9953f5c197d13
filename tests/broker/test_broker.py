"""A whole broker on a real socket: life, topics, settings and what clients are told."""

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tidelog.broker.broker import Broker
from tidelog.broker.metastores import METADATA_FILE
from tidelog.broker.settings import BrokerSettings
from tidelog.errors import (
    InvalidRequest,
    InvalidTopicException,
    KafkaStorageError,
    PolicyViolation,
    RequestTimedOut,
    StartError,
    TopicAlreadyExists,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from tidelog.metastore.contract import MetastoreError
from tidelog.protocol.frame import decode_response, encode_request
from tidelog.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from tidelog.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tidelog.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tidelog.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tidelog.protocol.messages.describe_cluster import DescribeClusterRequest
from tidelog.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from tidelog.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from tidelog.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from tidelog.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from tidelog.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tidelog.protocol.messages.init_producer_id import InitProducerIdRequest
from tidelog.protocol.messages.list_config_resources import ListConfigResourcesRequest
from tidelog.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tidelog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tidelog.protocol.schema import ZERO_UUID, Request
from tidelog.settings import topic_settings
from tidelog.storage.config import LogConfig

TOPIC, BROKER, BROKER_LOGGER = 2, 4, 8


class Running:
    """A broker and a connection to it."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, request: Request, version: int) -> Any:
        if self._streams is None:
            self._streams = await asyncio.open_connection(*self.broker.addresses[0])
        reader, writer = self._streams
        writer.write(encode_request(request, version, 7, "test"))
        size = int.from_bytes(await reader.readexactly(4), "big")
        correlation_id, response = decode_response(
            request.response, await reader.readexactly(size), version
        )
        assert correlation_id == 7
        return response

    async def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            with contextlib.suppress(ConnectionError):
                await self._streams[1].wait_closed()

    async def create(self, name: str, partitions: int = 1, **configs: str) -> Any:
        wanted = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=-1,
            configs=[
                CreatableTopicConfig(name=key.replace("_", "."), value=value)
                for key, value in configs.items()
            ],
        )
        return (await self.ask(CreateTopicsRequest(topics=[wanted]), 7)).topics[0]

    async def metadata(self, *names: str, version: int = 12, create: bool = False) -> Any:
        topics = [MetadataRequestTopic(name=name) for name in names]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=create)
        return await self.ask(request, version)


@contextlib.asynccontextmanager
async def running(directory: Path, **settings: str) -> AsyncIterator[Running]:
    given = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(directory)}
    given |= {name.replace("_", "."): value for name, value in settings.items()}
    broker = Broker(BrokerSettings.load(given))
    await broker.start()
    found = Running(broker)
    try:
        yield found
    finally:
        await found.close()
        await broker.stop()


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Running]:
    async with running(tmp_path) as found:
        yield found


# Life


async def test_a_metastore_that_cannot_write_is_told_to_whoever_wants_a_change(
    server: Running, monkeypatch: pytest.MonkeyPatch
):
    assert not (await server.create("there")).error_code

    async def append(*_: object) -> int:
        raise MetastoreError("database or disk is full")

    monkeypatch.setattr(server.broker._metastore, "append", append)
    assert (await server.create("orders")).error_code == RequestTimedOut.code
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name="there")])
    assert [each.error_code for each in (await server.ask(request, 6)).responses] == [
        RequestTimedOut.code
    ]
    grown = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name="there", count=2, assignments=None)]
    )
    [result] = (await server.ask(grown, 3)).results
    assert result.error_code == RequestTimedOut.code
    assert "disk is full" in result.error_message
    change = AlterConfigsResource(
        resource_type=TOPIC,
        resource_name="there",
        configs=[AlterableConfig(name="retention.ms", value="1")],
    )
    answer = await server.ask(IncrementalAlterConfigsRequest(resources=[change]), 1)
    assert [each.error_code for each in answer.responses] == [RequestTimedOut.code]
    monkeypatch.undo()
    assert not (await server.create("orders")).error_code


async def test_topics_and_ids_survive_a_restart(tmp_path: Path):
    async with running(tmp_path) as server:
        made = await server.create("orders", 3, retention_ms="5")
        cluster = server.broker.cluster_id
        first = await server.ask(InitProducerIdRequest(transactional_id=None), 4)
    async with running(tmp_path) as server:
        (topic,) = (await server.metadata("orders")).topics
        assert topic.topic_id == made.topic_id
        assert len(topic.partitions) == 3
        assert [each.leader_epoch for each in topic.partitions] == [0, 0, 0]
        assert server.broker.cluster_id == cluster
        again = await server.ask(InitProducerIdRequest(transactional_id=None), 4)
        assert again.producer_id > first.producer_id


@pytest.mark.parametrize(("boot", "epoch"), [(None, 0), ("of another day", 1)])
async def test_a_crash_of_the_machine_begins_a_new_leader_epoch(
    tmp_path: Path, boot: str | None, epoch: int
):
    """After that of the process alone everything that was written is there."""
    async with running(tmp_path) as server:
        await server.create("orders")
    (tmp_path / ".kafka_cleanshutdown").unlink()
    if boot is not None:
        (tmp_path / ".tidelog_boot").write_text(boot)
    async with running(tmp_path) as server:
        (topic,) = (await server.metadata("orders")).topics
        assert topic.partitions[0].leader_epoch == epoch


async def test_a_data_directory_without_metadata_is_taken_over(tmp_path: Path):
    async with running(tmp_path) as server:
        made = await server.create("orders", 2)
        cluster = server.broker.cluster_id
    _lose_metadata(tmp_path)
    async with running(tmp_path) as server:
        assert server.broker.cluster_id == cluster
        (topic,) = (await server.metadata("orders")).topics
        assert topic.topic_id == made.topic_id
        assert len(topic.partitions) == 2


async def test_a_second_broker_on_the_directory_is_refused(tmp_path: Path):
    async with running(tmp_path) as server:
        await server.create("orders")
        with pytest.raises(StartError, match="in use"):
            async with running(tmp_path):
                pass
        assert (await server.metadata("orders")).topics[0].error_code == 0


async def test_a_port_in_use_is_told_and_the_directory_is_left(tmp_path: Path):
    async with running(tmp_path / "a") as server:
        address = f"PLAINTEXT://{server.broker.addresses[0]}"
        with pytest.raises(StartError, match="in use"):
            async with running(tmp_path / "b", listeners=address):
                pass
    async with running(tmp_path / "b"):
        pass


@pytest.mark.parametrize("damage", ["file", "rows"])
async def test_damaged_metadata_is_told_with_a_cure(tmp_path: Path, damage: str):
    async with running(tmp_path) as server:
        await server.create("orders")
    path = tmp_path / METADATA_FILE
    if damage == "file":
        _lose_metadata(tmp_path)
        path.write_bytes(b"nonsense" * 1000)
    else:
        with contextlib.closing(sqlite3.connect(path)) as database, database:
            database.execute("update entry set data = x'ff00'")
            database.execute("update snapshot set data = x'ff00'")
    with pytest.raises(StartError, match="restore it from a backup, or move"):
        async with running(tmp_path):
            pass


async def test_a_directory_that_fails_at_the_start_takes_its_partitions_along(tmp_path: Path):
    """They are offline, not begun anew on the other directory, and are back when it is."""
    log_dirs = f"{tmp_path / 'one'},{tmp_path / 'two'}"
    async with running(tmp_path, log_dirs=log_dirs) as server:
        await server.create("orders", 4)
    lost = {each.name for each in (tmp_path / "two").iterdir() if each.name.startswith("orders-")}
    assert len(lost) == 2
    (tmp_path / "two").rename(tmp_path / "away")
    (tmp_path / "two").write_text("not a directory")
    async with running(tmp_path, log_dirs=log_dirs) as server:
        for index, error_code in enumerate(await _latest_offset_errors(server, "orders", 4)):
            assert error_code == (KafkaStorageError.code if f"orders-{index}" in lost else 0)
        assert (await server.create("more", 2)).error_code == 0
    (tmp_path / "two").unlink()
    (tmp_path / "away").rename(tmp_path / "two")
    async with running(tmp_path, log_dirs=log_dirs) as server:
        assert await _latest_offset_errors(server, "orders", 4) == [0] * 4


async def _latest_offset_errors(server: Running, topic: str, partitions: int) -> list[int]:
    asked = [ListOffsetsPartition(partition_index=i, timestamp=-1) for i in range(partitions)]
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=topic, partitions=asked)])
    (answer,) = (await server.ask(request, 5)).topics
    return [each.error_code for each in answer.partitions]


# Metadata


async def test_a_client_is_told_what_it_dialled(server: Running):
    answer = await server.metadata()
    (broker,) = answer.brokers
    assert (broker.host, broker.port) == server.broker.addresses[0]
    assert answer.controller_id == broker.node_id
    assert answer.topics == []
    assert len(answer.cluster_id) == 22


async def test_a_client_is_told_what_is_advertised(tmp_path: Path):
    async with running(tmp_path, advertised_listeners="PLAINTEXT://example.org:1234") as server:
        (broker,) = (await server.metadata()).brokers
        assert (broker.host, broker.port) == ("example.org", 1234)
        (broker,) = (await server.ask(DescribeClusterRequest(), 2)).brokers
        assert (broker.host, broker.port) == ("example.org", 1234)


async def test_all_topics(server: Running):
    await server.create("orders")
    for version, topics in ((0, []), (1, None), (13, None)):
        answer = await server.ask(MetadataRequest(topics=topics), version)
        assert [topic.name for topic in answer.topics] == ["orders"], version


async def test_asking_for_a_topic_creates_it_with_its_leader(server: Running):
    (topic,) = (await server.metadata("fresh", create=True)).topics
    assert topic.error_code == 0
    assert topic.partitions[0].leader_id == 0
    assert topic.topic_id != ZERO_UUID


async def test_topics_that_there_are_not(server: Running):
    answer = await server.metadata("absent", "a/b", create=False)
    codes = [topic.error_code for topic in answer.topics]
    assert codes == [UnknownTopicOrPartition.code, InvalidTopicException.code]
    unknown = MetadataRequestTopic(name=None, topic_id=type(ZERO_UUID)(int=5))
    answer = await server.ask(MetadataRequest(topics=[unknown]), 12)
    assert answer.topics[0].error_code == UnknownTopicId.code


async def test_very_many_topics_are_several_requests(server: Running, caplog):
    topics = [CreatableTopic(name=f"t-{number}") for number in range(10_001)]
    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
        await server.ask(CreateTopicsRequest(topics=topics), 7)
    assert "more than 10000 topics" in caplog.text


async def test_no_topic_is_created_when_that_is_switched_off(tmp_path: Path):
    async with running(tmp_path, auto_create_topics_enable="false") as server:
        (topic,) = (await server.metadata("fresh", create=True)).topics
        assert topic.error_code == UnknownTopicOrPartition.code


async def test_paging_through_topics(server: Running):
    await server.create("a", 3)
    await server.create("b", 2)
    seen, cursor = [], None
    for _ in range(10):
        request = DescribeTopicPartitionsRequest(response_partition_limit=2, cursor=cursor)
        answer = await server.ask(request, 0)
        for topic in answer.topics:
            seen += [(topic.name, each.partition_index) for each in topic.partitions]
            assert all(each.eligible_leader_replicas == [] for each in topic.partitions)
        cursor = answer.next_cursor
        if cursor is None:
            break
    assert seen == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1)]


# Topics


async def test_creation_answers_with_what_was_made(server: Running):
    made = await server.create("orders", 3, retention_ms="5")
    assert (made.error_code, made.num_partitions, made.replication_factor) == (0, 3, 1)
    configs = {each.name: each for each in made.configs}
    assert configs.keys() == topic_settings(LogConfig).keys()
    assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("5", 1)
    assert all(each.config_source >= 1 for each in made.configs)
    again = await server.create("orders")
    assert again.error_code == TopicAlreadyExists.code


@pytest.mark.parametrize("version", range(2, 8))
async def test_a_name_twice_in_one_request(server: Running, version: int):
    twice = [CreatableTopic(name="t", num_partitions=1, replication_factor=1)] * 2
    answer = await server.ask(CreateTopicsRequest(topics=twice), version)
    assert [topic.error_code for topic in answer.topics] == [InvalidRequest.code]


async def test_a_topic_made_again_is_empty_and_new(server: Running, tmp_path: Path):
    first = await server.create("orders")
    answer = await server.ask(
        DeleteTopicsRequest(topics=[DeleteTopicState(topic_id=first.topic_id)]), 6
    )
    assert [(each.name, each.error_code) for each in answer.responses] == [("orders", 0)]
    assert not (tmp_path / "orders-0").exists()
    second = await server.create("orders")
    assert second.topic_id != first.topic_id


async def test_deletion_that_is_refused(server: Running):
    await server.create("orders")
    asked = [
        DeleteTopicState(name="absent"),
        DeleteTopicState(),
        DeleteTopicState(name="orders"),
        DeleteTopicState(name="orders"),
        DeleteTopicState(name="__consumer_offsets"),
        DeleteTopicState(topic_id=type(ZERO_UUID)(int=9)),
    ]
    answer = await server.ask(DeleteTopicsRequest(topics=asked), 6)
    assert [each.error_code for each in answer.responses] == [
        UnknownTopicOrPartition.code,
        InvalidRequest.code,
        InvalidRequest.code,
        InvalidTopicException.code,
        UnknownTopicId.code,
    ]


async def test_more_partitions_are_there_at_once(server: Running):
    await server.create("orders")
    wanted = [CreatePartitionsTopic(name="orders", count=4, assignments=None)]
    answer = await server.ask(CreatePartitionsRequest(topics=wanted), 3)
    assert answer.results[0].error_code == 0
    (topic,) = (await server.metadata("orders")).topics
    assert [each.error_code for each in topic.partitions] == [0, 0, 0, 0]


# Settings


async def test_a_setting_is_in_force_at_once(server: Running):
    await server.create("orders")
    change = AlterConfigsResource(
        resource_type=TOPIC,
        resource_name="orders",
        configs=[AlterableConfig(name="retention.ms", config_operation=0, value="77")],
    )
    answer = await server.ask(IncrementalAlterConfigsRequest(resources=[change]), 1)
    assert answer.responses[0].error_code == 0
    asked = DescribeConfigsResource(
        resource_type=TOPIC, resource_name="orders", configuration_keys=["retention.ms"]
    )
    request = DescribeConfigsRequest(resources=[asked], include_synonyms=True)
    (result,) = (await server.ask(request, 4)).results
    (entry,) = result.configs
    assert (entry.value, entry.config_source) == ("77", 1)
    assert [each.source for each in entry.synonyms] == [1, 5]


async def test_a_dynamic_broker_setting_reaches_new_topics(tmp_path: Path):
    async with running(tmp_path) as server:
        change = AlterConfigsResource(
            resource_type=BROKER,
            resource_name="",
            configs=[AlterableConfig(name="num.partitions", config_operation=0, value="6")],
        )
        answer = await server.ask(IncrementalAlterConfigsRequest(resources=[change]), 1)
        assert answer.responses[0].error_code == 0
        assert len((await server.metadata("a", create=True)).topics[0].partitions) == 6
    async with running(tmp_path) as server:
        assert len((await server.metadata("b", create=True)).topics[0].partitions) == 6


# The rest


async def test_an_empty_partition(server: Running):
    await server.create("orders")
    asked = [OffsetForLeaderTopic(topic="orders", partitions=[OffsetForLeaderPartition()])]
    answer = await server.ask(OffsetForLeaderEpochRequest(topics=asked), 4)
    assert answer.topics[0].partitions[0].error_code == 0
    producers = [TopicRequest(name="orders", partition_indexes=[0, 5])]
    answer = await server.ask(DescribeProducersRequest(topics=producers), 0)
    codes = [each.error_code for each in answer.topics[0].partitions]
    assert codes == [0, UnknownTopicOrPartition.code]
    answer = await server.ask(DescribeLogDirsRequest(topics=None), 4)
    (directory,) = answer.results
    assert directory.usable_bytes > 0
    assert [topic.name for topic in directory.topics] == ["orders"]
    answer = await server.ask(ListConfigResourcesRequest(resource_types=[TOPIC]), 1)
    assert [each.resource_name for each in answer.config_resources] == ["orders"]
    answer = await server.ask(ListConfigResourcesRequest(resource_types=[BROKER_LOGGER]), 1)
    assert [each.resource_name for each in answer.config_resources] == ["0"]


async def test_records_of_a_compacted_topic_are_not_deleted(server: Running):
    await server.create("table", cleanup_policy="compact")
    await server.create("stream")
    asked = [
        DeleteRecordsTopic(name=name, partitions=[DeleteRecordsPartition(offset=-1)])
        for name in ("table", "stream")
    ]
    answer = await server.ask(DeleteRecordsRequest(topics=asked), 2)
    results = [topic.partitions[0] for topic in answer.topics]
    assert [(each.error_code, each.low_watermark) for each in results] == [
        (PolicyViolation.code, -1),
        (0, 0),
    ]


def _lose_metadata(directory: Path) -> None:
    for path in directory.glob(METADATA_FILE + "*"):
        if path.is_file():
            path.unlink()
