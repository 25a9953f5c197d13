"""Brokers that stand still: clients ask the others, and go on there long before their own time-out."""

import asyncio
import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tidelog import Admin, Consumer, Producer, TopicPartition
from tidelog.client.cluster import Cluster
from tidelog.client.settings import ClientSettings, load
from tidelog.errors import InvalidReplicationFactor, KafkaError
from tidelog.testing.local_cluster import LocalCluster

SETTINGS = {
    "broker.session.timeout.ms": "3000",
    "group.initial.rebalance.delay.ms": "0",
    "default.replication.factor": "3",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "1",
}
NEVER_MS = 3_600_000
"""A time-out that no test waits for."""
PATIENCE_S = 120.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(3, settings=SETTINGS) as made:
        yield made


def create(cluster: LocalCluster, topic: str) -> None:
    """A topic on all brokers; one that stood still before comes back after a while."""
    deadline = time.monotonic() + PATIENCE_S
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        while time.monotonic() < deadline:
            try:
                admin.create_topics({topic: 1})
                return
            except InvalidReplicationFactor:
                time.sleep(0.1)
    raise AssertionError("a broker does not come back")


@contextmanager
def standing(cluster: LocalCluster, broker: int) -> Iterator[None]:
    """The broker does nothing meanwhile, but its sockets are open."""
    pid = cluster.brokers[broker].pid
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def in_sync(cluster: LocalCluster, topic: str) -> int:
    """Wait until all replicas of the topic are in sync; who leads it."""
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        while True:
            [partition] = admin.describe_topics([topic])[topic].partitions
            if len(partition.isr) == 3 and partition.leader >= 0:
                return partition.leader
            time.sleep(0.05)


def test_a_producer_and_a_consumer_leave_a_leader_that_stands_still(cluster: LocalCluster) -> None:
    patient: dict[str, Any] = {
        "bootstrap_servers": cluster.bootstrap,
        "request_timeout_ms": NEVER_MS,
    }
    create(cluster, "left")
    where = TopicPartition("left", 0)
    with (
        Producer(**patient, delivery_timeout_ms=2 * NEVER_MS) as producer,
        Consumer(**patient, auto_offset_reset="earliest") as consumer,
    ):
        producer.send("left", b"before").result(PATIENCE_S)
        consumer.assign([where])
        assert [m.value for m in consumer.poll(timeout=PATIENCE_S)] == [b"before"]
        with standing(cluster, in_sync(cluster, "left")):
            producer.send("left", b"meanwhile").result(PATIENCE_S)
            assert [m.value for m in consumer.poll(timeout=PATIENCE_S)] == [b"meanwhile"]


def test_a_group_leaves_a_coordinator_that_stands_still(cluster: LocalCluster) -> None:
    create(cluster, "grouped")
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        in_sync(cluster, "grouped")
        with Producer(bootstrap_servers=cluster.bootstrap) as producer:
            producer.send("grouped", b"1").result(PATIENCE_S)
        with Consumer(
            bootstrap_servers=cluster.bootstrap,
            topics="grouped",
            group_id="patient",
            auto_offset_reset="earliest",
            request_timeout_ms=NEVER_MS,
            default_api_timeout_ms=NEVER_MS,
            enable_auto_commit=False,
        ) as consumer:
            assert len(consumer.poll(timeout=PATIENCE_S)) == 1
            with standing(cluster, in_sync(cluster, "__consumer_offsets")):
                consumer.commit()
            assert admin.group_offsets("patient")[TopicPartition("grouped", 0)].offset == 1


async def test_nobody_is_left_to_hear_why_a_connection_failed() -> None:
    """Who asked was cancelled: that it failed is no news, and no task's exception stays unseen."""
    unseen: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: unseen.append(context))
    with socket.create_server(("127.0.0.1", 0)) as server:  # which accepts, and never answers
        address = f"127.0.0.1:{server.getsockname()[1]}"
        given = {"bootstrap_servers": address, "socket_connection_setup_timeout_ms": 100}
        settings = load(ClientSettings, None, given)
        cluster = Cluster(settings)
        cluster.nodes = {1: ("127.0.0.1", server.getsockname()[1])}
        for ask in (cluster.connection(1), cluster.refresh([])):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await ask
        while cluster._opening or cluster._refreshing:  # noqa: ASYNC110 - it is about their tasks
            await asyncio.sleep(0.01)
        with pytest.raises(KafkaError):
            await cluster.connection(1)
        await cluster.close()
    assert unseen == []


def test_an_admin_asks_the_next_controller(cluster: LocalCluster) -> None:
    create(cluster, "before")
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        controller = admin.describe_cluster().controller
        cluster.brokers[controller].kill()
        try:
            admin.create_topics({"after": 1}, replication_factor=2)
            assert admin.describe_cluster().controller != controller
        finally:
            cluster.brokers[controller].start()


def test_partitions_whose_only_broker_is_gone_do_not_hold_up_the_others(
    cluster: LocalCluster,
) -> None:
    """Three partitions with one replica each; clients that were there before and new ones go on with the other two."""
    topic = "alone"
    deadline = time.monotonic() + PATIENCE_S
    with (
        Admin(bootstrap_servers=cluster.bootstrap) as admin,
        Producer(bootstrap_servers=cluster.bootstrap, batch_size=0) as before,
    ):
        admin.create_topics({topic: 3}, replication_factor=1)
        before.send_many(topic, [b"x"] * 3)
        before.flush()
        controller = admin.describe_cluster().controller  # which has work to do
        there = {each.leader for each in admin.describe_topics([topic])[topic].partitions}
        with standing(cluster, min(there - {controller})):
            leaders: list[int] = []
            while -1 not in leaders and time.monotonic() < deadline:
                described = admin.describe_topics([topic])[topic]
                leaders = [each.leader for each in described.partitions]
            lost = TopicPartition(topic, leaders.index(-1))
            with Producer(bootstrap_servers=cluster.bootstrap, batch_size=0) as producer:
                sent = [producer.send(topic, b"new") for _ in range(20)]
                assert lost.partition not in {each.result(PATIENCE_S).partition for each in sent}
            for tp, (begin, end) in admin.watermarks(topic, led=True).items():
                assert tp != lost
                assert end > begin == 0
            with Consumer(
                bootstrap_servers=cluster.bootstrap, topics=topic, auto_offset_reset="earliest"
            ) as consumer:
                found: list[Any] = []
                while sum(each.value == b"new" for each in found) < 20:
                    found += consumer.poll(timeout=1.0)
                    assert time.monotonic() < deadline
