"""Gathers records into batches, a queue of them for each partition.

Shared by the callers' threads, which append, and the loop, which takes batches away; one lock guards it.  Whoever fills
a batch encodes it, outside the lock; a batch that is not full is taken, and encoded, by the loop when it has
lingered.  Memory is reserved by open batches in steps, and given back when they are done.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence

from tidelog.client.batch import Batch, Delivery
from tidelog.client.partitioning import next_sticky
from tidelog.client.settings import ProducerSettings
from tidelog.clock import Clock
from tidelog.errors import MessageTooLarge
from tidelog.names import TopicPartition
from tidelog.records import Codec

_RECORD_OVERHEAD = 24
"""What a record takes beside its key and value, about."""

_STEP_BYTES = 16 * 1024
"""How much memory an open batch reserves at a time."""


_LEVELS = {Codec.LZ4: 1, Codec.ZSTD: 1}
"""Where a codec's default is made for storing once and reading often, a producer wants the fast end."""


class BufferFull(Exception):
    """There is no memory for the record at the moment; nothing was added."""


class PartitionQueue:
    """The batches of one partition, oldest first; the last may be open."""

    __slots__ = ("_last_place", "batches", "in_flight", "next_sequence", "partition", "retry_at")

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.batches: deque[Batch] = deque()
        self.in_flight: list[Batch] = []
        self.next_sequence = 0
        self.retry_at = 0.0
        self._last_place = 0

    def add(self, batch: Batch) -> None:
        """Queue a new batch."""
        self._last_place += 1
        batch.place = self._last_place
        self.batches.append(batch)

    def put_back(self, batch: Batch) -> None:
        """Queue a batch again, where it was."""
        before = sum(other.place < batch.place for other in self.batches)
        self.batches.insert(before, batch)


