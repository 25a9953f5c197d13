"""The producer.

    with Producer(bootstrap_servers="localhost:9092") as producer:
        delivery = producer.send("orders", b"...", key=b"42")
        print(delivery.result().offset)

`send` returns at once with a `Delivery`; records gather into batches, which a background task sends.  `AsyncProducer`
(as `tidelog.aio.Producer`) is the same on the caller's own loop: `await` its `send`, and await the delivery.
Absent: transactions.
"""

import asyncio
import logging
import os
import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from tidelog.client.accumulator import Accumulator, BufferFull
from tidelog.client.background import Blocking, LoopThread
from tidelog.client.batch import Batch, Delivery
from tidelog.client.closing import Closing
from tidelog.client.cluster import Cluster, TopicInfo
from tidelog.client.partitioning import Partitioner, partition_of
from tidelog.client.sender import Sender
from tidelog.client.settings import ProducerSettings, load
from tidelog.clock import Clock, SystemClock
from tidelog.errors import RequestTimedOut, SettingsError, TidelogError, UnknownTopicOrPartition

Serializer = Callable[[Any], bytes | None]
Headers = Mapping[str, bytes | None] | Iterable[tuple[str, bytes | None]]


_LAST_WAIT_S = 5.0
"""How long the end of a program may wait for what nobody flushed."""

_log = logging.getLogger(__name__)


class _MetadataMissing(Exception):
    """The topic's partitions are not known yet."""


class AsyncProducer(Closing):
    """A producer on the running loop."""

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        *,
        key_serializer: Serializer | None = None,
        value_serializer: Serializer | None = None,
        partitioner: Partitioner | None = None,
        clock: Clock | None = None,
        **options: Any,
    ) -> None:
        self.settings = load(ProducerSettings, config, options)
        _check(self.settings)
        self._clock = clock or SystemClock()
        self._serialize_key = key_serializer
        self._serialize_value = value_serializer
        self._partitioner = partitioner
        self.cluster = Cluster(self.settings, auto_create=True)
        self.accumulator = Accumulator(self.settings, self._clock, self._wake)
        self._sender = Sender(self.cluster, self.accumulator, self.settings, self._clock)
        self.now_ms = self._clock.now_ms
        self.closed = False

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Headers = (),
        timestamp: int | None = None,
        partition: int | None = None,
    ) -> Delivery:
        """Queue a record; waits only for metadata the first time, and for memory when there is none."""
        if topic not in self.cluster.topics:
            await self.learn(topic)
        deadline = None
        while True:
            try:
                return self.append(topic, value, key, headers, timestamp, partition)
            except BufferFull:
                now = self._clock.monotonic()
                deadline = deadline or now + self.settings.max_block_ms / 1000
            if now >= deadline:
                raise self.out_of_memory()
            await self._room()

    async def send_many(
        self, topic: str, values: Iterable[Any], *, key: Any = None, partition: int | None = None
    ) -> list[Delivery]:
        """Queue a set of messages; they travel in one batch as far as they fit."""
        return [await self.send(topic, value, key=key, partition=partition) for value in values]

    async def flush(self) -> None:
        """Send everything now and wait until it is settled; failures are told by the deliveries."""
        for batch in self.accumulator.seal_all():
            await _done(batch)

    async def partitions_for(self, topic: str) -> list[int]:
        """The partitions of the topic."""
        return list((await self.learn(topic)).partitions)

    async def close(self) -> None:
        """Flush, then let go of the brokers; calling it again does nothing."""
        if self.closed:
            return
        self.closed = True
        try:
            await self.flush()
        finally:
            await self._sender.close()
            await self.cluster.close()

    # What both faces share.

    def append(
        self,
        topic: str,
        value: Any,
        key: Any,
        headers: Headers,
        timestamp: int | None,
        partition: int | None,
    ) -> Delivery:
        """Queue a record if that can be done at once; from any thread."""
        if self.closed:
            raise TidelogError("the producer is closed, or was made before this process was forked")
        info = self.cluster.topics.get(topic)
        if info is None:
            raise _MetadataMissing
        if partition is not None:
            if partition not in info.partitions:
                raise UnknownTopicOrPartition(
                    f"topic {topic!r} has partitions 0 to {len(info.partitions) - 1}, not {partition}"
                )
        elif self._partitioner is not None:
            partition = self._partitioner(topic, key, value, len(info.candidates))
        if self._serialize_key is not None and key is not None:
            key = self._serialize_key(key)
        if self._serialize_value is not None and value is not None:
            value = self._serialize_value(value)
        if type(value) is not bytes:
            value = _octets("value", value)
        if key is not None:
            if type(key) is not bytes:
                key = _octets("key", key)
            if partition is None:
                partition = partition_of(key, len(info.candidates))
        if headers:
            headers = tuple(headers.items() if isinstance(headers, Mapping) else headers)
        return self.accumulator.append(
            topic,
            partition,
            info.candidates,
            self.now_ms() if timestamp is None else timestamp,
            key,
            value,
            headers,  # type: ignore[arg-type]  # a tuple by now, or empty
        )

    async def learn(self, topic: str) -> TopicInfo:
        """The topic's metadata, waited for at most max.block.ms."""
        return await self.cluster.topic(topic, self.settings.max_block_ms / 1000)

    def out_of_memory(self) -> RequestTimedOut:
        return RequestTimedOut(
            f"buffer.memory={self.settings.buffer_memory} was full for max.block.ms={self.settings.max_block_ms}; "
            "send less fast, or raise it"
        )

    def _wake(self) -> None:
        self._sender.wake()

    async def _room(self) -> None:
        """Wait until a batch is done."""
        batch = next(iter(self.accumulator.pending), None)
        if batch is not None:
            self.accumulator.seal_all()
            await _done(batch)


