"""The quick start of the manual, as docs/guide/cluster.md tells it: three brokers, one of which is killed."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tidelog.client.admin import Admin, TopicDescription
from tidelog.client.cluster import UnknownTopic
from tidelog.testing.local_cluster import LocalCluster

pytestmark = pytest.mark.faults

PATIENCE_S = 120.0
MESSAGES = [f"my test message {number}" for number in range(1, 7)]


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    quick = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}
    cluster = LocalCluster(3, settings=quick)
    try:
        yield cluster.start()
        assert "Traceback" not in cluster.log(), cluster.log()
    finally:
        for broker in cluster.brokers:
            broker.kill()
        cluster.close()


def tidelog(*arguments: str, given: str = "") -> str:
    """What a command prints."""
    done = subprocess.run(
        [sys.executable, "-m", "tidelog", *arguments],
        input=given,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def described(bootstrap: str, topic: str) -> TopicDescription:
    with Admin(bootstrap_servers=bootstrap) as admin:
        return admin.describe_topics([topic])[topic]


def until(bootstrap: str, topic: str, hope: Callable[[TopicDescription], bool]) -> TopicDescription:
    """The topic's description, as soon as it is as hoped; brokers hear of a topic one after the other."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        with contextlib.suppress(UnknownTopic):
            if hope(found := described(bootstrap, topic)):
                return found
        assert time.monotonic() < deadline, topic
        time.sleep(0.05)


def test_the_quick_start(cluster: LocalCluster) -> None:
    first = cluster.brokers[0].bootstrap
    created = tidelog("topic", "create", "my-replicated-topic", "-p", "1", "-r", "3", "-b", first)
    assert created == "Created topic my-replicated-topic.\n"

    told = tidelog("topic", "describe", "my-replicated-topic", "-b", first).splitlines()
    assert told[0].startswith("Topic: my-replicated-topic\tTopicId: ")
    assert "PartitionCount: 1\tReplicationFactor: 3\tConfigs: " in told[0]
    (state,) = described(first, "my-replicated-topic").partitions
    listed = ",".join(map(str, state.replicas))
    assert told[1] == (
        f"\tTopic: my-replicated-topic\tPartition: 0\tLeader: {state.leader}\t"
        f"Replicas: {listed}\tIsr: {listed}"
    )
    assert sorted(state.replicas) == [0, 1, 2]

    everywhere = ("-b", cluster.bootstrap)
    tidelog("produce", "my-replicated-topic", *everywhere, given="\n".join(MESSAGES) + "\n")
    leader = cluster.brokers[state.leader]
    os.kill(leader.pid, signal.SIGKILL)

    others = ",".join(each.bootstrap for each in cluster.brokers if each is not leader)
    after = until(
        others, "my-replicated-topic", lambda each: each.partitions[0].leader != state.leader
    ).partitions[0]
    assert after.leader == next(each for each in state.replicas if each != state.leader)
    assert set(after.isr) == set(state.isr) - {state.leader}
    assert after.leader_epoch > state.leader_epoch

    read = tidelog("consume", "my-replicated-topic", "-b", others, "--from-beginning", "-n", "6")
    assert sorted(read.splitlines()) == MESSAGES
    tidelog("produce", "my-replicated-topic", "-b", others, given="written without it\n")

    leader.kill()
    leader.start()
    until(others, "my-replicated-topic", lambda each: len(each.partitions[0].isr) == 3)
    read = tidelog("consume", "my-replicated-topic", *everywhere, "--from-beginning", "-n", "7")
    assert sorted(read.splitlines()) == sorted([*MESSAGES, "written without it"])

    with Admin(bootstrap_servers=others) as admin:
        assert set(admin.elect_leaders().values()) <= {None}
    # Brokers hear of it one after the other.
    until(others, "my-replicated-topic", lambda each: each.partitions[0].leader == state.leader)


def test_a_controller_is_replaced_and_stops_in_good_order(cluster: LocalCluster) -> None:
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        controller = admin.describe_cluster().controller
        admin.create_topics({"orders": 6}, replication_factor=3)
    assert cluster.brokers[controller].stop() == 0
    others = ",".join(
        each.bootstrap for number, each in enumerate(cluster.brokers) if number != controller
    )
    until(
        others,
        "orders",
        lambda topic: all(
            each.leader not in (-1, controller) and controller not in each.isr
            for each in topic.partitions
        ),
    )
    with Admin(bootstrap_servers=others) as admin:
        admin.create_topics({"later": 1}, replication_factor=2)
        assert admin.describe_cluster().controller != controller
    assert "could not be handed over" not in cluster.log()


def test_a_paused_broker_is_replaced_and_comes_back(cluster: LocalCluster) -> None:
    paused = cluster.brokers[2]
    others = ",".join(each.bootstrap for each in cluster.brokers[:2])
    with Admin(bootstrap_servers=others) as admin:
        admin.create_topics({"orders": 3}, replication_factor=3)
    os.kill(paused.pid, signal.SIGSTOP)
    try:
        until(others, "orders", lambda each: all(p.leader != 2 for p in each.partitions))
        tidelog("produce", "orders", "-b", others, given="one\ntwo\nthree\n")
    finally:
        os.kill(paused.pid, signal.SIGCONT)
    until(others, "orders", lambda each: all(len(p.isr) == 3 for p in each.partitions))
    assert "session with the metastore was lost" in paused.log()


def test_brokers_that_cannot_join_say_why(cluster: LocalCluster, tmp_path: Path) -> None:
    def refused(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "tidelog", "serve", "--port", "0", *arguments],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 2
        (line,) = done.stderr.splitlines()
        return line

    here = ("--metastore", cluster.metastore)
    twin = refused(*here, "--broker-id", "1", "--data", str(tmp_path / "twin"))
    assert "broker id 1 is in use by another live broker" in twin

    cluster.brokers[2].stop()
    data = str(cluster.brokers[2].data)
    elsewhere = f"sqlite:{tmp_path / 'other.db'}"
    subprocess.run([sys.executable, "-c", MAKE_CLUSTER, elsewhere], check=True, timeout=PATIENCE_S)
    stranger = refused("--metastore", elsewhere, "--broker-id", "2", "--data", data)
    assert "cluster" in stranger
    assert "belongs to" in stranger

    away = refused("--metastore", "zk://127.0.0.1:1/x", "--data", str(tmp_path / "away"))
    assert "127.0.0.1:1" in away
    assert "--metastore" in away


MAKE_CLUSTER = """
import asyncio, sys
from tidelog.clock import SystemClock
from tidelog.metastore.address import open_metastore

async def main():
    async with open_metastore(sys.argv[1], SystemClock()) as store:
        await store.cluster_id("AnotherClusterAltogeth")

asyncio.run(main())
"""
