"""The pages of whole brokers: what keeps one from being ready, what three of them tell of a failure, and what they log."""

import asyncio
import contextlib
import logging
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from hot_path import batch
from scraping import Scraped, page, scrape

from tidelog.aio import Admin, Producer
from tidelog.broker.broker import Broker
from tidelog.broker.settings import BrokerSettings
from tidelog.clock import SystemClock
from tidelog.errors import InvalidRequest, SettingsError, StartError
from tidelog.metastore.memory import MemoryMetastore, MemoryStore
from tidelog.names import TopicPartition
from tidelog.network.peer import Address, Peer
from tidelog.protocol.frame import encode_request
from tidelog.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

QUICK = {
    "broker.session.timeout.ms": "60000",
    "broker.heartbeat.interval.ms": "20",
    "offsets.topic.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.enable": "false",
    "metrics.listener": "127.0.0.1:0",
    "listeners": "PLAINTEXT://127.0.0.1:0",
}


def settings(directory: Path, number: int = 0, **more: str) -> BrokerSettings:
    own = {"log.dirs": str(directory / f"broker-{number}"), "broker.id": str(number)}
    return BrokerSettings.load(QUICK | own | more)


async def until(look: Callable[[], Any], fits: Callable[[Any], bool]) -> Any:
    async with asyncio.timeout(120):
        while not fits(found := await look()):  # noqa: ASYNC110  (others make it so)
            await asyncio.sleep(0.02)
    return found


async def asked(broker: Broker, path: str) -> tuple[int, str]:
    return await asyncio.to_thread(page, broker.monitoring.address, path)


async def scraped(broker: Broker) -> Scraped:
    return await asyncio.to_thread(scrape, broker.monitoring.address)


@contextlib.asynccontextmanager
async def running(directory: Path, **more: str) -> AsyncIterator[Broker]:
    broker = Broker(settings(directory, **more))
    await broker.start()
    try:
        yield broker
    finally:
        await broker.stop()


class Trio:
    """Three brokers of one metastore."""

    def __init__(self, directory: Path) -> None:
        store = MemoryStore()
        self.brokers = [
            Broker(settings(directory, number), metastore=MemoryMetastore(store, SystemClock()))
            for number in range(3)
        ]

    @property
    def bootstrap(self) -> str:
        return ",".join(str(each.addresses[0]) for each in self.brokers)


@pytest.fixture
async def trio(tmp_path: Path) -> AsyncIterator[Trio]:
    made = Trio(tmp_path)
    started = []
    try:
        for each in made.brokers:
            await each.start()
            started.append(each)
        yield made
    finally:
        for each in started:
            if each.monitoring.doing != "stopping":
                await each.stop()


async def test_a_broker_is_ready_when_it_has_started(tmp_path):
    async with running(tmp_path) as broker:
        assert await asked(broker, "/readyz") == (200, "ready\n")
        assert await asked(broker, "/healthz") == (200, "ok\n")
        broker.monitoring.doing = "checking and opening its logs"
        assert await asked(broker, "/readyz") == (
            503,
            "the broker is checking and opening its logs\n",
        )
        assert await asked(broker, "/healthz") == (200, "ok\n"), "it lives"
        broker.monitoring.doing = None


async def test_a_directory_that_failed_is_told(tmp_path):
    more = {"log.dirs": f"{tmp_path}/a,{tmp_path}/b"}
    async with running(tmp_path, **more) as broker:
        assert broker._logs is not None
        broker._logs.directories[1].fail(OSError(5, "Input/output error"))
        status, text = await asked(broker, "/readyz")
        assert status == 503
        assert f"{tmp_path}/b" in text
        assert "Input/output error" in text
        found = await scraped(broker)
        assert found["kafka_log_logmanager_offlinelogdirectorycount"] == 1
        where = {"logdirectory": f"{tmp_path}/b"}
        assert found.of("kafka_log_logmanager_logdirectoryoffline", **where) == 1