class Accumulator:
    """Where records wait for the sender."""

    def __init__(self, settings: ProducerSettings, clock: Clock, wake: Callable[[], None]) -> None:
        self.settings = settings
        self._clock = clock
        self._wake = wake
        self._codec = settings.codec
        self._level = (
            _LEVELS.get(self._codec)
            if settings.compression_level < 0
            else settings.compression_level
        )
        self._largest = settings.max_request_size
        self._batch_size = min(settings.batch_size, settings.max_request_size)
        self._limit = settings.buffer_memory
        self._linger_s = settings.linger_ms / 1000
        self._delivery_s = settings.delivery_timeout_ms / 1000
        # Guarded by the lock.
        self.lock = threading.Lock()
        self.room = threading.Condition(self.lock)
        self.queues: dict[TopicPartition, PartitionQueue] = {}
        self._open: dict[tuple[str, int], Batch] = {}
        self._sticky: dict[str, Batch] = {}
        self._stuck_to: dict[str, int] = {}
        self.pending: dict[Batch, None] = {}
        self.used_bytes = 0

    def add_to_sticky(self, topic: str, timestamp: int, value: bytes) -> Delivery | None:
        """Add a bare value to the topic's sticky batch; None if there is none with room.

        The short way for what is sent most: `append` does the same for everything.
        """
        size = len(value) + _RECORD_OVERHEAD
        with self.lock:
            batch = self._sticky.get(topic)
            if batch is None or batch.room < size:
                return None
            batch.room -= size
            rows = batch.rows
            index = len(rows)
            rows.append((timestamp, None, value, ()))
        return Delivery(batch, index)

    def add_many_to_sticky(
        self, topic: str, timestamp: int, values: Sequence[bytes], start: int
    ) -> list[Delivery]:
        """Add bare values from `start` on to the topic's sticky batch, as many as have room in it."""
        with self.lock:
            batch = self._sticky.get(topic)
            if batch is None:
                return []
            rows, room = batch.rows, batch.room
            first = len(rows)
            for place in range(start, len(values)):
                value = values[place]
                if type(value) is not bytes:
                    break
                size = len(value) + _RECORD_OVERHEAD
                if room < size:
                    break
                room -= size
                rows.append((timestamp, None, value, ()))
            batch.room = room
            last = len(rows)
        return [Delivery(batch, index) for index in range(first, last)]

    def append(
        self,
        topic: str,
        partition: int | None,
        candidates: range,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: tuple[tuple[str, bytes | None], ...],
    ) -> Delivery:
        """Add a record to the open batch of its partition; without one, to the topic's sticky batch."""
        size = _RECORD_OVERHEAD
        if value is not None:
            size += len(value)
        if key is not None:
            size += len(key)
        if headers:
            size += sum(len(name) + len(data or b"") + 4 for name, data in headers)
        closed: list[Batch] = []
        with self.lock:
            batch = (
                self._sticky.get(topic) if partition is None else self._open.get((topic, partition))
            )
            if batch is None or (batch.room < size and not self._grow(batch, size)):
                self._check_fits(size)
                batch = self._turn_over(topic, partition, candidates, size, closed)
            rows = batch.rows
            index = len(rows)
            rows.append((timestamp, key, value, headers))
            batch.room -= size
        if closed or not index:
            for each in closed:
                each.seal(self._codec, self._level)
            self._wake()  # something can be sent, or will have lingered some time from now
        return Delivery(batch, index)

    def seal_all(self) -> list[Batch]:
        """Close all open batches, encode them here, and return everything that is not done."""
        with self.lock:
            closed = list(self._open.values())
            self._open.clear()
            self._sticky.clear()
            pending = list(self.pending)
        for batch in closed:
            batch.seal(self._codec, self._level)
        self._wake()
        return pending

    def take_lingered(self, now: float) -> float | None:
        """Close and encode the open batches whose time has come; when the next one's comes, None if there is none."""
        due: list[Batch] = []
        soonest: float | None = None
        with self.lock:
            # A batch whose partition has another before it may go on growing: it could not leave anyway.
            for batch in list(self._open.values()):
                at = batch.opened_at + self._linger_s
                if at > now and self.used_bytes < self._limit // 2:
                    soonest = at if soonest is None else min(soonest, at)
                elif self.queues[batch.partition].batches[0] is batch:
                    due.append(batch)
                    self._forget_open(batch)
        for batch in due:
            batch.seal(self._codec, self._level)
        return soonest

    def release(self, batch: Batch) -> None:
        """The batch is done: its memory is free."""
        with self.lock:
            self.pending.pop(batch, None)
            self.used_bytes -= batch.reserved
            self.room.notify_all()

    def _turn_over(
        self, topic: str, partition: int | None, candidates: range, size: int, closed: list[Batch]
    ) -> Batch:
        """A batch with room, opened if need be; those that had none are closed.  The lock is held."""
        sticks = partition is None
        if partition is None:
            last = self._sticky.pop(topic, None)
            if last is not None:
                self._close(last, closed)
            partition = next_sticky(candidates, self._stuck_to.get(topic, -1))
            self._stuck_to[topic] = partition
        place = TopicPartition(topic, partition)
        batch = self._open.get(place)
        if batch is not None and batch.room < size and not self._grow(batch, size):
            self._close(batch, closed)
            batch = None
        if batch is None:
            if self.used_bytes + size > self._limit:
                for each in closed:  # they are closed all the same
                    each.seal(self._codec, self._level)
                raise BufferFull
            now = self._clock.monotonic()
            batch = Batch(place, now, now + self._delivery_s)
            if place not in self.queues:
                self.queues[place] = PartitionQueue(place)
            self.queues[place].add(batch)
            self.pending[batch] = None
            self._open[place] = batch
            self._reserve(batch, size)
        if sticks:
            self._sticky[topic] = batch
        return batch

    def _grow(self, batch: Batch, size: int) -> bool:
        """Reserve more memory for an open batch; False if it is full, or there is no more."""
        if batch.reserved - batch.room + size > self._batch_size:
            return False
        if self.used_bytes + size > self._limit:
            return False
        self._reserve(batch, size - batch.room)
        return True

    def _reserve(self, batch: Batch, at_least: int) -> None:
        """Give an open batch room in steps, so that most records need not be counted one by one."""
        step = min(_STEP_BYTES, self._batch_size - batch.reserved, self._limit - self.used_bytes)
        step = max(step, at_least)
        batch.reserved += step
        batch.room += step
        self.used_bytes += step

    def _close(self, batch: Batch, closed: list[Batch]) -> None:
        self._forget_open(batch)
        closed.append(batch)

    def _forget_open(self, batch: Batch) -> None:
        if self._open.get(batch.partition) is batch:
            del self._open[batch.partition]
        if self._sticky.get(batch.partition.topic) is batch:
            del self._sticky[batch.partition.topic]

    def _check_fits(self, size: int) -> None:
        if size > self._largest:
            raise MessageTooLarge(
                f"a message of {size} bytes is larger than max.request.size={self._largest}; raise that "
                "(and the topic's max.message.bytes), or send less at once"
            )
        if size > self._limit:
            raise MessageTooLarge(
                f"a message of {size} bytes is larger than buffer.memory={self._limit}; raise that"
            )
