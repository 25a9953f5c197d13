"""A producer's batch: the records of one partition that travel together, and what became of them.

It is open while records are added to its draft, sealed once its bytes are made, and done when it is acknowledged or has
failed.  `Delivery` is the future of one record in it; thousands of them share their batch's one outcome.
"""

import asyncio
import bisect
import logging
import threading
from array import array
from collections.abc import Callable, Generator, Iterator
from typing import Any

from tidelog.client.failures import FailedBatch
from tidelog.kernel import decode_records
from tidelog.kernel.drafts import Delivery, Draft
from tidelog.kernel.records import DecodedRecord, encode_headers
from tidelog.names import RecordMetadata, TopicPartition
from tidelog.records.batch import (
    HEADER_BYTES,
    LOG_OVERHEAD,
    TRANSACTIONAL,
    BatchHeader,
    parse_header,
    records_of,
)
from tidelog.records.builder import write_header
from tidelog.records.compression import Codec, compress

__all__ = ["Batch", "Delivery", "ReadyBatch", "RecordMetadata"]

_log = logging.getLogger(__name__)


class Batch:
    """One batch of one partition."""

    REUSABLE = True
    """Whether its memory may be used again for another."""

    __slots__ = (
        "_callbacks",
        "_event",
        "_lock",
        "_settled",
        "attempts",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "count",
        "data",
        "deadline",
        "done",
        "draft",
        "error",
        "failed",
        "log_append_time",
        "max_timestamp",
        "opened_at",
        "partition",
        "parts",
        "place",
        "reserved",
        "sealed",
        "stamps",
        "watched",
        "width",
    )

    def __init__(
        self,
        partition: TopicPartition,
        opened_at: float,
        deadline: float,
        usual_bytes: int = 0,
        buffer: bytearray | None = None,
    ) -> None:
        """`buffer` is one to be used again, and `usual_bytes` what the records of a batch take as a rule."""
        self.partition = partition
        self.opened_at = opened_at
        self.deadline = deadline
        self.place = 0.0
        """Among the batches of its partition, in the order in which they were begun; it has the places up to `width` later."""
        self.width = 1.0
        self.parts: tuple[Batch, Batch] | None = None
        """What is sent in its place since it was too large."""
        buffer = bytearray() if buffer is None else buffer
        self.draft: Draft = Draft(self, HEADER_BYTES, HEADER_BYTES + usual_bytes, buffer)
        # Invariant: 0 <= draft.room <= reserved; the records take what lies between, about.
        self.reserved = 0
        # Set when it is sealed.
        self.sealed = False
        self.data = bytearray()
        self.count = 0
        self.stamps = bytearray()
        self.base_timestamp = self.max_timestamp = -1
        # Set when it is sent.
        self.attempts = 0
        self.base_sequence = -1
        # Set when it is done.
        self.done = False
        self.error: Exception | None = None
        self.watched = True
        """Whether deliveries tell what became of it; if not, its owner looks at its error."""
        self.failed: FailedBatch | None = None
        self.base_offset = -1
        self.log_append_time = -1
        self._settled = False
        """It is done, and all callbacks have been called."""
        self._lock = threading.Lock()
        self._event: threading.Event | None = None
        self._callbacks: list[Callable[[], None]] = []

    def seal(self, codec: Codec, level: int | None) -> bytearray | None:
        """Make the bytes, all but what is known only when it is sent; returns a buffer that may be used again."""
        draft = self.draft
        self.count = draft.count
        self.stamps = draft.stamps
        self.base_timestamp, self.max_timestamp = draft.base_timestamp, draft.max_timestamp
        draft.batch = None  # or both would keep each other alive
        encoded = draft.take()
        if codec is Codec.NONE:
            self.data, spare = encoded, None
        else:
            with memoryview(encoded) as view, view[HEADER_BYTES:] as records:
                self.data = bytearray(HEADER_BYTES)
                self.data += compress(codec, records, level)
            spare = encoded
        self.sealed = True
        return spare

    def number(
        self,
        codec: Codec,
        producer_id: int,
        epoch: int,
        sequence: int,
        *,
        transactional: bool = False,
    ) -> None:
        """Write the header for this producer and place in its sequence; -1 for those who do not count."""
        self.base_sequence = sequence
        header = BatchHeader(
            base_offset=0,
            length=len(self.data) - LOG_OVERHEAD,
            leader_epoch=-1,
            magic=2,
            crc=0,
            attributes=int(codec) | (TRANSACTIONAL if transactional else 0),
            last_offset_delta=self.count - 1,
            base_timestamp=self.base_timestamp,
            max_timestamp=self.max_timestamp,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            count=self.count,
        )
        write_header(self.data, 0, header)

    def split(self, codec: Codec, level: int | None) -> "tuple[Batch, Batch]":
        """Cut a sealed batch of several records in two, each with half of its place; it is done when both are."""
        header = parse_header(self.data)
        rows = decode_records(*records_of(self.data, 0, header))
        middle = len(rows) // 2
        parts = self._part(rows[:middle], 0), self._part(rows[middle:], 1)

        def settle() -> None:
            if all(part.done for part in parts) and not self.done:
                self.finish(error=parts[0].error or parts[1].error)

        for part in parts:
            part.seal(codec, level)
            part.when_done(settle)
        self.parts = parts
        return parts

    def _part(self, rows: list[DecodedRecord], number: int) -> "Batch":
        part = Batch(self.partition, self.opened_at, self.deadline)
        part.draft.reserve(1 << 40)  # the memory is reserved by the whole
        for _, timestamp, key, value, headers in rows:
            part.draft.add(timestamp, key, value, encode_headers(headers))
        part.attempts = self.attempts
        part.watched = self.watched
        part.width = self.width / 2
        part.place = self.place + number * part.width
        return part

    def finish(
        self, base_offset: int = -1, log_append_time: int = -1, error: Exception | None = None
    ) -> None:
        """Settle all deliveries at once."""
        self.base_offset, self.log_append_time, self.error = base_offset, log_append_time, error
        if (
            not self.sealed
        ):  # given up while it was open; its deliveries still want to know their times
            self.draft.closed = True
            self.stamps = self.draft.stamps
        with self._lock:
            self.done = True
            if self._event is not None:
                self._event.set()
        while callbacks := self._next_callbacks():
            for callback in callbacks:
                _call(callback)

    def leaves(self) -> "Iterator[Batch]":
        """What is sent of it: itself, or the parts that it was cut into."""
        if self.parts is None:
            yield self
        else:
            for part in self.parts:
                yield from part.leaves()

    def when_done(self, callback: Callable[[], None]) -> None:
        """Call back when the batch is done, after those who asked before; at once if all have been called."""
        with self._lock:
            if not self._settled:
                self._callbacks.append(callback)
                return
        _call(callback)

    def wait_settled(self, timeout_s: float | None) -> bool:
        """Block until the batch is done and all callbacks have been called; False if the time was over first."""
        settled = threading.Event()
        self.when_done(settled.set)
        return settled.wait(timeout_s)

    def _next_callbacks(self) -> list[Callable[[], None]]:
        with self._lock:
            callbacks, self._callbacks = self._callbacks, []
            self._settled = not callbacks
        return callbacks

    def wait(self, timeout_s: float | None) -> bool:
        """Block until the batch is done; False if the time was over first."""
        with self._lock:
            if self.done:
                return True
            if self._event is None:
                self._event = threading.Event()
        return self._event.wait(timeout_s)

    # What a delivery asks for.

    def outcome(self, index: int, timeout_s: float | None) -> RecordMetadata:
        """Where the record was written; blocks until it is known, raises what went wrong."""
        self._wait_for_end(timeout_s)
        batch, index = self._where(index)
        if batch.error is not None:
            batch._look_at(index)
            raise batch.error
        timestamp = batch.log_append_time
        if timestamp < 0:
            stamps = memoryview(batch.stamps).cast("q")  # see `Draft.stamps`
            timestamp = stamps[2 * bisect.bisect_right(stamps[::2], index) - 1]
        offset = batch.base_offset
        return RecordMetadata(*batch.partition, offset + index if offset >= 0 else -1, timestamp)

    def failure(self, index: int, timeout_s: float | None) -> Exception | None:
        """What went wrong, or None; blocks until it is known."""
        self._wait_for_end(timeout_s)
        batch, index = self._where(index)
        batch._look_at(index)
        return batch.error

    def awaited(self, index: int) -> Generator[Any, None, RecordMetadata]:
        """The outcome of a record, for `await`."""
        if not self.done:
            loop = asyncio.get_running_loop()
            future: asyncio.Future[None] = loop.create_future()

            def settle() -> None:
                if not future.done():
                    future.set_result(None)

            def wake() -> None:
                loop.call_soon_threadsafe(settle)

            self.when_done(wake)
            yield from future
        return self.outcome(index, None)

    def _wait_for_end(self, timeout_s: float | None) -> None:
        if not self.done and not self.wait(timeout_s):
            raise TimeoutError(f"no acknowledgement from {self.partition} within {timeout_s} s")

    def _look_at(self, index: int) -> None:
        if self.failed is not None:
            self.failed.look_at(index)

    def _where(self, index: int) -> "tuple[Batch, int]":
        """The batch in which the record was sent in the end, and its index there."""
        batch = self
        while batch.parts is not None:
            first, second = batch.parts
            batch, index = (first, index) if index < first.count else (second, index - first.count)
        return batch, index


