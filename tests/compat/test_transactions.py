"""Transactional producers of foreign clients: commit, abort, fencing, and offsets that go along."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

pytestmark = pytest.mark.compat

PATIENCE_S = 90.0
COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"


class Confluent:
    """librdkafka."""

    name = "confluent-kafka"

    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int = 30_000) -> None:
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout_ms,
            }
        )

    def init(self) -> None:
        self._producer.init_transactions(PATIENCE_S)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, partition: int, value: bytes) -> None:
        self._producer.produce(topic, value, partition=partition)
        self._producer.flush(PATIENCE_S)

    def send_offsets(self, consumer: Any) -> None:
        positions = consumer.position(consumer.assignment())
        self._producer.send_offsets_to_transaction(
            positions, consumer.consumer_group_metadata(), PATIENCE_S
        )

    def commit(self) -> None:
        self._producer.commit_transaction(PATIENCE_S)

    def abort(self) -> None:
        self._producer.abort_transaction(PATIENCE_S)

    def close(self) -> None:
        self._producer.purge()


class KafkaPython:
    name = "kafka-python"

    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int = 30_000) -> None:
        self._producer = kafka.KafkaProducer(
            bootstrap_servers=bootstrap,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
        )

    def init(self) -> None:
        self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, partition: int, value: bytes) -> None:
        self._producer.send(topic, value, partition=partition).get(PATIENCE_S)

    def commit(self) -> None:
        self._producer.commit_transaction()

    def abort(self) -> None:
        self._producer.abort_transaction()

    def close(self) -> None:
        self._producer.close(timeout=PATIENCE_S)


@pytest.fixture(params=[Confluent, KafkaPython], ids=lambda each: each.name)
def make(request: pytest.FixtureRequest, bootstrap: str) -> Iterator[Callable[[str], Any]]:
    """Makes transactional producers, which the end of the test closes."""
    made: list[Any] = []

    def make(transactional_id: str) -> Any:
        made.append(request.param(bootstrap, transactional_id))
        return made[-1]

    yield make
    for producer in made:
        producer.close()


@pytest.fixture
def topic(bootstrap: str, unique: Callable[[str], str]) -> str:
    """A topic of two partitions."""
    name = unique("transactions")
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, 2, 1)])[name].result(PATIENCE_S)
    return name


def read(bootstrap: str, topic: str, isolation: str) -> list[bytes]:
    """Everything that a reader of this isolation level sees now, both partitions, sorted."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "readers",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, index, 0) for index in (0, 1)])
    values: list[bytes] = []
    ended: set[int] = set()
    deadline = time.monotonic() + PATIENCE_S
    while len(ended) < 2:
        message = consumer.poll(1.0)
        assert time.monotonic() < deadline
        if message is None:
            continue
        if message.error() is None:
            values.append(message.value())
        else:
            ended.add(message.partition())
    consumer.close()
    return sorted(values)


def test_committed_and_aborted(make: Callable[[str], Any], bootstrap: str, topic: str) -> None:
    producer = make(f"id-of-{topic}")
    producer.init()
    for number, commit in enumerate((True, False, True, False)):
        producer.begin()
        for partition in (0, 1):
            producer.send(topic, partition, b"%d-%d" % (number, partition))
        if commit:
            producer.commit()
        else:
            producer.abort()
    assert read(bootstrap, topic, COMMITTED) == [b"0-0", b"0-1", b"2-0", b"2-1"]
    everything = [b"%d-%d" % (number, partition) for number in range(4) for partition in (0, 1)]
    assert read(bootstrap, topic, UNCOMMITTED) == everything


def test_a_successor_fences(make: Callable[[str], Any], bootstrap: str, topic: str) -> None:
    zombie = make(f"id-of-{topic}")
    zombie.init()
    zombie.begin()
    zombie.send(topic, 0, b"zombie")
    successor = make(f"id-of-{topic}")
    successor.init()
    successor.begin()
    successor.send(topic, 0, b"successor")
    with pytest.raises((confluent_kafka.KafkaException, kafka.errors.KafkaError)):
        zombie.commit()
    successor.commit()
    assert read(bootstrap, topic, COMMITTED) == [b"successor"]


def test_readers_wait_for_the_end(make: Callable[[str], Any], bootstrap: str, topic: str) -> None:
    producer = make(f"id-of-{topic}")
    producer.init()
    producer.begin()
    producer.send(topic, 0, b"open")
    assert read(bootstrap, topic, COMMITTED) == []
    assert read(bootstrap, topic, UNCOMMITTED) == [b"open"]
    producer.commit()
    assert read(bootstrap, topic, COMMITTED) == [b"open"]


def test_offsets_go_along(bootstrap: str, topic: str, unique: Callable[[str], str]) -> None:
    """Consume, transform, produce: an aborted attempt leaves neither records nor offsets."""
    output = unique("output")
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(output, 2, 1)])[output].result(PATIENCE_S)
    source = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    for number in range(20):
        source.produce(topic, b"%02d" % number, partition=number % 2)
    assert source.flush(PATIENCE_S) == 0
    producer = Confluent(bootstrap, f"id-of-{topic}")
    producer.init()
    for attempt in range(4):
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"group-of-{topic}",
                "isolation.level": COMMITTED,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
            }
        )
        consumer.subscribe([topic])
        batch = [each for each in consumer.consume(10, PATIENCE_S) if each.error() is None]
        assert len(batch) == 10
        producer.begin()
        for message in batch:
            producer.send(output, message.partition(), message.value())
        producer.send_offsets(consumer)
        if attempt % 2:
            producer.commit()
        else:
            producer.abort()
        consumer.close()
    assert read(bootstrap, output, COMMITTED) == [b"%02d" % number for number in range(20)]
    assert len(read(bootstrap, output, UNCOMMITTED)) == 40


def test_a_forgotten_transaction_ends_by_itself(own_broker: Any) -> None:
    setting = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
    own_broker.settings[setting] = "100"
    own_broker.restart()
    admin = AdminClient({"bootstrap.servers": own_broker.bootstrap})
    admin.create_topics([NewTopic("t", 2, 1)])["t"].result(PATIENCE_S)
    producer = Confluent(own_broker.bootstrap, "forgetful", timeout_ms=1_000)
    producer.init()
    producer.begin()
    producer.send("t", 0, b"forgotten")
    plain = confluent_kafka.Producer({"bootstrap.servers": own_broker.bootstrap})
    plain.produce("t", b"behind", partition=0)
    assert plain.flush(PATIENCE_S) == 0
    deadline = time.monotonic() + PATIENCE_S
    while read(own_broker.bootstrap, "t", COMMITTED) != [b"behind"]:
        assert time.monotonic() < deadline
    with pytest.raises(confluent_kafka.KafkaException):
        producer.commit()
