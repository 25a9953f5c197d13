"""`kill -9` between the steps of transactions: readers of committed records see whole ones only, each once."""

import os
import random
import threading
import time
from collections import Counter
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from load import PATIENCE_S, create_topic

from tidelog.testing.local_broker import LocalBroker

pytestmark = pytest.mark.faults

HURRY = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100, "retry.backoff.ms": 20}
PARTITIONS = 2
SECONDS = float(os.environ.get("TIDELOG_EXACTLY_ONCE_SECONDS", "8"))
"""How long consumers, producers and the broker are killed."""
STALLED_S = 10.0
"""A life that takes no step for so long is over."""


def make_producer(broker: LocalBroker, transactional_id: str = "mine") -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": 60_000,
            **HURRY,
        }
    )
    producer.init_transactions(PATIENCE_S)
    return producer


def make_consumer(broker: LocalBroker, group: str, **more: Any) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": group,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 6_000,
            **HURRY,
            **more,
        }
    )


def read_committed(broker: LocalBroker, topic: str) -> list[bytes]:
    """Everything in all partitions, up to their ends."""
    consumer = make_consumer(broker, "readers", **{"enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
    values: list[bytes] = []
    ended: set[int] = set()
    while len(ended) < PARTITIONS:
        message = consumer.poll(PATIENCE_S)
        assert message is not None, "a transaction was left open"
        if message.error() is None:
            values.append(message.value())
        else:
            ended.add(message.partition())
    consumer.close()
    return values


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_kills_between_all_steps(broker: LocalBroker, commit: bool) -> None:
    broker.start()
    create_topic(broker.bootstrap, "t", partitions=PARTITIONS)
    expected: list[bytes] = []
    for killed_after in range(6):
        producer = make_producer(broker)
        values = [b"%d-%d" % (killed_after, index) for index in range(PARTITIONS)]
        offset = TopicPartition("t", 0, 100 + killed_after)
        metadata = make_consumer(broker, "g").consumer_group_metadata()
        steps = [
            lambda: None,
            producer.begin_transaction,
            lambda: _send(producer, 0, values[0]),  # noqa: B023  (called in this round)
            lambda: _send(producer, 1, values[1]),  # noqa: B023
            lambda: producer.send_offsets_to_transaction([offset], metadata, PATIENCE_S),  # noqa: B023
            lambda: (producer.commit_transaction if commit else producer.abort_transaction)(  # noqa: B023
                PATIENCE_S
            ),
        ]
        for number, step in enumerate(steps):
            step()
            if number == killed_after:
                broker.restart(kill=True)
        if commit:
            expected += values
    assert sorted(read_committed(broker, "t")) == sorted(expected)
    consumer = make_consumer(broker, "g")
    (found,) = consumer.committed([TopicPartition("t", 0)], PATIENCE_S)
    consumer.close()
    assert found.offset == (105 if commit else -1001)


def _send(producer: Producer, partition: int, value: bytes) -> None:
    producer.produce("t", value, partition=partition)
    assert producer.flush(PATIENCE_S) == 0


def test_a_killed_producer_is_aborted_by_its_successor(broker: LocalBroker) -> None:
    broker.start()
    create_topic(broker.bootstrap, "t", partitions=PARTITIONS)
    for number in range(3):
        abandoned = make_producer(broker)
        abandoned.begin_transaction()
        _send(abandoned, 0, b"left %d" % number)
        broker.restart(kill=True)
    last = make_producer(broker)
    last.begin_transaction()
    _send(last, 1, b"whole")
    last.commit_transaction(PATIENCE_S)
    assert read_committed(broker, "t") == [b"whole"]


class Source(threading.Thread):
    """Feeds `in` with numbers until it is told to stop; none of them twice (idempotence)."""

    def __init__(self, broker: LocalBroker) -> None:
        super().__init__(daemon=True)
        self._producer = Producer(
            {"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, **HURRY}
        )
        self._stopping = threading.Event()
        self.count = 0

    def run(self) -> None:
        while not self._stopping.wait(0.01):
            for _ in range(10):
                self._producer.produce("in", b"%d" % self.count, partition=self.count % PARTITIONS)
                self.count += 1
            self._producer.poll(0)

    def stop(self) -> None:
        self._stopping.set()
        self.join()
        assert self._producer.flush(PATIENCE_S) == 0


class Worker(threading.Thread):
    """Copies `in` to `out` in transactions; now and then it is replaced, as if its process had died."""

    def __init__(self, broker: LocalBroker) -> None:
        super().__init__(daemon=True)
        self._broker = broker
        self._random = random.Random(7)
        self.done = 0
        """Records whose transaction is known to be committed; there may be more."""
        self.lives = 0
        self.wanted: int | None = None
        """How many to copy in all, once that is known."""
        self.error: BaseException | None = None
        self._steps = 0
        self._finished = False

    def run(self) -> None:
        while not self._finished and self.error is None:
            life = threading.Thread(target=self._live, daemon=True)
            life.start()
            steps = -1
            # librdkafka may wait for a group's coordinator for ever, whatever the time-out (its issue 5456).  Such a
            # life is left alone, as if its process had hung: the group sends it away, its successor fences it.
            while life.is_alive() and steps != self._steps:
                steps = self._steps
                life.join(STALLED_S)
            self.lives += 1

    def _live(self) -> None:
        try:
            self._finished = self._life() or self._finished
        except BaseException as error:  # noqa: BLE001  (told to the test)
            self.error = error

    def _life(self) -> bool:
        """Copy until death; True if there is nothing left to do."""
        consumer = make_consumer(self._broker, "workers", **{"max.poll.interval.ms": 10_000})
        try:
            # This ends what the life before has left open, and with it the doubt about its offsets.
            producer = make_producer(self._broker, "worker")
            if self._is_finished(consumer):
                return True
            consumer.subscribe(["in"])
            while self._copy(producer, consumer):
                pass
        except KafkaException:
            pass  # whatever it was: the next life begins with what is committed
        finally:
            consumer.close()
        return False

    def _is_finished(self, consumer: Consumer) -> bool:
        """As the group's committed offsets have it: a life may have ended before it heard of its commit."""
        if self.wanted is None:
            return False
        places = [TopicPartition("in", index) for index in range(PARTITIONS)]
        found = consumer.committed(places, PATIENCE_S)
        return sum(max(each.offset, 0) for each in found) >= self.wanted

    def _copy(self, producer: Producer, consumer: Consumer) -> bool:
        """One transaction; False if this life is over."""
        batch = [each for each in consumer.consume(100, 1.0) if each.error() is None]
        self._steps += 1
        if not batch:
            return self.wanted is None
        producer.begin_transaction()
        for message in batch:
            producer.produce("out", message.value(), partition=message.partition())
        positions = consumer.position(consumer.assignment())
        metadata = consumer.consumer_group_metadata()
        producer.send_offsets_to_transaction(positions, metadata, PATIENCE_S)
        if self._random.random() < 0.05:
            producer.flush(PATIENCE_S)
            return False  # dies with the transaction open
        producer.commit_transaction(PATIENCE_S)
        self.done += len(batch)
        return True


def test_every_input_goes_out_exactly_once(broker: LocalBroker) -> None:
    moments = random.Random(11)
    broker.start()
    for topic in ("in", "out"):
        create_topic(broker.bootstrap, topic, partitions=PARTITIONS)
    source, worker = Source(broker), Worker(broker)
    source.start()
    worker.start()
    ends = time.monotonic() + SECONDS
    while time.monotonic() < ends:
        worker.join(moments.uniform(0.2, 3.0))
        broker.restart(kill=True)
    source.stop()
    worker.wanted = source.count
    worker.join(180)
    assert worker.error is None
    assert not worker.is_alive(), f"{worker.done} of {source.count} after {worker.lives} lives"
    seen = Counter(read_committed(broker, "out"))
    assert seen == Counter(b"%d" % number for number in range(source.count))