async def test_without_a_listener_there_are_no_pages(tmp_path):
    async with running(tmp_path, **{"metrics.listener": ""}) as broker:
        assert broker.monitoring.address is None


async def test_a_listener_that_is_wrong_or_taken(tmp_path):
    with pytest.raises(SettingsError, match=r"metrics\.listener='nowhere'"):
        settings(tmp_path, **{"metrics.listener": "nowhere"})
    async with running(tmp_path) as broker:
        taken = Broker(
            settings(tmp_path, 1, **{"metrics.listener": str(broker.monitoring.address)})
        )
        with pytest.raises(StartError, match="--metrics"):
            await taken.start()


async def test_counts_stay_when_a_topic_goes(tmp_path):
    async with running(tmp_path) as broker:
        where = {"bootstrap.servers": str(broker.addresses[0])}
        async with Admin(where) as admin, Producer(where) as producer:
            await admin.create_topics({"gone": 1, "stays": 1})
            for name, count in (("gone", 7), ("stays", 5)):
                for _ in range(count):
                    await producer.send(name, b"x")
            await producer.flush()
            name = "kafka_server_brokertopicmetrics_messagesin_total"
            before = await scraped(broker)
            assert before.of(name, topic="gone") == 7
            assert before.of(name, topic="") == 12
            await admin.delete_topics(["gone"])
        after = await scraped(broker)
        assert frozenset({("topic", "gone")}) not in after.all_of(name)
        assert after.of(name, topic="") == 12


def test_what_is_refused_is_counted(hot):
    """By topic where there is such a topic, and for the broker in any case."""
    peer = Peer(Address("127.0.0.1", 5), Address("127.0.0.1", 9092), "PLAINTEXT")
    records = bytearray(batch(b"x"))
    records[30] ^= 1  # its checksum is wrong now
    for topic in ("events", "nowhere"):
        data = PartitionProduceData(index=0, records=records)
        topics = [TopicProduceData(name=topic, partition_data=[data])]
        request = ProduceRequest(acks=1, timeout_ms=1000, topic_data=topics)
        hot.dispatcher.serve(peer, memoryview(bytearray(encode_request(request, 9, 1, "c")))[4:])
    traffic = hot.services.partitions.traffic
    assert traffic.total().failed_produces == 2
    assert traffic.total().bytes_rejected == 2 * len(records)
    assert traffic.total().messages_in == 0
    requests = hot.services.requests
    assert requests.of("Produce").count == 2
    assert requests.errors == {
        ("Produce", "CorruptMessage"): 1,
        ("Produce", "UnknownTopicOrPartition"): 1,
    }


async def test_a_broker_that_goes_is_seen_by_the_others(trio, caplog):
    caplog.set_level(logging.INFO)
    config = {"bootstrap.servers": trio.bootstrap}
    async with Admin(config) as admin, Producer(config) as producer:
        await admin.create_topics({"orders": 3}, replication_factor=3)
        for number in range(30):
            await producer.send("orders", b"x", partition=number % 3)
        await producer.flush()
    first, second, third = trio.brokers
    found = [await scraped(each) for each in trio.brokers]
    name = "kafka_server_brokertopicmetrics_messagesin_total"
    assert sum(each.of(name, topic="orders") for each in found) == 30
    assert (
        sum(each["kafka_controller_kafkacontroller_activecontrollercount"] for each in found) == 1
    )
    assert all(each["kafka_server_replicamanager_partitioncount"] >= 3 for each in found)
    assert sum(each["kafka_server_replicamanager_leadercount"] for each in found) == 3
    replicated = sum(
        each.of("kafka_server_brokertopicmetrics_replicationbytesin_total", topic="orders")
        for each in found
    )
    sent = sum(
        each.of("kafka_server_brokertopicmetrics_replicationbytesout_total", topic="orders")
        for each in found
    )
    assert replicated == sent > 0
    fetches = [
        each.of("kafka_network_requestmetrics_requests_total", request="FetchFollower")
        for each in found
    ]
    assert all(count > 0 for count in fetches)

    await third.stop()

    def shrunk(found: Scraped) -> bool:
        led = found["kafka_server_replicamanager_leadercount"]
        return led > 0 and found["kafka_server_replicamanager_underreplicatedpartitions"] == led

    for each in (first, second):
        told = await until(lambda each=each: scraped(each), shrunk)
        assert told["kafka_controller_kafkacontroller_offlinepartitionscount"] == 0
        assert told["kafka_controller_controllerstats_uncleanleaderelections_total"] == 0
    both = [await scraped(each) for each in (first, second)]
    assert sum(each["kafka_server_replicamanager_isrshrinks_total"] for each in both) >= 1
    name = "kafka_controller_controllerstats_leaderelectionrateandtimems_count"
    assert sum(each[name] for each in both) >= 1
    told = [each.getMessage() for each in caplog.records]
    assert any("is led by broker" in each and "broker 2 is stopping" in each for each in told), told
    assert any(
        "in-sync replicas" in each and "broker 2 is gone or stopping" in each for each in told
    )


