"""Replicas on real processes: stopped, killed, far behind, with records that nobody else has, of topics that are gone."""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tidelog import Producer
from tidelog.client.admin import Admin, PartitionDescription
from tidelog.errors import TidelogError
from tidelog.testing.local_broker import LocalBroker
from tidelog.testing.local_cluster import LocalCluster

pytestmark = pytest.mark.faults

PATIENCE_S = 120.0


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    settings = {
        "broker.session.timeout.ms": "20000",  # a broker that stands still is not taken for dead
        "broker.heartbeat.interval.ms": "500",
        "replica.lag.time.max.ms": "1500",
        "log.segment.delete.delay.ms": "0",
        "auto.leader.rebalance.enable": "false",
        "auto.create.topics.enable": "false",
    }
    cluster = LocalCluster(3, settings=settings)
    try:
        yield cluster.start()
        assert "Traceback" not in cluster.log(), cluster.log()
    finally:
        for broker in cluster.brokers:
            broker.kill()
        cluster.close()


def create(cluster: LocalCluster, **config: str) -> PartitionDescription:
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        admin.create_topics({"t": 1}, replication_factor=3, configs=config)
    return until(cluster.bootstrap, lambda state: state.leader >= 0)


def until(bootstrap: str, hope: Callable[[PartitionDescription], bool]) -> PartitionDescription:
    deadline = time.monotonic() + PATIENCE_S
    with Admin(bootstrap_servers=bootstrap) as admin:
        while True:
            state = None
            with contextlib.suppress(
                TidelogError
            ):  # the broker that is asked may not know the topic yet
                (state,) = admin.describe_topics(["t"])["t"].partitions
                if hope(state):
                    return state
            assert time.monotonic() < deadline, state
            time.sleep(0.05)


def write(bootstrap: str, *values: bytes, acks: str = "all") -> None:
    with Producer(bootstrap_servers=bootstrap, acks=acks, enable_idempotence=False) as producer:
        for value in values:
            producer.send("t", value)
        producer.flush(PATIENCE_S)


def logs(broker: LocalBroker) -> bytes:
    """All that a broker has of the partition."""
    files = sorted(Path(broker.directory, "data", "t-0").glob("*.log"))
    return b"".join(each.read_bytes() for each in files)


def until_equal(cluster: LocalCluster) -> bytes:
    deadline = time.monotonic() + PATIENCE_S
    while len(found := {logs(each) for each in cluster.brokers}) > 1:
        assert time.monotonic() < deadline, [len(each) for each in found]
        time.sleep(0.05)
    return found.pop()


def others(cluster: LocalCluster, *gone: LocalBroker) -> str:
    return ",".join(each.bootstrap for each in cluster.brokers if each not in gone)


def test_a_follower_that_stands_still_leaves_the_isr_and_comes_back(cluster: LocalCluster) -> None:
    state = create(cluster)
    follower = cluster.brokers[next(each for each in state.isr if each != state.leader)]
    os.kill(follower.pid, signal.SIGSTOP)
    rest = others(cluster, follower)
    write(rest, b"a", b"b")  # answered when the leader has given the follower up
    assert len(until(rest, lambda state: len(state.isr) == 2).isr) == 2
    os.kill(follower.pid, signal.SIGCONT)
    until(rest, lambda state: len(state.isr) == 3)
    assert b"b" in until_equal(cluster)


def test_what_only_a_dead_leader_had_is_cut_when_it_returns(cluster: LocalCluster) -> None:
    state = create(cluster)
    write(cluster.bootstrap, b"everybody has this")
    until_equal(cluster)
    leader = cluster.brokers[state.leader]
    followers = [each for each in cluster.brokers if each is not leader]
    for each in followers:
        os.kill(each.pid, signal.SIGSTOP)
    write(leader.bootstrap, b"on its way to those that were waiting", acks="1")
    write(leader.bootstrap, b"only the leader has this", acks="1")
    leader.kill()
    for each in followers:
        os.kill(each.pid, signal.SIGCONT)
    rest = others(cluster, leader)
    until(rest, lambda now: now.leader not in (-1, state.leader))
    write(rest, b"written by another leader")
    leader.start()
    until(rest, lambda now: len(now.isr) == 3)
    data = until_equal(cluster)
    assert b"only the leader" not in data
    assert b"everybody" in data
    assert b"another leader" in data


def test_one_that_was_away_for_long_catches_up(cluster: LocalCluster) -> None:
    state = create(cluster, **{"segment.bytes": "1000000"})
    away = cluster.brokers[next(each for each in state.isr if each != state.leader)]
    assert away.stop() == 0
    rest = others(cluster, away)
    write(rest, *(b"%d" % number * 200 for number in range(10_000)))
    with Admin(bootstrap_servers=rest) as admin:
        admin.delete_records({("t", 0): 5_000})
    away.start()
    until(rest, lambda state: len(state.isr) == 3)
    write(cluster.bootstrap, b"the last")
    # What was deleted is not copied, so the files differ; all behind it is the same.
    leader_log = logs(cluster.brokers[state.leader])
    deadline = time.monotonic() + PATIENCE_S
    while not (copy := logs(away)).endswith(leader_log[-100:]):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert leader_log.endswith(copy)


def test_a_topic_of_the_same_name_is_another_topic(cluster: LocalCluster) -> None:
    state = create(cluster)
    write(cluster.bootstrap, b"of the old topic")
    until_equal(cluster)
    away = cluster.brokers[next(each for each in state.isr if each != state.leader)]
    away.kill()
    with Admin(bootstrap_servers=others(cluster, away)) as admin:
        admin.delete_topics(["t"])
    away.start()
    create(cluster)
    write(cluster.bootstrap, b"of the new one")
    until(cluster.bootstrap, lambda state: len(state.isr) == 3)
    data = until_equal(cluster)
    assert b"old" not in data
    assert b"new one" in data
