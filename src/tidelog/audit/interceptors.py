"""The audit for producers of others: confluent-kafka's and aiokafka's.

    producer = audit_confluent(confluent_kafka.Producer(config))
    producer.produce("orders", b"…")          # as before; stamped, counted when delivered
    producer.close()                          # or leave the `with` block: publishes the rest

    producer = audit_aiokafka(AIOKafkaProducer(bootstrap_servers=…))

Everything else is handed through to the producer inside.  A message is counted when its delivery is reported, so call
`poll` or `flush` as you do anyway.  Absent: transactions of theirs; what was aborted is counted.
"""

import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tidelog.audit.counter import TierCounter
from tidelog.audit.encoding import EventWriter
from tidelog.audit.events import TOPIC
from tidelog.audit.producing import SERVER_HEADER
from tidelog.audit.windows import WINDOW_MS, window_of

_INTERVAL_S = 10.0
_LOG_APPEND_TIME = 1


class _Counting:
    """What both have: stamps, counts, and when to publish them."""

    def __init__(self, tier: str, window_ms: int, interval_s: float, registry: str | None) -> None:
        self.window_ms = window_ms
        self.interval_s = interval_s
        self.writer = EventWriter(registry)
        self._server = socket.gethostname().encode()
        self._counter = TierCounter(tier, window_ms=window_ms)
        self._lock = threading.Lock()
        self._due = time.monotonic() + interval_s

    def stamped(self, headers: Any) -> list[tuple[str, bytes | None]]:
        given: Iterable[Any] = headers.items() if isinstance(headers, Mapping) else headers or ()
        return [*given, (SERVER_HEADER, self._server)]

    def delivered(self, topic: str, timestamp_ms: int) -> None:
        if topic != TOPIC:
            with self._lock:
                self._counter.count(topic, {window_of(timestamp_ms, self.window_ms): 1})

    def due(self) -> bool:
        if time.monotonic() < self._due:
            return False
        self._due = time.monotonic() + self.interval_s
        return True

    def take(self) -> list[tuple[bytes, bytes]]:
        """Keys and values to publish."""
        with self._lock:
            events = self._counter.take()
            self._counter.published()
        return [(event.key, self.writer.write(event)) for event in events]


class AuditedConfluentProducer:
    """A `confluent_kafka.Producer` that counts."""

    def __init__(self, producer: Any, counting: _Counting) -> None:
        self._producer = producer
        self._counting = counting

    def produce(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int = -1,
        on_delivery: Callable[[Any, Any], None] | None = None,
        timestamp: int = 0,
        headers: Any = None,
        callback: Callable[[Any, Any], None] | None = None,
    ) -> None:
        """As the original; the message carries the time, and this server's name in a header."""
        stamp = timestamp or time.time_ns() // 1_000_000
        told = on_delivery or callback

        def settle(error: Any, message: Any) -> None:
            if error is None:
                self._counting.delivered(topic, message.timestamp()[1])
            if told is not None:
                told(error, message)

        self._producer.produce(
            topic,
            value,
            key,
            partition,
            on_delivery=settle,
            timestamp=stamp,
            headers=self._counting.stamped(headers),
        )
        if self._counting.due():
            self.publish()

    def publish(self) -> None:
        """Publish what was counted so far."""
        for key, value in self._counting.take():
            self._producer.produce(TOPIC, value, key)

    def close(self) -> None:
        """Flush, then publish the rest."""
        self._producer.flush()
        self.publish()
        self._producer.flush()

    def __enter__(self) -> "AuditedConfluentProducer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._producer)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)


class AuditedAiokafkaProducer:
    """An `aiokafka.AIOKafkaProducer` that counts."""

    def __init__(self, producer: Any, counting: _Counting) -> None:
        self._producer = producer
        self._counting = counting

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Any = None,
    ) -> Any:
        """As the original; the message carries the time, and this server's name in a header."""
        stamp = timestamp_ms or time.time_ns() // 1_000_000
        headers = self._counting.stamped(headers)
        future = await self._producer.send(topic, value, key, partition, stamp, headers)

        def settle(done: Any) -> None:
            if not done.cancelled() and done.exception() is None:
                # Its own timestamp says the batch's time, unless the broker has set that for all.
                by_broker = done.result().timestamp_type == _LOG_APPEND_TIME
                at = done.result().timestamp if by_broker else stamp
                self._counting.delivered(topic, at)

        future.add_done_callback(settle)
        if self._counting.due():
            await self.publish()
        return future

    async def send_and_wait(self, topic: str, *rest: Any, **named: Any) -> Any:
        """As the original."""
        return await (await self.send(topic, *rest, **named))

    async def publish(self) -> None:
        """Publish what was counted so far."""
        for key, value in self._counting.take():
            await self._producer.send(TOPIC, value, key)

    async def stop(self) -> None:
        """Flush, publish the rest, stop."""
        await self._producer.flush()
        await self.publish()
        await self._producer.stop()

    async def __aenter__(self) -> "AuditedAiokafkaProducer":
        await self._producer.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)


def audit_confluent(
    producer: Any,
    *,
    tier: str = "producer",
    window_ms: int = WINDOW_MS,
    interval_s: float = _INTERVAL_S,
    registry: str | None = None,
) -> AuditedConfluentProducer:
    """Put the audit around a `confluent_kafka.Producer`."""
    return AuditedConfluentProducer(producer, _Counting(tier, window_ms, interval_s, registry))


def audit_aiokafka(
    producer: Any,
    *,
    tier: str = "producer",
    window_ms: int = WINDOW_MS,
    interval_s: float = _INTERVAL_S,
    registry: str | None = None,
) -> AuditedAiokafkaProducer:
    """Put the audit around an `aiokafka.AIOKafkaProducer` without serialisers."""
    return AuditedAiokafkaProducer(producer, _Counting(tier, window_ms, interval_s, registry))
