"""Numbered messages written without pause, and what became of them.

A `Load` sends 0, 1, 2, … with librdkafka, number n to partition n % partitions, until it is finished.  It
outlives the broker: what was not acknowledged is sent again when the broker is back.
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

PATIENCE_S = 90.0  # how long a test waits for something that must happen; never a measurement

_RECONNECT_FAST = {"reconnect.backoff.ms": 5, "reconnect.backoff.max.ms": 20, "retry.backoff.ms": 5}


def create_topic(
    bootstrap: str, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None
) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = NewTopic(topic, num_partitions=partitions, config=dict(configs or {}))
    admin.create_topics([new])[topic].result(PATIENCE_S)


class Load:
    """Writes from a thread between `with` and the end of it; the end waits for every acknowledgement."""

    def __init__(self, bootstrap: str, topic: str, partitions: int = 1, **settings: object) -> None:
        self.topic = topic
        self.partitions = partitions
        self.sent = 0
        self.acknowledged: list[int] = []
        self.acknowledged_offset = [-1] * partitions
        """The highest offset that was acknowledged in each partition."""
        self.failed: list[KafkaError] = []
        self._padding = b"." * 100
        self._changed = threading.Condition()
        self._finish = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 1,
                "message.timeout.ms": 0,  # never give up
                "queue.buffering.max.messages": 2000,
                "batch.num.messages": 100,
                "topic.metadata.refresh.interval.ms": 1000,
                "log_level": 0,
                **_RECONNECT_FAST,
                **settings,
            }
        )
        self._thread = threading.Thread(target=self._run, daemon=True)

    def wait_for_acknowledgements(self, more: int) -> None:
        """Return when `more` messages have been acknowledged since this call."""
        with self._changed:
            goal = len(self.acknowledged) + more
            done = self._changed.wait_for(
                lambda: len(self.acknowledged) >= goal or self.failed, PATIENCE_S
            )
        assert not self.failed, self.failed[:3]
        assert done, f"stuck at {len(self.acknowledged)} of {goal} acknowledgements"

    def finish(self) -> None:
        """Send no more, and wait until all that was sent has been acknowledged."""
        self._finish.set()
        self._thread.join(PATIENCE_S)
        left = self._producer.flush(PATIENCE_S)
        assert left == 0, f"{left} messages were never acknowledged"
        assert not self.failed, self.failed[:3]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._finish.set()
        self._thread.join(PATIENCE_S)
        if kind is None:
            self.finish()
        else:
            self._producer.purge()

    def _run(self) -> None:
        while not self._finish.is_set():
            try:
                self._producer.produce(
                    self.topic,
                    b"%d %s" % (self.sent, self._padding),
                    partition=self.sent % self.partitions,
                    on_delivery=self._delivered,
                )
            except BufferError:
                self._producer.poll(0.01)
            else:
                self.sent += 1
                self._producer.poll(0)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        with self._changed:
            if error is not None:
                self.failed.append(error)
            else:
                self.acknowledged.append(int((message.value() or b"").split()[0]))
                partition, offset = message.partition() or 0, message.offset() or 0
                highest = self.acknowledged_offset[partition]
                self.acknowledged_offset[partition] = max(highest, offset)
            self._changed.notify_all()


@contextmanager
def reader(bootstrap: str, **settings: object) -> Iterator[Consumer]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "checker",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            **_RECONNECT_FAST,
            **settings,
        }
    )
    try:
        yield consumer
    finally:
        consumer.close()


def read_all(bootstrap: str, topic: str, partition: int) -> list[Message]:
    """Everything that a partition holds, to its end."""
    with reader(bootstrap) as consumer:
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
        messages: list[Message] = []
        while True:
            some = consumer.consume(1000, 0.05)
            for message in some:
                error = message.error()
                if error is None:
                    messages.append(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    return messages
                else:
                    raise AssertionError(error)


def check_exactly_once(bootstrap: str, load: Load) -> None:
    """Every number that was sent is there once, and in order."""
    for partition in range(load.partitions):
        values = (each.value() or b"" for each in read_all(bootstrap, load.topic, partition))
        found = [int(value.split()[0]) for value in values]
        expected = list(range(partition, load.sent, load.partitions))
        assert found == expected, _difference(found, expected)


def _difference(found: list[int], expected: list[int]) -> str:
    lost = sorted(set(expected) - set(found))
    repeated = len(found) - len(set(found))
    return (
        f"{len(found)} messages, expected {len(expected)}; lost {lost[:5]} ({len(lost)} in all), "
        f"{repeated} repeated, in order: {found == sorted(found)}"
    )
