"""Quotas as confluent-kafka meets them: who gets which limit, seen by how long it is told to wait.

A request that is much larger than its limit allows is told to wait for as long as it takes to pay for it, so the throttle
time says what the limit is, on a machine of any speed.
"""

import asyncio
import time
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer, TopicPartition
from kafka import KafkaConsumer, KafkaProducer

from tidelog import Admin
from tidelog import Consumer as OurConsumer
from tidelog import Producer as OurProducer
from tidelog.testing.local_broker import LocalBroker

pytestmark = pytest.mark.compat

PATIENCE_S = 60.0
SIZE = 900_000
TOPIC = "events"
USERS = {"alice": "wonderland", "bob": "builder"}
PRODUCER, CONSUMER = "producer_byte_rate", "consumer_byte_rate"

LEVELS: list[dict[str, str | None]] = [
    {"user": "alice", "client-id": "app"},
    {"user": "alice", "client-id": None},
    {"user": "alice"},
    {"user": None, "client-id": "app"},
    {"user": None, "client-id": None},
    {"user": None},
    {"client-id": "app"},
    {"client-id": None},
]
"""The manual's table (4.9), the strongest first; None is the default."""

LIMITS = [40_000 * level for level in range(1, 9)]
"""Bytes a second of each: what is sent is between two and twenty-five seconds' worth, the least and the most to wait for."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    settings = {
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.plain.users": ",".join(f"{user}:{secret}" for user, secret in USERS.items()),
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "1",
        "quota.window.num": "3",  # two seconds' worth may be used at once
    }
    directory = tmp_path_factory.mktemp("quotas")
    with LocalBroker(directory, settings=settings, protocol="SASL_PLAINTEXT") as made:
        yield made
        assert "Traceback" not in made.log(), made.log()


@pytest.fixture
def admin(broker: LocalBroker) -> Iterator[Admin]:
    with Admin(as_user(broker, "alice", "administrator")) as made:
        if TOPIC not in made.list_topics():
            made.create_topics([TOPIC])
        yield made
        for entity, values in made.describe_client_quotas():
            made.alter_client_quotas(entity, dict.fromkeys(values))


def as_user(broker: LocalBroker, user: str, client_id: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": broker.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": USERS[user],
        "client.id": client_id,
    }


def limit_of_producer(broker: LocalBroker, user: str, client_id: str) -> float | None:
    """What a producer is limited to, by how long it has to wait; None for who has not."""
    waits: list[float] = []
    delivered: list[Any] = []
    producer = Producer(
        {
            **as_user(broker, user, client_id),
            "linger.ms": 0,
            "throttle_cb": lambda event: waits.append(event.throttle_time),
        }
    )
    producer.produce(TOPIC, bytes(SIZE), on_delivery=lambda error, _: delivered.append(error))
    deadline = time.monotonic() + PATIENCE_S
    while not delivered and time.monotonic() < deadline:
        producer.poll(0.05)
    producer.poll(0)
    assert delivered == [None]  # what is throttled is written all the same
    wait = max(waits, default=0.0)
    return SIZE / wait if wait else None


def test_the_eight_levels_of_precedence(broker: LocalBroker, admin: Admin) -> None:
    for entity, limit in zip(LEVELS, LIMITS, strict=True):
        admin.alter_client_quotas(entity, {PRODUCER: limit})
    for entity, limit in zip(LEVELS, LIMITS, strict=True):
        assert limit_of_producer(broker, "alice", "app") == pytest.approx(limit, rel=0.02), entity
        admin.alter_client_quotas(entity, {PRODUCER: None})  # the next one holds while it runs
    assert limit_of_producer(broker, "alice", "app") is None


@pytest.mark.parametrize(
    ("user", "client_id", "level"),
    [("alice", "app", 1), ("alice", "x", 2), ("bob", "app", 4), ("bob", "x", 5)],
)
def test_who_gets_which_of_all(
    broker: LocalBroker, admin: Admin, user: str, client_id: str, level: int
) -> None:
    for entity, limit in zip(LEVELS, LIMITS, strict=True):
        admin.alter_client_quotas(entity, {PRODUCER: limit})
    found = limit_of_producer(broker, user, client_id)
    assert found == pytest.approx(LIMITS[level - 1], rel=0.02)


def test_the_clients_of_a_user_share_its_limit(broker: LocalBroker, admin: Admin) -> None:
    admin.alter_client_quotas({"user": "bob"}, {PRODUCER: LIMITS[4]})
    assert limit_of_producer(broker, "bob", "one") == pytest.approx(LIMITS[4], rel=0.02)
    second = limit_of_producer(broker, "bob", "two")
    assert second is not None
    assert second < LIMITS[4] * 0.9  # it waits for what the other has used, too
    assert limit_of_producer(broker, "alice", "one") is None


def test_a_limited_producer_gets_its_limit_and_no_more(broker: LocalBroker, admin: Admin) -> None:
    """By the broker's clock, and no upper bound: a slow machine is slow."""
    limit, count, size = 200_000, 100, 10_000
    admin.alter_client_quotas({"client-id": "slow"}, {PRODUCER: limit})
    producer = Producer({**as_user(broker, "bob", "slow"), "linger.ms": 0, "batch.size": size})
    failed: list[Any] = []
    start = time.monotonic()
    for _ in range(count):
        producer.produce(TOPIC, bytes(size), on_delivery=lambda error, _: failed.append(error))
    assert producer.flush(10 * PATIENCE_S) == 0
    assert failed == [None] * count
    # Of the five seconds' worth two may come at once, and the last request is not waited for.
    assert time.monotonic() - start > 1.5


