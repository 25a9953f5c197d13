"""A producer's batch: the records of one partition that travel together, and what became of them.

It is open while records are added, sealed once its bytes are made, and done when it is acknowledged or has failed.
`Delivery` is the future of one record in it; thousands of them share their batch's one outcome.
"""

import asyncio
import threading
from collections.abc import Callable, Generator
from typing import Any, NamedTuple

from tidelog.kernel import encode_records
from tidelog.names import TopicPartition
from tidelog.records.batch import HEADER_BYTES, LOG_OVERHEAD, BatchHeader
from tidelog.records.builder import write_header
from tidelog.records.compression import Codec, compress

Row = tuple[int, bytes | None, bytes | None, Any]
"""Timestamp, key, value, headers: what the kernel encodes."""


class RecordMetadata(NamedTuple):
    """Where a record was written; the offset is -1 if nobody was asked (acks=0)."""

    topic: str
    partition: int
    offset: int
    timestamp: int


class Batch:
    """One batch of one partition."""

    __slots__ = (
        "_callbacks",
        "_event",
        "_lock",
        "attempts",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "count",
        "data",
        "deadline",
        "done",
        "error",
        "log_append_time",
        "max_timestamp",
        "opened_at",
        "partition",
        "place",
        "reserved",
        "room",
        "rows",
        "sealed",
        "timestamps",
    )

    def __init__(self, partition: TopicPartition, opened_at: float, deadline: float) -> None:
        self.partition = partition
        self.opened_at = opened_at
        self.deadline = deadline
        self.place = 0
        """Among the batches of its partition, in the order in which they were begun."""
        self.rows: list[Row] = []
        # Invariant: 0 <= room <= reserved; the records take what lies between, about.
        self.reserved = 0
        self.room = 0
        # Set when it is sealed.
        self.sealed = False
        self.data = bytearray()
        self.count = 0
        self.timestamps: list[int] = []
        self.base_timestamp = self.max_timestamp = -1
        # Set when it is sent.
        self.attempts = 0
        self.base_sequence = -1
        # Set when it is done.
        self.done = False
        self.error: Exception | None = None
        self.base_offset = -1
        self.log_append_time = -1
        self._lock = threading.Lock()
        self._event: threading.Event | None = None
        self._callbacks: list[Callable[[], None]] = []

    def seal(self, codec: Codec, level: int | None) -> None:
        """Make the bytes, all but what is known only when it is sent."""
        rows = self.rows
        self.count = len(rows)
        self.timestamps = [row[0] for row in rows]
        self.base_timestamp = rows[0][0]
        self.max_timestamp = max(self.timestamps)
        body = compress(codec, encode_records(rows, self.base_timestamp), level)
        self.data = bytearray(HEADER_BYTES)
        self.data += body
        self.rows = []
        self.sealed = True

    def number(self, codec: Codec, producer_id: int, epoch: int, sequence: int) -> None:
        """Write the header for this producer and place in its sequence; -1 for those who do not count."""
        self.base_sequence = sequence
        header = BatchHeader(
            base_offset=0,
            length=len(self.data) - LOG_OVERHEAD,
            leader_epoch=-1,
            magic=2,
            crc=0,
            attributes=int(codec),
            last_offset_delta=self.count - 1,
            base_timestamp=self.base_timestamp,
            max_timestamp=self.max_timestamp,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            count=self.count,
        )
        write_header(self.data, 0, header)

    def finish(
        self, base_offset: int = -1, log_append_time: int = -1, error: Exception | None = None
    ) -> None:
        """Settle all deliveries at once."""
        self.base_offset, self.log_append_time, self.error = base_offset, log_append_time, error
        self.data = bytearray()
        with self._lock:
            self.done = True
            callbacks, self._callbacks = self._callbacks, []
            if self._event is not None:
                self._event.set()
        for callback in callbacks:
            callback()

    def when_done(self, callback: Callable[[], None]) -> None:
        """Call back when the batch is done, at once if it is; from the thread that settles it."""
        with self._lock:
            if not self.done:
                self._callbacks.append(callback)
                return
        callback()

    def wait(self, timeout_s: float | None) -> bool:
        """Block until the batch is done; False if the time was over first."""
        with self._lock:
            if self.done:
                return True
            if self._event is None:
                self._event = threading.Event()
        return self._event.wait(timeout_s)


class Delivery:
    """The outcome of one record, now or later; `await` it, or call `result`."""

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: Batch, index: int) -> None:
        self._batch = batch
        self._index = index

    def done(self) -> bool:
        return self._batch.done

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Where the record was written; blocks until it is known, raises what went wrong."""
        batch = self._batch
        if not batch.done and not batch.wait(timeout):
            raise TimeoutError(f"no acknowledgement from {batch.partition} within {timeout} s")
        if batch.error is not None:
            raise batch.error
        offset = batch.base_offset
        timestamp = batch.log_append_time
        return RecordMetadata(
            *batch.partition,
            offset + self._index if offset >= 0 else -1,
            timestamp if timestamp >= 0 else batch.timestamps[self._index],
        )

    def exception(self, timeout: float | None = None) -> Exception | None:
        """What went wrong, or None; blocks until it is known."""
        batch = self._batch
        if not batch.done and not batch.wait(timeout):
            raise TimeoutError(f"no acknowledgement from {batch.partition} within {timeout} s")
        return batch.error

    def add_done_callback(self, callback: "Callable[[Delivery], None]") -> None:
        """Call back with this delivery when it is known; from the client's thread, so be brief."""
        self._batch.when_done(lambda: callback(self))

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        if not self._batch.done:
            loop = asyncio.get_running_loop()
            future: asyncio.Future[None] = loop.create_future()

            def settle() -> None:
                if not future.done():
                    future.set_result(None)

            def wake() -> None:
                loop.call_soon_threadsafe(settle)

            self._batch.when_done(wake)
            yield from future
        return self.result()
