"""The producer for threads: `send` encodes in the caller's thread, an `AsyncProducer` in the background does the rest."""

import logging
import os
import time
import weakref
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Unpack

from tidelog.client.accumulator import BufferFull
from tidelog.client.background import Blocking, LoopThread, blocking, drop
from tidelog.client.batch import Delivery
from tidelog.client.closing import CLOSE_TIMEOUT_S
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
from tidelog.client.observing import Observer
from tidelog.client.options import ProducerOptions
from tidelog.client.partitioning import Partitioner
from tidelog.client.producer import LAST_WAIT_S, AsyncProducer, MetadataMissing, Serializer
from tidelog.client.settings import ProducerSettings
from tidelog.client.transaction_blocks import TransactionBlock
from tidelog.errors import TidelogError

_log = logging.getLogger(__name__)


@answering
class Producer(Blocking[AsyncProducer]):
    """A producer for threads; `send` may be called from several of them.

        with Producer(bootstrap_servers="localhost:9092") as producer:
            delivery = producer.send("orders", b"42 apples", key=b"alice")
            print(delivery.result().offset)

    Options that matter; `help(tidelog.client.options.ProducerOptions)` lists all of them:

    bootstrap_servers   addresses of some brokers: "host:port", or a list of them
    compression_type    none, gzip, snappy, lz4 or zstd
    linger_ms           how long a batch waits for more records (5)
    batch_size          bytes at which it does not (262144)
    acks                who must have a record: "all", 1 for the leader, 0 for nobody
    delivery_timeout_ms when a record that is not acknowledged has failed (120000)
    buffer_memory       bytes that may wait; then `send` waits up to max_block_ms
    transactional_id    makes the producer transactional: see `transaction`
    key_serializer, value_serializer   functions to bytes
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
        audit: Observer | bool = False,
        **options: Unpack[ProducerOptions],
    ) -> None:
        def make() -> AsyncProducer:
            return AsyncProducer(
                config,
                key_serializer=key_serializer,
                value_serializer=value_serializer,
                partitioner=partitioner,
                interceptors=interceptors,
                on_delivery=on_delivery,
                audit=audit,
                **options,
            )

        super().__init__(make, "tidelog-producer")
        self._append = self._core.append
        self._drafts = self._core.accumulator.drafts
        self._plain = self._core.plain
        self._finish_with(partial(_send_the_rest, self._thread, self._core))
        os.register_at_fork(after_in_child=partial(_after_fork, weakref.ref(self)))

    def send(
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
        """Queue a record; blocks only for metadata the first time, and for memory when there is none.

        `on_delivery(error, metadata)` is called, by the client's thread, when it is known what became of it.  `timestamp` is
        another name of `timestamp_ms`.
        """
        if timestamp is not None:
            timestamp_ms = timestamp
        if partition is None and not headers and self._plain:
            drafts = self._drafts.get(topic)
            if drafts is not None:
                delivery = drafts.add(value, key, timestamp_ms)
                if delivery is not None:
                    if on_delivery is not None:
                        tell(delivery, on_delivery)
                    return delivery
        if self._core.interceptors:
            given = ProducerRecord(topic, value, key, headers_of(headers), timestamp_ms, partition)
            topic, value, key, headers, timestamp_ms, partition = intercepted(
                self._core.interceptors, given
            )
        try:
            delivery = self._append(topic, value, key, headers, timestamp_ms, partition)
        except (MetadataMissing, BufferFull):
            delivery = (
                None  # and not from here, so that what goes wrong next is not told as a consequence
            )
        if delivery is None:
            delivery = self._send_slowly(topic, value, key, headers, timestamp_ms, partition)
        if on_delivery is not None:
            tell(delivery, on_delivery)
        return delivery

    def send_many(
        self, topic: str, values: Iterable[Any], *, key: Any = None, partition: int | None = None
    ) -> list[Delivery]:
        """Queue a set of messages; they travel in one batch as far as they fit."""
        if key is not None or partition is not None or not self._plain:
            return [self.send(topic, value, key, (), None, partition) for value in values]
        everything = values if isinstance(values, list | tuple) else list(values)
        deliveries: list[Delivery] = []
        while len(deliveries) < len(everything):
            drafts = self._drafts.get(topic)
            some = drafts.add_many(everything, len(deliveries)) if drafts is not None else []
            # What has no room there, or is not plain bytes, goes the long way, which makes room.
            deliveries += some or [self.send(topic, everything[len(deliveries)])]
        return deliveries

    def flush(self, timeout: float | None = None) -> None:
        """Send everything now and wait until it is settled; raises DeliveryFailed for failures that nobody has looked at."""
        self._thread.check_process()
        self._thread.check_other()
        until = None if timeout is None else time.monotonic() + timeout
        for batch in self._core.accumulator.seal_all():
            left = None if until is None else max(0.0, until - time.monotonic())
            if not batch.wait_settled(left):
                raise TimeoutError(f"not everything was acknowledged within {timeout} s")
        self._core.failures.check()

    def metrics(self) -> dict[str, float]:
        """What the producer has measured of itself, under the names of Kafka's manual."""
        return self._core.metrics()

    def transaction(self) -> TransactionBlock:
        """`with` it: a transaction that commits if the block ends well, and aborts if not."""
        return TransactionBlock(self)

    def commit_transaction(self) -> None:
        """Send everything, and make it visible at once; TransactionFailed if that cannot be, and it must be aborted."""
        self._core.accumulator.seal_all()  # encoded in this thread
        self._thread.run(self._core.commit_transaction())

    def abort_transaction(self, timeout: float | None = None) -> None:
        """Drop what was not sent, and have readers of committed records never see the rest."""
        self._thread.run(self._core.abort_transaction(), timeout)

    partitions_for = blocking(AsyncProducer.partitions_for)
    init_transactions = blocking(AsyncProducer.init_transactions)
    begin_transaction = blocking(AsyncProducer.begin_transaction)
    send_offsets = blocking(AsyncProducer.send_offsets)

    def close(self, timeout: float = CLOSE_TIMEOUT_S) -> None:
        """Flush for `timeout` seconds at most, then let go of the brokers; DeliveryFailed tells what was not delivered.

        Calling it again does nothing.  A transaction that is open is aborted.
        """
        self._thread.check_other()
        self._plain = False  # so that `send` asks whether it is closed
        if not self._core.closed and self._core.transactions is None:
            self._core.accumulator.seal_all()  # encoded in this thread
        super().close(timeout)

    def forked(self) -> None:
        """The thread that sends is not in this process."""
        self._plain = False
        self._core.closed = True

    def _send_slowly(self, topic: str, *rest: Any) -> Delivery:
        accumulator = self._core.accumulator
        until = time.monotonic() + self._core.settings.max_block_ms / 1000
        self._thread.run(self._core.learn(topic, rest[-1]))
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
        if core.transactions is not None:
            with suppress(TidelogError, TimeoutError):
                thread.run(core.close(LAST_WAIT_S))  # aborts what nobody has committed
            return
        until = time.monotonic() + LAST_WAIT_S
        batches = core.accumulator.seal_all()
        lost = sum(
            each.count for each in batches if not each.wait(max(0.0, until - time.monotonic()))
        )
        if lost:
            _log.error(
                "%d records were not acknowledged when their producer was dropped: call flush() or close() first",
                lost,
            )
        if (failed := core.failures.take()) is not None:
            _log.error("%s", failed)
    finally:
        drop(thread, core)


def _after_fork(producer: "weakref.ref[Producer]") -> None:
    if (found := producer()) is not None:
        found.forked()
