"""A disk that is full takes its own partitions offline, and nothing else; what was acknowledged is there later."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from load import PATIENCE_S, create_topic, read_all

import tidelog
from tidelog.client.admin import PartitionDescription
from tidelog.testing.local_broker import LocalBroker
from tidelog.testing.local_cluster import LocalCluster

pytestmark = pytest.mark.faults

TOPICS = ("one", "two")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 12 MB."""
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("only root may mount a small file system")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_disk_does_not_take_the_other_down(
    broker: LocalBroker, small_disk: Path, tmp_path: Path
) -> None:
    broker.settings["log.dirs"] = f"{small_disk / 'logs'},{tmp_path / 'large'}"
    broker.settings["log.index.size.max.bytes"] = (
        "65536"  # an index file is as large from the start
    )
    broker.settings["offsets.topic.num.partitions"] = "1"
    broker.start()
    for topic in TOPICS:  # a new partition goes where the fewest are: one on each disk
        create_topic(broker.bootstrap, topic)
    acknowledged = {topic: fill(broker.bootstrap, topic, megabytes=24) for topic in TOPICS}
    full = [topic for topic in TOPICS if acknowledged[topic] < 24 * 8]
    assert len(full) == 1, acknowledged
    (other,) = set(TOPICS) - set(full)
    assert fill(broker.bootstrap, other, megabytes=1) == 8, "the other disk still serves"

    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
    broker.restart()
    acknowledged[other] += 8
    for topic in TOPICS:
        assert len(read_all(broker.bootstrap, topic, 0)) >= acknowledged[topic]
    assert fill(broker.bootstrap, full[0], megabytes=1) == 8, "there is room again"


def fill(bootstrap: str, topic: str, megabytes: int) -> int:
    """Write messages of 128 KB one by one until the broker refuses, and tell how many it took."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "acks": "all", "retries": 0, "message.timeout.ms": 30_000}
    )
    results: list[KafkaError | None] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        results.append(error)

    for number in range(megabytes * 8):
        producer.produce(topic, os.urandom(128 * 1024), b"%d" % number, on_delivery=delivered)
        producer.flush(PATIENCE_S)
        if results[-1] is not None:
            break
    # Not `results.count(None)`: a KafkaError cannot be compared with None.
    return sum(each is None for each in results)


def test_a_leader_with_a_full_disk_hands_on_what_others_have(
    small_disk: Path, tmp_path: Path
) -> None:
    """Kafka takes the directory offline; here it leads no longer, and comes back by itself when there is room."""
    settings = {
        "min.insync.replicas": "2",
        "default.replication.factor": "3",
        "log.index.size.max.bytes": "65536",
        "replica.lag.time.max.ms": "3000",
    }
    filler = small_disk / "filler"
    with LocalCluster(3, tmp_path / "cluster", settings=settings) as cluster:
        cluster.brokers[0].stop()
        shutil.move(cluster.brokers[0].data, small_disk / "data")
        os.symlink(small_disk / "data", cluster.brokers[0].data)
        cluster.brokers[0].start()
        with (
            tidelog.Admin(bootstrap_servers=cluster.bootstrap) as admin,
            tidelog.Producer(bootstrap_servers=cluster.bootstrap) as producer,
        ):
            until(lambda: len(admin.describe_cluster().brokers) == 3)
            new = NewTopic("t", num_partitions=1, replica_assignment=[[0, 1, 2]])
            foreign = AdminClient({"bootstrap.servers": cluster.bootstrap})
            foreign.create_topics([new])["t"].result(PATIENCE_S)

            def state() -> PartitionDescription:
                return admin.describe_topics(["t"])["t"].partitions[0]

            until(lambda: len(state().isr) == 3)
            assert state().leader == 0
            producer.send("t", b"before").result(PATIENCE_S)
            with suppress(OSError), filler.open("wb") as file:
                while True:
                    file.write(bytes(1 << 16))
            for number in range(20):
                producer.send("t", bytes(64 * 1024), key=b"%d" % number).result(PATIENCE_S)
            assert state().leader != 0
            assert "is handed on to broker" in cluster.brokers[0].log()
            filler.unlink()
            until(lambda: len(state().isr) == 3)
        messages = read_all(cluster.bootstrap, "t", 0)
        assert [each.key() for each in messages] == [None, *(b"%d" % n for n in range(20))]


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
