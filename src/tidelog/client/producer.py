"""The producer.

    with Producer(bootstrap_servers="localhost:9092") as producer:
        delivery = producer.send("orders", b"...", key=b"42")
        print(delivery.result().offset)

`send` returns at once with a `Delivery`; records gather into batches, which a background task sends.  `AsyncProducer`
(as `tidelog.aio.Producer`) is the same on the caller's own loop: `await` its `send`, and await the delivery.

With a transactional id everything is sent in transactions, whole or not at all:

    with producer.transaction():
        producer.send("orders", b"...")
        producer.send_offsets(consumer.positions(), consumer.group_metadata())
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Unpack

from tidelog.client.accumulator import Accumulator, BufferFull
from tidelog.client.batch import Batch, Delivery
from tidelog.client.closing import Closing
from tidelog.client.cluster import Cluster, TopicInfo
from tidelog.client.group_requests import CommittedOffset, GroupMetadata, offsets_given
from tidelog.client.habits import answering
from tidelog.client.interceptors import (
    Headers,
    Interceptor,
    OnDelivery,
    ProducerRecord,
    headers_of,
    intercepted,
    tell,
)
from tidelog.client.keywords import Keywords
from tidelog.client.metrics import ProducerMetrics
from tidelog.client.observing import Observer, standard_observer
from tidelog.client.options import ProducerOptions
from tidelog.client.partitioning import Partitioner, partition_of
from tidelog.client.sender import Sender
from tidelog.client.settings import ProducerSettings, load
from tidelog.client.transaction_blocks import AsyncTransactionBlock
from tidelog.client.transactions import Transactions
from tidelog.clock import Clock, SystemClock
from tidelog.errors import RequestTimedOut, SettingsError, TidelogError, UnknownTopicOrPartition
from tidelog.kernel import COMPILED
from tidelog.names import TopicPartition

Serializer = Callable[[Any], bytes | None]

LAST_WAIT_S = 5.0
"""How long the end of a program may wait for what nobody flushed."""

_log = logging.getLogger(__name__)


class MetadataMissing(Exception):
    """The topic's partitions are not known yet, or not the one that was named."""


