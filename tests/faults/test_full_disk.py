"""A disk that is full takes its own partitions offline, and nothing else; what was acknowledged is there later."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer
from load import PATIENCE_S, create_topic, read_all

from tidelog.testing.local_broker import LocalBroker

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
