"""The producer against a real broker."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from tidelog import Admin, Consumer, Producer, SimpleConsumer, TopicPartition
from tidelog.client.partitioning import partition_of
from tidelog.errors import (
    DeliveryFailed,
    KafkaError,
    MessageTooLarge,
    NetworkException,
    RequestTimedOut,
    SettingsError,
    TidelogError,
    UnknownTopicOrPartition,
)
from tidelog.testing.fixture import Tidelog
from tidelog.testing.local_broker import LocalBroker


def everything(bootstrap: str, topic: str, partition: int) -> list[bytes]:
    with SimpleConsumer(bootstrap_servers=bootstrap) as consumer:
        found: list[bytes] = []
        (end,) = consumer.offsets_before(topic, partition, -1)
        while len(found) < end:
            found += [message.value for message in consumer.fetch(topic, partition, len(found))]
        return found


FORGETFUL = """
import sys, tidelog
producer = tidelog.Producer(bootstrap_servers=sys.argv[1], linger_ms=60_000)
for number in range(1000):
    producer.send(sys.argv[2], b"%d" % number, partition=0)
if sys.argv[3:]:
    import os, signal
    os.kill(int(sys.argv[3]), signal.SIGKILL)
"""


def test_a_program_that_ends_without_a_flush_loses_nothing(bootstrap: str, topic: str) -> None:
    command = [sys.executable, "-c", FORGETFUL, bootstrap, topic]
    ended = subprocess.run(command, capture_output=True, timeout=60, check=True)
    assert ended.stderr == b""
    assert everything(bootstrap, topic, 0) == [b"%d" % number for number in range(1000)]


def test_a_program_that_ends_without_its_broker_tells_what_is_lost(
    own_broker: LocalBroker, unique: Callable[[str], str]
) -> None:
    command = [sys.executable, "-c", FORGETFUL, own_broker.bootstrap, unique("lost")]
    ended = subprocess.run(
        [*command, str(own_broker.pid)], capture_output=True, timeout=60, check=True
    )
    assert b"1000 records were not acknowledged" in ended.stderr
    assert b"Traceback" not in ended.stderr


def test_a_delivery_tells_where(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        first = producer.send(topic, b"one", partition=1, timestamp=1234)
        second = producer.send(topic, b"two", partition=1)
        assert first.result(10) == (topic, 1, 0, 1234)
        assert second.result(10).offset == 1
        assert second.exception() is None
        assert second.done()


def test_keys_headers_and_nulls_arrive(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        placed = producer.send(topic, None, key=b"k", headers={"a": b"1", "b": None}).result(10)
        assert placed.partition == partition_of(b"k", 3)
    with SimpleConsumer(bootstrap_servers=bootstrap) as consumer:
        (message,) = consumer.fetch(topic, placed.partition, 0)
    assert (message.key, message.value) == (b"k", None)
    assert message.headers == (("a", b"1"), ("b", None))


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("acks", ["all", "1"])
def test_codecs_and_acks(bootstrap: str, topic: str, codec: str, acks: str) -> None:
    sent = [b"%d " % number * 20 for number in range(2000)]
    with Producer(
        bootstrap_servers=bootstrap, compression_type=codec, acks=acks, batch_size=8000
    ) as producer:
        deliveries = producer.send_many(topic, sent, partition=0)
    assert [each.result().offset for each in deliveries] == list(range(2000))
    assert everything(bootstrap, topic, 0) == sent


def test_nobody_is_asked_with_no_acks(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(topic, b"w", partition=0).result(10)  # the partition is ready
    with Producer(bootstrap_servers=bootstrap, acks=0) as producer:
        assert producer.send(topic, b"x", partition=0).result(10).offset == -1
        producer.send(topic, b"y", partition=0)
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        assert [next(iter(consumer)).value for _ in range(3)] == [b"w", b"x", b"y"]


def test_serializers_and_an_own_partitioner(bootstrap: str, topic: str) -> None:
    with Producer(
        bootstrap_servers=bootstrap,
        key_serializer=str.encode,
        value_serializer=lambda number: b"%d" % number,
        partitioner=lambda topic, key, value, count: value % count,
    ) as producer:
        placed = [producer.send(topic, value, key="same") for value in range(6)]
    assert [each.result().partition for each in placed] == [0, 1, 2, 0, 1, 2]
    assert everything(bootstrap, topic, 2) == [b"2", b"5"]


def test_a_set_of_messages_may_hold_nulls_and_fill_many_batches(bootstrap: str, topic: str) -> None:
    sent = [b"x" * 100, None, b"", b"y" * 3000] * 50
    with Producer(bootstrap_servers=bootstrap, batch_size=2000) as producer:
        deliveries = producer.send_many(topic, iter(sent))
    assert len(deliveries) == len(sent)
    assert len({each.result()[:3] for each in deliveries}) == len(sent)


def test_callbacks_and_threads(bootstrap: str, topic: str) -> None:
    done: list[int] = []
    with Producer(bootstrap_servers=bootstrap, linger_ms=1) as producer:

        def work() -> None:
            for _ in range(500):
                delivery = producer.send(topic, b"x")
                delivery.add_done_callback(lambda each: done.append(each.result().offset))

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(done) == 1500


def test_threads_that_share_batches_lose_and_mix_up_nothing(bootstrap: str, topic: str) -> None:
    deliveries: dict[int, list] = {number: [] for number in range(4)}
    with Producer(bootstrap_servers=bootstrap, batch_size=20_000, linger_ms=1) as producer:

        def work(number: int) -> None:
            for turn in range(5_000):
                key = b"key %d" % (turn % 5) if turn % 2 else None
                sent = producer.send(topic, b"%d:%d" % (number, turn), key=key, timestamp=turn + 1)
                deliveries[number].append(sent)

        threads = [threading.Thread(target=work, args=(number,)) for number in deliveries]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = {partition: everything(bootstrap, topic, partition) for partition in range(3)}
    assert sum(len(values) for values in found.values()) == 20_000
    for number, sent in deliveries.items():
        for turn, delivery in enumerate(sent):
            where = delivery.result()
            assert found[where.partition][where.offset] == b"%d:%d" % (number, turn)
            assert where.timestamp == turn + 1


def test_a_time_that_is_none_is_refused(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        with pytest.raises(ValueError, match="not in milliseconds since 1970"):
            producer.send(topic, b"x", timestamp=1 << 62)
        with pytest.raises(TypeError):
            producer.send(topic, b"x", timestamp="now")  # type: ignore[arg-type]
        with pytest.raises((TypeError, AttributeError)):
            producer.send(topic, b"x", headers=[("a", 5)])  # type: ignore[list-item]
        assert producer.send(topic, b"x", timestamp=5).result().timestamp == 5


def test_order_is_kept_and_nothing_doubled_over_restarts(own_broker: LocalBroker) -> None:
    with Admin(bootstrap_servers=own_broker.bootstrap) as admin:
        admin.create_topics({"t": 1})
    with Producer(
        bootstrap_servers=own_broker.bootstrap, batch_size=2000, retry_backoff_ms=20
    ) as producer:
        deliveries = []
        for number in range(6000):
            deliveries.append(producer.send("t", b"%d" % number))
            if number in (2000, 4000):
                own_broker.restart(kill=number == 4000)
        producer.flush(60)
        assert [each.result().offset for each in deliveries] == list(range(6000))
    assert everything(own_broker.bootstrap, "t", 0) == [b"%d" % n for n in range(6000)]


def test_what_is_refused_fails_alone_and_the_rest_goes_on(
    bootstrap: str, admin: Admin, unique: Callable[[str], str]
) -> None:
    topic = unique("small")
    admin.create_topics({topic: 1}, configs={"max.message.bytes": "1000"})
    with Producer(bootstrap_servers=bootstrap, batch_size=0) as producer:
        deliveries = [producer.send(topic, b"x" * size) for size in (10, 5000, 20, 30)]
        with pytest.raises(DeliveryFailed, match="1 record"):
            producer.flush(30)
    with pytest.raises(MessageTooLarge, match=r"max\.message\.bytes"):
        deliveries[1].result()
    assert [deliveries[place].result().offset for place in (0, 2, 3)] == [0, 1, 2]


def test_memory_that_stays_full_is_an_error(own_broker: LocalBroker) -> None:
    with Producer(
        bootstrap_servers=own_broker.bootstrap,
        buffer_memory=10_000,
        max_request_size=10_000,
        max_block_ms=300,
        delivery_timeout_ms=1500,
    ) as producer:
        producer.send("t", b"x").result(10)
        own_broker.kill()
        with pytest.raises(RequestTimedOut, match=r"buffer\.memory=10000"):
            producer.send_many("t", [b"x" * 1000] * 20)
        with pytest.raises(DeliveryFailed, match=r"delivery\.timeout\.ms"):
            producer.flush(30)


def test_a_delivery_that_takes_too_long_has_failed(own_broker: LocalBroker) -> None:
    with Producer(bootstrap_servers=own_broker.bootstrap, delivery_timeout_ms=500) as producer:
        producer.send("t", b"x").result(10)
        own_broker.kill()
        late = producer.send("t", b"y")
        assert isinstance(late.exception(30), KafkaError)


def test_errors_name_the_value_and_the_cure(bootstrap: str, topic: str) -> None:
    with (
        Producer(bootstrap_servers="127.0.0.1:1", retry_backoff_ms=1) as lost,
        pytest.raises(
            NetworkException, match=r"bootstrap\.servers=127\.0\.0\.1:1 .*check the address"
        ),
    ):
        lost.send(topic, b"x")
    with Producer(bootstrap_servers=bootstrap) as producer:
        with pytest.raises(TypeError, match="value is str, not bytes"):
            producer.send(topic, "text")
        with pytest.raises(UnknownTopicOrPartition, match="partitions 0 to 2, not 9"):
            producer.send(topic, b"x", partition=9)
        with pytest.raises(KafkaError, match="'no spaces' is not a legal topic name"):
            producer.send("no spaces", b"x")
        wrong: list[object] = [{"a": "text"}, {1: b""}, [("a",)]]
        for headers in wrong:
            with pytest.raises(TypeError, match=r"headers .* must be pairs of str and bytes"):
                producer.send(topic, b"x", headers=headers)
    with pytest.raises(TidelogError, match="closed"):
        producer.send(topic, b"x")
    with pytest.raises(SettingsError, match="must be host:port"):
        Producer(bootstrap_servers="localhost")
    with pytest.raises(SettingsError, match="at most 5"):
        Producer(bootstrap_servers=bootstrap, max_in_flight_requests_per_connection=6)


def test_a_forked_child_is_told(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(topic, b"x").result(10)
        child = os.fork()
        if not child:
            try:
                producer.send(topic, b"y")
            except TidelogError as error:
                os._exit(0 if "forked" in str(error) else 1)
            os._exit(2)
        assert os.waitpid(child, 0)[1] == 0
        assert producer.send(topic, b"z").result(10)


def test_flush_leaves_nothing_behind(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap, linger_ms=60_000) as producer:
        delivery = producer.send(topic, b"x")
        assert not delivery.done()
        producer.flush()
        assert delivery.done()
        assert producer.partitions_for(topic) == [0, 1, 2]
    assert TopicPartition(topic, delivery.result().partition)


def test_order_is_kept_when_the_first_batch_to_a_partition_is_refused(
    tidelog: Tidelog,
) -> None:
    """A broker that knows nothing of a producer takes any sequence number for its first."""
    topic = tidelog.topic(partitions=1)
    sent = [b"%d" % number + bytes(500) for number in range(100)]
    with Producer(
        bootstrap_servers=tidelog.bootstrap, batch_size=2000, retry_backoff_ms=10
    ) as producer:
        tidelog.faults.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=1)
        deliveries = [producer.send(topic, value) for value in sent]
        producer.flush()
    assert [each.result().offset for each in deliveries] == list(range(100))
    assert everything(tidelog.bootstrap, topic, 0) == sent