@answering
class AsyncProducer(Closing):
    """A producer on the running loop.

        async with aio.Producer(bootstrap_servers="localhost:9092") as producer:
            delivery = await producer.send("orders", b"42 apples", key=b"alice")
            print((await delivery).offset)

    The options that matter are those of `tidelog.Producer`.
    """

    __signature__ = Keywords(ProducerSettings)

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        *,
        key_serializer: Serializer | None = None,
        value_serializer: Serializer | None = None,
        partitioner: Partitioner | None = None,
        interceptors: Iterable[Interceptor] = (),
        on_delivery: OnDelivery | None = None,
        clock: Clock | None = None,
        audit: Observer | bool = False,
        **options: Unpack[ProducerOptions],
    ) -> None:
        """`audit` counts what is delivered: True for `tidelog.audit`'s way, or an observer of your own."""
        self.settings = load(ProducerSettings, config, options)
        _check(self.settings)
        self._clock = clock or SystemClock()
        self._serialize_key = key_serializer
        self._serialize_value = value_serializer
        self._partitioner = partitioner
        self.interceptors = tuple(interceptors)
        self.on_delivery = on_delivery
        self._metrics = ProducerMetrics()
        self.cluster = Cluster(
            self.settings, auto_create=True, metrics=self._metrics, on_topic=self._follow
        )
        self._observer = standard_observer() if audit is True else audit or None
        self._stamp = () if self._observer is None else self._observer.stamp
        self.accumulator = Accumulator(self.settings, self._clock, self._wake, self._stamp)
        self._sender = Sender(
            self.cluster,
            self.accumulator,
            self.settings,
            self._clock,
            self._metrics,
            None if self._observer is None else self._observer.delivered,
        )
        self._metrics.gauge("buffer-total-bytes", lambda: self.settings.buffer_memory)
        self._metrics.gauge(
            "buffer-available-bytes",
            lambda: self.settings.buffer_memory - self.accumulator.used_bytes,
        )
        self.transactions = self._sender.transactions
        self.failures = self._sender.failures
        self.plain = COMPILED and not (
            key_serializer or value_serializer or partitioner or interceptors or on_delivery
        )
        """Whether a record may be added to an open draft as it is; interpreted, that needs the lock."""
        self.closed = False
        if self._observer is not None:
            self._observer.begin(self)

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Headers | None = None,
        timestamp_ms: int | None = None,
        partition: int | None = None,
        on_delivery: OnDelivery | None = None,
        timestamp: int | None = None,
    ) -> Delivery:
        """Queue a record; waits only for metadata the first time, and for memory when there is none.

        `on_delivery(error, metadata)` is called when it is known what became of it.  `timestamp` is another name of `timestamp_ms`.
        """
        if timestamp is not None:
            timestamp_ms = timestamp
        if partition is None and not headers and self.plain and not self.closed:
            drafts = self.accumulator.drafts.get(topic)
            if drafts is not None:
                delivery = drafts.add(value, key, timestamp_ms)
                if delivery is not None:
                    if on_delivery is not None:
                        tell(delivery, on_delivery)
                    return delivery
        if self.interceptors:
            given = ProducerRecord(topic, value, key, headers_of(headers), timestamp_ms, partition)
            topic, value, key, headers, timestamp_ms, partition = intercepted(
                self.interceptors, given
            )
        delivery = await self._queue(topic, value, key, headers, timestamp_ms, partition)
        if on_delivery is not None:
            tell(delivery, on_delivery)
        return delivery

    async def _queue(
        self,
        topic: str,
        value: Any,
        key: Any,
        headers: Headers | None,
        timestamp_ms: int | None,
        partition: int | None,
    ) -> Delivery:
        info = self.cluster.topics.get(topic)
        if info is None or (partition is not None and partition not in info.partitions):
            await self.learn(topic, partition)
        deadline = None
        while True:
            try:
                return self.append(topic, value, key, headers, timestamp_ms, partition)
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

    async def send_batch(self, topic: str, partition: int, data: bytearray) -> Batch:
        """Queue a whole encoded batch (v2, no gaps) as it is; its records are not looked at, and `data` is ours from now on.

        What becomes of it is told by the batch: `wait_done` it, then look at its `error` and `base_offset`.
        """
        if self.closed:
            raise TidelogError("the producer is closed, or was made before this process was forked")
        if self.transactions is not None:
            self.transactions.check_open()
        info = self.cluster.topics.get(topic)
        if info is None or partition not in info.partitions:
            await self.learn(topic, partition)
        deadline = self._clock.monotonic() + self.settings.max_block_ms / 1000
        while True:
            try:
                return self.accumulator.put(topic, partition, data)
            except BufferFull:
                if self._clock.monotonic() >= deadline:
                    raise self.out_of_memory() from None
            await self._room()

    async def flush(self) -> None:
        """Send everything now and wait until it is settled; raises DeliveryFailed for failures that nobody has looked at."""
        await self._settle()
        self.failures.check()

    async def _settle(self) -> None:
        for batch in self.accumulator.seal_all():
            await wait_done(batch)

    async def partitions_for(self, topic: str) -> list[int]:
        """The partitions of the topic."""
        return list((await self.learn(topic)).partitions)

    # Transactions.

    def transaction(self) -> AsyncTransactionBlock:
        """`async with` it: a transaction that commits if the block ends well, and aborts if not."""
        return AsyncTransactionBlock(self)

    async def init_transactions(self) -> None:
        """Fence older producers of the same transactional id, and end what they left open; `begin` does so if need be."""
        await self._transactional().init()

    async def begin_transaction(self) -> None:
        """Begin a transaction: what is sent from now on belongs to it."""
        await self._transactional().begin()

    async def commit_transaction(self) -> None:
        """Send everything, and make it visible at once; TransactionFailed if that cannot be, and it must be aborted."""
        mine = self._transactional()
        if self._observer is not None:
            await self._settle()
            await self._observer.committing()
        mine.begin_commit()
        await self._settle()
        await mine.finish_commit()
        if self._observer is not None:
            self._observer.ended(committed=True)

    async def abort_transaction(self) -> None:
        """Drop what was not sent, and have readers of committed records never see the rest."""
        mine = self._transactional()
        mine.begin_abort()
        await self._settle()
        await mine.finish_abort()
        if self._observer is not None:
            self._observer.ended(committed=False)

    async def send_offsets(
        self,
        offsets: Mapping[TopicPartition, int | CommittedOffset],
        group: GroupMetadata | str,
    ) -> None:
        """Commit a group's offsets with the transaction; the group is a consumer's `group_metadata()`, or a bare name."""
        wanted = offsets_given(offsets)
        named = GroupMetadata(group) if isinstance(group, str) else group
        await self._transactional().send_offsets(wanted, named)

    def _transactional(self) -> Transactions:
        if self.closed:
            raise TidelogError("the producer is closed, or was made before this process was forked")
        if self.transactions is None:
            raise SettingsError("transactional.id is not set; give the producer one")
        return self.transactions

    def metrics(self) -> dict[str, float]:
        """What the producer has measured of itself, under the names of Kafka's manual."""
        return self._metrics.read()

    async def finish(self) -> None:
        """Send everything, and wait until it is settled; a transaction that is open is aborted."""
        if self.transactions is not None and self.transactions.may_send:
            await self._abort_quietly()
        if self._observer is not None:
            await self._settle()
            await self._observer.closing()
        self.closed = True
        await self._settle()
        if self.settings.acks_number == 0:
            await self.cluster.drain(LAST_WAIT_S)  # nobody has told that it left

    async def let_go(self) -> None:
        """Give up what was not acknowledged, and tell of it."""
        self.closed = True
        await self._sender.close()
        await self.cluster.close()
        self.failures.check()

    def abandon(self) -> None:
        self.cluster.abandon()

    # What both faces share.

    def append(
        self,
        topic: str,
        value: Any,
        key: Any,
        headers: Headers | None,
        timestamp_ms: int | None,
        partition: int | None,
    ) -> Delivery:
        """Queue a record if that can be done at once; from any thread."""
        if self.closed:
            raise TidelogError("the producer is closed, or was made before this process was forked")
        if self.transactions is not None:
            self.transactions.check_open()
        info = self.cluster.topics.get(topic)
        if info is None or (partition is not None and partition not in info.partitions):
            raise MetadataMissing
        if partition is None and self._partitioner is not None:
            partition = self._partitioner(topic, key, value, info.candidates.total)
            if partition not in info.partitions:
                raise UnknownTopicOrPartition(
                    f"the partitioner chose partition {partition}, but topic {topic!r} has 0 to {len(info.partitions) - 1}"
                )
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
                partition = partition_of(key, info.candidates.total)
        pairs = headers_of(headers) if headers else ()
        if self._stamp:
            pairs = (*pairs, *self._stamp)
        delivery = self.accumulator.append(
            topic, partition, info.candidates, timestamp_ms, key, value, pairs
        )
        if self.on_delivery is not None:
            tell(delivery, self.on_delivery)
        return delivery

    async def send_encoded(self, topic: str, value: bytes, key: bytes) -> Delivery:
        """Queue a record past the serialisers, the partitioner and the stamps: for an observer's own records."""
        info = await self.learn(topic)
        number = partition_of(key, info.candidates.total)
        return self.accumulator.append(topic, number, info.candidates, None, key, value, ())

    async def learn(self, topic: str, partition: int | None = None) -> TopicInfo:
        """The topic's metadata, waited for at most max.block.ms; asked anew if they do not name the partition."""
        info = await self.cluster.topic(topic, self.settings.max_block_ms / 1000)
        if partition is not None and partition not in info.partitions:
            await self.cluster.refresh([topic])  # it may have grown
            info = await self.cluster.topic(topic, self.settings.max_block_ms / 1000)
            if partition not in info.partitions:
                raise UnknownTopicOrPartition(
                    f"topic {topic!r} has partitions 0 to {len(info.partitions) - 1}, not {partition}"
                )
        return info

    def out_of_memory(self) -> RequestTimedOut:
        return RequestTimedOut(
            f"buffer.memory={self.settings.buffer_memory} was full for max.block.ms={self.settings.max_block_ms}; "
            "send less fast, or raise it"
        )

    def _wake(self) -> None:
        self._sender.wake()

    def _follow(self, info: TopicInfo) -> None:
        self.accumulator.follow(info.name, info.candidates)

    async def _abort_quietly(self) -> None:
        """Nobody has ended the transaction: do not let readers wait until its time is over."""
        try:
            async with asyncio.timeout(LAST_WAIT_S):
                await self.abort_transaction()
        except (TidelogError, TimeoutError) as error:
            _log.warning("the transaction that was open could not be aborted: %s", error)

    async def _room(self) -> None:
        """Wait until a batch is done."""
        batch = next(iter(self.accumulator.pending), None)
        if batch is not None:
            self.accumulator.seal_all()
            await wait_done(batch)


def _check(settings: ProducerSettings) -> None:
    if settings.transactional_id and not settings.idempotent:
        raise SettingsError(
            f"transactional.id={settings.transactional_id!r} needs acks=all and enable.idempotence=true"
        )
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


async def wait_done(batch: Batch) -> None:
    """Wait until it is known what became of the batch."""
    if batch.done:
        return
    loop = asyncio.get_running_loop()
    done = asyncio.Event()

    def wake() -> None:
        loop.call_soon_threadsafe(done.set)

    batch.when_done(wake)
    await done.wait()