def _call(callback: Callable[[], None]) -> None:
    try:
        callback()
    except (Exception, SystemExit):  # noqa: BLE001 - a user's; it must not keep the others waiting
        _log.exception("a delivery callback failed")


class ReadyBatch(Batch):
    """A batch whose bytes are there already, as they lay in another log; only its header is made anew.

    Its records are never looked at, unless a broker finds it too large and it must be cut in two.
    """

    REUSABLE = False

    __slots__ = ("_codec_bits",)

    def __init__(
        self, partition: TopicPartition, opened_at: float, deadline: float, data: bytearray
    ) -> None:
        """`data` is one whole v2 batch, which is ours from now on; its offsets must have no gaps."""
        super().__init__(partition, opened_at, deadline)
        header = parse_header(data)
        if header.size != len(data) or header.count != header.last_offset_delta + 1:
            raise ValueError(
                f"a batch of {header.count} records in {len(data)} bytes claims {header.size} bytes and "
                f"{header.last_offset_delta + 1} offsets; one with gaps must be built anew"
            )
        if header.is_control or header.is_log_append_time or header.has_delete_horizon:
            raise ValueError("a producer cannot send markers, nor times that a broker has set")
        self._codec_bits = int(header.codec)
        self.watched = False
        self.draft.batch = None  # or both would keep each other alive
        self.data = data
        self.count = header.count
        self.base_timestamp, self.max_timestamp = header.base_timestamp, header.max_timestamp
        self.stamps = bytearray(memoryview(array("q", (0, header.base_timestamp))).cast("B"))
        self.reserved = len(data)
        self.sealed = True

    def number(
        self,
        codec: Codec,
        producer_id: int,
        epoch: int,
        sequence: int,
        *,
        transactional: bool = False,
    ) -> None:
        """Write the header for this producer; the codec stays what it was."""
        super().number(
            Codec(self._codec_bits), producer_id, epoch, sequence, transactional=transactional
        )
