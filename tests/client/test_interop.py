"""Other clients on the other side: they read what we write, we read what they write, and share groups."""

import itertools
import time
from collections.abc import Callable

import pytest

from tidelog import Consumer, Producer, TopicPartition

confluent_kafka = pytest.importorskip("confluent_kafka")
kafka = pytest.importorskip("kafka")

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


@pytest.mark.parametrize("codec", CODECS)
def test_confluent_reads_what_we_write(
    bootstrap: str, topic: str, codec: str, unique: Callable[[str], str]
) -> None:
    with Producer(bootstrap_servers=bootstrap, compression_type=codec) as producer:
        for number in range(100):
            producer.send(topic, b"%d" % number, key=b"k", headers={"h": b"1"}, partition=0)
    theirs = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": unique("group")})
    theirs.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    found = []
    while len(found) < 100:
        found += theirs.consume(100 - len(found), timeout=10)
    theirs.close()
    assert [each.value() for each in found] == [b"%d" % number for number in range(100)]
    assert found[0].headers() == [("h", b"1")]


@pytest.mark.parametrize("codec", CODECS)
def test_we_read_what_confluent_writes(bootstrap: str, topic: str, codec: str) -> None:
    theirs = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "compression.type": codec})
    for number in range(100):
        theirs.produce(topic, b"%d" % number, partition=0, headers={"h": b"1"})
    theirs.flush(10)
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        found = list(itertools.islice(consumer, 100))
    assert [each.value for each in found] == [b"%d" % number for number in range(100)]
    assert found[0].headers == (("h", b"1"),)


def test_keys_go_where_kafka_pythons_go(bootstrap: str, topic: str) -> None:
    keys = [b"key %d" % number for number in range(30)]
    theirs = kafka.KafkaProducer(bootstrap_servers=bootstrap)
    placed = [theirs.send(topic, key=key, value=b"x").get(10).partition for key in keys]
    theirs.close()
    with Producer(bootstrap_servers=bootstrap) as producer:
        ours = [producer.send(topic, key=key, value=b"x") for key in keys]
        producer.flush()
    assert [each.result().partition for each in ours] == placed


@pytest.mark.parametrize(
    ("theirs_strategy", "our_strategy"),
    [
        ("range", "range"),
        ("roundrobin", "roundrobin"),
        ("cooperative-sticky", "cooperative-sticky"),
    ],
)
def test_a_group_with_librdkafka(
    bootstrap: str,
    topic: str,
    unique: Callable[[str], str],
    theirs_strategy: str,
    our_strategy: str,
) -> None:
    group = unique("group")
    theirs = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "partition.assignment.strategy": theirs_strategy,
            "heartbeat.interval.ms": 100,
        }
    )
    theirs.subscribe([topic])
    with Consumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        partition_assignment_strategy=our_strategy,
        heartbeat_interval_ms=100,
        topics=topic,
    ) as ours:
        until = time.monotonic() + 30
        while True:
            assert time.monotonic() < until
            theirs.poll(0.05)
            ours.poll(timeout=0.05)
            mine = ours.assigned()
            other = {TopicPartition(each.topic, each.partition) for each in theirs.assignment()}
            if mine and other and len(mine) + len(other) == 3:
                break
        assert mine.isdisjoint(other)
    theirs.close()