class Producer(Blocking[AsyncProducer]):
    """A producer for threads; `send` may be called from several of them."""

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        *,
        key_serializer: Serializer | None = None,
        value_serializer: Serializer | None = None,
        partitioner: Partitioner | None = None,
        **options: Any,
    ) -> None:
        def make() -> AsyncProducer:
            return AsyncProducer(
                config,
                key_serializer=key_serializer,
                value_serializer=value_serializer,
                partitioner=partitioner,
                **options,
            )

        super().__init__(make, "tidelog-producer")
        self._append = self._core.append
        self._add = self._core.accumulator.add_to_sticky
        self._now_ms = self._core.now_ms
        self._plain = value_serializer is None and partitioner is None
        self._finish_with(partial(_send_the_rest, self._thread, self._core))
        os.register_at_fork(after_in_child=partial(_after_fork, weakref.ref(self)))

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Headers = (),
        timestamp: int | None = None,
        partition: int | None = None,
    ) -> Delivery:
        """Queue a record; blocks only for metadata the first time, and for memory when there is none."""
        if (
            key is None
            and partition is None
            and self._plain
            and not headers
            and type(value) is bytes
        ):
            delivery = self._add(topic, self._now_ms() if timestamp is None else timestamp, value)
            if delivery is not None:
                return delivery
        try:
            return self._append(topic, value, key, headers, timestamp, partition)
        except (_MetadataMissing, BufferFull):
            pass  # and not from here, so that what goes wrong next is not told as a consequence
        return self._send_slowly(topic, value, key, headers, timestamp, partition)

    def send_many(
        self, topic: str, values: Iterable[Any], *, key: Any = None, partition: int | None = None
    ) -> list[Delivery]:
        """Queue a set of messages; they travel in one batch as far as they fit."""
        if key is not None or partition is not None or not self._plain:
            return [self.send(topic, value, key, (), None, partition) for value in values]
        everything = values if isinstance(values, list | tuple) else list(values)
        add_many = self._core.accumulator.add_many_to_sticky
        deliveries: list[Delivery] = []
        while len(deliveries) < len(everything):
            some = add_many(topic, self._now_ms(), everything, len(deliveries))
            # What has no room there, or is not plain bytes, goes the long way, which makes room.
            deliveries += some or [self.send(topic, everything[len(deliveries)])]
        return deliveries

    def flush(self, timeout: float | None = None) -> None:
        """Send everything now and wait until it is settled; failures are told by the deliveries."""
        until = None if timeout is None else time.monotonic() + timeout
        for batch in self._core.accumulator.seal_all():
            left = None if until is None else max(0.0, until - time.monotonic())
            if not batch.wait(left):
                raise TimeoutError(f"not everything was acknowledged within {timeout} s")

    def partitions_for(self, topic: str) -> list[int]:
        """The partitions of the topic."""
        return self._thread.run(self._core.partitions_for(topic))

    def close(self) -> None:
        """Flush, then let go of the brokers; calling it again does nothing."""
        self._plain = False  # so that `send` asks whether it is closed
        if not self._core.closed:
            self.flush()
        super().close()

    def forked(self) -> None:
        """The thread that sends is not in this process."""
        self._plain = False
        self._core.closed = True

    def _send_slowly(self, topic: str, *rest: Any) -> Delivery:
        accumulator = self._core.accumulator
        until = time.monotonic() + self._core.settings.max_block_ms / 1000
        self._thread.run(self._core.learn(topic))
        while True:
            try:
                return self._append(topic, *rest)
            except BufferFull:
                accumulator.seal_all()
            with accumulator.room:
                left = until - time.monotonic()
                if left <= 0 or not accumulator.room.wait(left):
                    raise self._core.out_of_memory()


def _send_the_rest(thread: LoopThread, core: AsyncProducer) -> None:
    """A producer was forgotten, or lives to the end of the program: what it was given is sent all the same."""
    try:
        if core.closed or thread.is_current:
            return
        until = time.monotonic() + _LAST_WAIT_S
        batches = core.accumulator.seal_all()
        lost = sum(
            each.count for each in batches if not each.wait(max(0.0, until - time.monotonic()))
        )
        if lost:
            _log.error(
                "%d records were not acknowledged when their producer was dropped: call flush() or close() first",
                lost,
            )
    finally:
        thread.stop()


def _after_fork(producer: "weakref.ref[Producer]") -> None:
    if (found := producer()) is not None:
        found.forked()


def _check(settings: ProducerSettings) -> None:
    if settings.idempotent and settings.max_in_flight > 5:
        raise SettingsError(
            f"max.in.flight.requests.per.connection={settings.max_in_flight} must be at most 5 with "
            "enable.idempotence, since a broker remembers five batches"
        )


def _octets(what: str, value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    raise TypeError(
        f"the {what} is {type(value).__name__}, not bytes; encode it, or give the producer a {what}_serializer"
    )


async def _done(batch: Batch) -> None:
    if batch.done:
        return
    loop = asyncio.get_running_loop()
    done = asyncio.Event()

    def wake() -> None:
        loop.call_soon_threadsafe(done.set)

    batch.when_done(wake)
    await done.wait()