def test_a_limited_consumer_reads_all_in_its_time(broker: LocalBroker, admin: Admin) -> None:
    limit, count, size = 200_000, 10, 100_000
    admin.create_topics(["stock"])
    producer = Producer(as_user(broker, "alice", "filler"))
    for at in range(count):
        producer.produce("stock", at.to_bytes(4, "big") + bytes(size), partition=0)
    assert producer.flush(PATIENCE_S) == 0
    admin.alter_client_quotas({"user": "bob", "client-id": None}, {CONSUMER: limit})
    waits: list[float] = []
    consumer = Consumer(
        {
            **as_user(broker, "bob", "reader"),
            "group.id": "readers",
            "throttle_cb": lambda event: waits.append(event.throttle_time),
        }
    )
    consumer.assign([TopicPartition("stock", 0, 0)])
    start = time.monotonic()
    numbers = taken(consumer, count)
    elapsed = time.monotonic() - start
    consumer.close()
    assert numbers == list(range(count))
    assert waits
    assert elapsed > 1.5  # as above


def taken(consumer: Consumer, count: int) -> list[int]:
    """The numbers of `count` messages."""
    found: list[int] = []
    deadline = time.monotonic() + 10 * PATIENCE_S
    while len(found) < count and time.monotonic() < deadline:
        found += [
            int.from_bytes(each.value()[:4], "big")
            for each in consumer.consume(100, 0.2)
            if each.error() is None
        ]
    return found


def test_who_is_throttled_is_in_the_log_once(broker: LocalBroker, admin: Admin) -> None:
    admin.alter_client_quotas({"user": "alice", "client-id": "noisy"}, {PRODUCER: 42_345})
    for _ in range(3):
        limit_of_producer(broker, "alice", "noisy")
    lines = [each for each in broker.log().splitlines() if "client noisy is throttled" in each]
    assert len(lines) == 1
    assert "producer_byte_rate=42345 by the quota of user=alice, client-id=noisy" in lines[0]


@pytest.mark.parametrize("client", ["kafka-python", "aiokafka", "tidelog"])
def test_other_clients_lose_nothing_to_a_quota(
    broker: LocalBroker, admin: Admin, client: str
) -> None:
    """They are held while they write and while they read, and notice nothing but that it takes its time."""
    topic, count = f"through-{client}", 10
    admin.create_topics([topic])
    admin.alter_client_quotas({"user": "bob"}, {PRODUCER: 200_000, CONSUMER: 200_000})
    values = [at.to_bytes(4, "big") + bytes(100_000) for at in range(count)]
    round_trip = {
        "kafka-python": through_kafka_python,
        "aiokafka": through_aiokafka,
        "tidelog": through_tidelog,
    }[client]
    assert round_trip(broker, topic, values) == values


def through_kafka_python(broker: LocalBroker, topic: str, values: list[bytes]) -> list[bytes]:
    login = {
        "bootstrap_servers": broker.bootstrap,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "bob",
        "sasl_plain_password": USERS["bob"],
    }
    producer = KafkaProducer(**login)
    sent = [producer.send(topic, each) for each in values]
    for each in sent:
        each.get(PATIENCE_S)
    producer.close()
    consumer = KafkaConsumer(
        topic,
        **login,
        auto_offset_reset="earliest",
        group_id=None,
        consumer_timeout_ms=PATIENCE_S * 1000,
    )
    found = [each.value for each in islice(consumer, len(values))]
    consumer.close()
    return found


def through_aiokafka(broker: LocalBroker, topic: str, values: list[bytes]) -> list[bytes]:
    login = {
        "bootstrap_servers": broker.bootstrap,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "bob",
        "sasl_plain_password": USERS["bob"],
    }

    async def run() -> list[bytes]:
        async with AIOKafkaProducer(**login) as producer:
            for each in values:
                await producer.send(topic, each)
            await producer.flush()
        async with (
            AIOKafkaConsumer(topic, **login, auto_offset_reset="earliest") as consumer,
            asyncio.timeout(10 * PATIENCE_S),
        ):
            return [(await consumer.getone()).value for _ in values]

    return asyncio.run(run())


def through_tidelog(broker: LocalBroker, topic: str, values: list[bytes]) -> list[bytes]:
    login = as_user(broker, "bob", "ours")
    with OurProducer(login) as producer:
        for each in values:
            producer.send(topic, each)
    with OurConsumer({**login, "auto.offset.reset": "earliest"}, topics=[topic]) as consumer:
        return [each.value for each in islice(consumer, len(values))]
