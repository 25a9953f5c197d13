"""What clients measure of themselves."""

from collections.abc import Callable

import pytest

from tidelog import Admin, Consumer, Producer, TopicPartition
from tidelog.client.metrics import WINDOW_S, Sensor
from tidelog.errors import DeliveryFailed


class Hands:
    """A clock that is moved by hand."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_sensor_looks_back_two_windows() -> None:
    clock = Hands()
    sensor = Sensor(clock)
    sensor.record(10)
    clock.now += 10
    sensor.record(30)
    assert (sensor.average, sensor.maximum, sensor.rate) == (20, 30, 4)
    clock.now += WINDOW_S - 10
    sensor.record(2)
    assert (sensor.average, sensor.maximum) == (14, 30)
    assert sensor.rate == 42 / WINDOW_S
    clock.now += WINDOW_S
    assert (sensor.average, sensor.maximum) == (2, 2)
    clock.now += 10 * WINDOW_S
    assert (sensor.average, sensor.maximum, sensor.rate) == (0, 0, 0)
    assert (sensor.total, sensor.total_count) == (42, 3)


def test_a_sensor_that_is_young_does_not_boast() -> None:
    sensor = Sensor(Hands())
    sensor.record(5)
    assert sensor.rate == 5  # of one second, though no time has passed


def test_the_producer_s(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send_many(topic, [b"x" * 100] * 50, partition=0)
        producer.flush()
        found = producer.metrics()
    assert found["record-send-total"] == 50
    assert found["record-error-total"] == found["record-retry-total"] == 0
    assert 5000 < found["batch-size-avg"] <= found["batch-size-max"] < 7000
    assert found["record-queue-time-avg"] > 0
    assert found["request-latency-avg"] > 0
    assert found["records-per-request-avg"] == 50
    assert found["buffer-available-bytes"] == found["buffer-total-bytes"]
    assert found["requests-in-flight"] == 0
    assert found["connection-count"] >= 1
    assert found["outgoing-byte-total"] > 5000


def test_failures_are_counted(bootstrap: str, admin: Admin, unique: Callable[[str], str]) -> None:
    topic = unique("narrow")
    admin.create_topics({topic: 1}, configs={"max.message.bytes": "500"})
    with Producer(bootstrap_servers=bootstrap, linger_ms=50) as producer:
        producer.send_many(topic, [b"x" * 300, b"y" * 600, b"z" * 300])
        with pytest.raises(DeliveryFailed, match="1 record"):
            producer.flush()
        found = producer.metrics()
    assert found["record-error-total"] == 1
    assert found["batch-split-total"] >= 1
    assert found["record-retry-total"] >= 3


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_consumer_s(
    bootstrap: str, topic: str, unique: Callable[[str], str], protocol: str
) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send_many(topic, [b"x" * 100] * 50, partition=0)
    with Consumer(
        bootstrap_servers=bootstrap,
        group_id=unique("group"),
        group_protocol=protocol,
        topics=topic,
        auto_offset_reset="earliest",
    ) as consumer:
        read = 0
        while read < 10:
            read += len(consumer.poll(max_records=10 - read, timeout=60))
        found = consumer.metrics()
        assert found["records-lag-max"] == 40
        while read < 50:
            read += len(consumer.poll(timeout=60))
        consumer.commit({TopicPartition(topic, 0): 50})
        found = consumer.metrics()
    assert found["records-lag-max"] == 0
    assert found["records-consumed-total"] == 50
    assert found["bytes-consumed-total"] > 5000
    assert found["fetch-latency-avg"] > 0
    assert found["fetch-size-max"] > 5000
    assert found["fetch-total"] >= 1
    assert found["assigned-partitions"] == 3
    assert found["commit-total"] == 1
    assert found["rebalance-total"] >= 1


def test_the_admin_s(admin: Admin) -> None:
    admin.list_topics()
    found = admin.metrics()
    assert found["request-total"] >= 1
    assert found["response-rate"] > 0
    assert all(isinstance(value, float) for value in found.values())