async def test_lag_where_the_coordinator_does_not_have_the_partition(trio):
    """Its leader is asked where it ends, and how old the first unread message is."""
    config = {"bootstrap.servers": trio.bootstrap}
    async with Admin(config) as admin, Producer(config) as producer:
        await admin.create_topics({"alone": 3})
        for index in range(3):
            for _ in range(10):
                await producer.send("alone", b"x", partition=index)
        await producer.flush()
        places = {TopicPartition("alone", index): 4 for index in range(3)}
        await admin.alter_group_offsets("far", places)

    async def lags() -> dict[str, tuple[float, float]]:
        found = {}
        for each in trio.brokers:
            seen = await scraped(each)
            seconds = seen.all_of("kafka_consumergroup_lag_seconds")
            for labels, lag in seen.all_of("kafka_consumergroup_lag").items():
                found[dict(labels)["partition"]] = (lag, seconds.get(labels, -1.0))
        return found

    found = await until(
        lags, lambda seen: len(seen) == 3 and all(lag == 6 and s >= 0 for lag, s in seen.values())
    )
    assert found.keys() == {"0", "1", "2"}


async def test_levels_of_another_broker_are_its_own_matter(trio):
    async with Admin({"bootstrap.servers": trio.bootstrap}) as admin:
        for broker in range(3):  # of which only one is the controller
            await admin.alter_loggers(broker, {"tidelog.test.trio": "ERROR"})
            found = await admin.describe_loggers(broker)
            assert found["tidelog.test.trio"].value == "ERROR"
            await admin.alter_loggers(broker, {"tidelog.test.trio": None})
        with pytest.raises(InvalidRequest, match="root"):
            await admin.alter_loggers(0, {"root": None})


async def test_who_is_held_back_by_a_quota_is_counted(tmp_path):
    async with running(tmp_path) as broker:
        where = {"bootstrap.servers": str(broker.addresses[0])}
        async with Admin(where) as admin:
            await admin.create_topics({"orders": 1})
            entity = {"client-id": "greedy"}
            await admin.alter_client_quotas(entity, {"producer_byte_rate": 1000.0})
        async with Producer({**where, "client.id": "greedy"}) as producer:
            await (await producer.send("orders", b"x" * 30_000))
        found = await scraped(broker)
    name = "kafka_network_requestmetrics_throttletimems"
    assert found.of(f"{name}_count", request="Produce") == 1
    assert found.of(f"{name}_sum", request="Produce") > 1000
    assert found.of("tidelog_requests_throttled_total", request="Produce") == 1
    who = {"quota": "producer_byte_rate", "user": "", "client_id": "greedy"}
    assert found.of("tidelog_quota_limit", **who) == 1000
    assert found.of("tidelog_quota_used_total", **who) > 30_000
    assert found.of("tidelog_quota_delays_total", **who) == 1
    assert found.of("tidelog_quota_delayed_seconds_total", **who) > 1
