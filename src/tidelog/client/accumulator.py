"""Gathers records into batches, a queue of them for each partition.

Shared by the callers' threads, which append, and the loop, which takes batches away.  One lock guards which batches are open,
but not the adding of a record to one that is: `drafts` has the open drafts of each topic, and where the kernel is compiled a
caller may add a record there without the lock (see `tidelog.kernel.drafts`).  Everything else goes through `append`, which
opens and closes batches.  A batch is closed under the lock before its draft is touched again, and
whoever closes it makes its bytes, outside the lock: a caller who finds it full, or the loop when it has lingered.  Memory
is reserved by open batches in steps, and given back when they are done.
"""

import operator
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable

from tidelog.client.batch import Batch, Delivery, ReadyBatch
from tidelog.client.partitioning import Candidates, next_sticky
from tidelog.client.settings import ProducerSettings
from tidelog.clock import Clock, SystemClock
from tidelog.errors import MessageTooLarge, TidelogError
from tidelog.kernel.drafts import Drafts
from tidelog.kernel.records import encode_headers
from tidelog.names import TopicPartition
from tidelog.records import Codec

_RECORD_OVERHEAD = 24
"""What a record takes beside its key and value, about."""

_FAR = 1 << 60
"""Timestamps stay below this, so that their differences never leave 64 bits."""

_SPARE_BYTES = 8 * 1024 * 1024
"""How much memory of batches that are done is kept for the next, at most."""

_SLACK = 128
"""A batch may be this much larger than its size says, so that its last record never makes its buffer grow."""

_STEP_BYTES = 16 * 1024
"""How much memory an open batch reserves at a time."""


_LEVELS = {Codec.LZ4: 1, Codec.ZSTD: 1}
"""Where a codec's default is made for storing once and reading often, a producer wants the fast end."""


class BufferFull(Exception):
    """There is no memory for the record at the moment; nothing was added."""


class PartitionQueue:
    """The batches of one partition, oldest first; the last may be open."""

    __slots__ = (
        "_last_place",
        "batches",
        "bumps",
        "gap",
        "in_flight",
        "next_sequence",
        "partition",
        "retry_at",
    )

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.batches: deque[Batch] = deque()
        self.in_flight: list[Batch] = []
        self.next_sequence = 0
        self.bumps = 0
        """How often the numbering has begun anew; each time with a higher epoch."""
        self.gap = False
        """The broker misses a batch that was given up: the numbering has to begin anew."""
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

    def begin_anew(self) -> None:
        """Number what waits from 0, in the next epoch.  Nothing may be on its way."""
        self.gap = False
        self.bumps += 1
        self.next_sequence = 0
        for batch in self.batches:
            batch.base_sequence = -1


class Accumulator:
    """Where records wait for the sender."""

    def __init__(
        self,
        settings: ProducerSettings,
        clock: Clock,
        wake: Callable[[], None],
        stamp: Iterable[tuple[str, bytes | None]] = (),
    ) -> None:
        """`stamp` are headers that records get which have none of their own, and go to an open draft."""
        self._stamp = encode_headers(stamp)
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
        self._spare: list[bytearray] = []
        self._most_spare = max(
            1, min(_SPARE_BYTES, self._limit // 4) // max(self._batch_size, 1024)
        )
        # Guarded by the lock.
        self.lock = threading.Lock()
        self.room = threading.Condition(self.lock)
        self.queues: dict[TopicPartition, PartitionQueue] = {}
        self.drafts: dict[str, Drafts] = {}
        self._now_ns = _nanoseconds(clock)
        self._open: dict[TopicPartition, Batch] = {}
        self._sticky: dict[str, Batch] = {}
        self._stuck_to: dict[str, int] = {}
        self.pending: dict[Batch, None] = {}
        self.used_bytes = 0
        self._closed = False

    def append(
        self,
        topic: str,
        partition: int | None,
        candidates: Candidates,
        timestamp: int | None,
        key: bytes | None,
        value: bytes | None,
        headers: Iterable[tuple[str, bytes | None]],
    ) -> Delivery:
        """Add a record to the open batch of its partition; without one, to the topic's sticky batch."""
        # All that can be wrong with a record is found before a batch is opened for it.
        tail = _encoded(headers) if headers else b"\0"
        if timestamp is None:
            timestamp = self._clock.now_ms()
        elif not -_FAR < operator.index(timestamp) < _FAR:
            raise ValueError(f"timestamp={timestamp} is not in milliseconds since 1970")
        size = _RECORD_OVERHEAD + len(value or b"") + len(key or b"") + len(tail) - 1
        closed: list[Batch] = []
        opened = 0
        with self.lock:
            if self._closed:
                raise TidelogError("the producer is closed")
            delivery = None
            while delivery is None:
                batch = (
                    self._sticky.get(topic)
                    if partition is None
                    else self._open.get(TopicPartition(topic, partition))
                )
                if batch is None or not (batch.draft.room >= size or self._grow(batch, size)):
                    self._check_fits(size)
                    batch = self._turn_over(topic, partition, candidates, size, closed)
                    opened += 1
                # Others may use up the room meanwhile, but not close the batch.
                delivery = batch.draft.add(timestamp, key, value, tail)
        for each in closed:
            self._seal(each)
        if opened:
            self._wake()  # something can be sent, or will have lingered some time from now
        return delivery

    def put(self, topic: str, partition: int, data: bytearray) -> ReadyBatch:
        """Queue a batch that is encoded already, behind everything that its partition has."""
        now = self._clock.monotonic()
        batch = ReadyBatch(TopicPartition(topic, partition), now, now + self._delivery_s, data)
        closed: list[Batch] = []
        with self.lock:
            if self._closed:
                raise TidelogError("the producer is closed")
            # A batch that is larger than all memory goes alone.
            if self.used_bytes and self.used_bytes + batch.reserved > self._limit:
                raise BufferFull
            before = self._open.get(batch.partition)
            if before is not None:
                self._close(before, closed)
            if batch.partition not in self.queues:
                self.queues[batch.partition] = PartitionQueue(batch.partition)
            self.queues[batch.partition].add(batch)
            self.pending[batch] = None
            self.used_bytes += batch.reserved
        for each in closed:
            self._seal(each)
        self._wake()
        return batch

    def follow(self, topic: str, candidates: Candidates) -> None:
        """The topic has these partitions now: keys are spread over all, and nothing sticks to one without a leader."""
        with self.lock:
            drafts = self.drafts.get(topic)
            if drafts is None:
                return
            self._drafts_of(topic, candidates.total)
            stuck = self._sticky.get(topic)
            if stuck is not None and candidates.led and stuck.partition[1] not in candidates.led:
                del self._sticky[topic]
                drafts.sticky = None

    def seal_all(self) -> list[Batch]:
        """Close all open batches, encode them here, and return everything that is not done."""
        with self.lock:
            closed: list[Batch] = []
            for batch in list(self._open.values()):
                self._close(batch, closed)
            pending = list(self.pending)
        for batch in closed:
            self._seal(batch)
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
                    self._close(batch, due)
        for batch in due:
            self._seal(batch)
        return soonest

    def split(self, batch: Batch) -> tuple[Batch, Batch]:
        """Cut a batch in two; its memory is kept until both are done."""
        parts = batch.split(self._codec, self._level)
        batch.when_done(lambda: self.release(batch))
        return parts

    def close(self) -> None:
        """Nothing is sent any more, so nothing is added any more; batches that are open stay `pending`."""
        with self.lock:
            self._closed = True
            for batch in list(self._open.values()):
                self._close(batch, [])

    def release(self, batch: Batch) -> None:
        """The batch is done: its memory is free."""
        data, batch.data = batch.data, bytearray()
        if self._codec is Codec.NONE and batch.REUSABLE:
            self._keep(data)
        with self.lock:
            if batch in self.pending:  # a part of a batch that was cut is not
                del self.pending[batch]
                self.used_bytes -= batch.reserved
                self.room.notify_all()

    def _seal(self, batch: Batch) -> None:
        self._keep(batch.seal(self._codec, self._level))

    def _keep(self, buffer: bytearray | None) -> None:
        """Use the buffer again for another batch: new memory has to be made page by page, which costs more than a batch."""
        if buffer is not None and len(self._spare) < self._most_spare:
            self._spare.append(buffer)

    def _turn_over(
        self,
        topic: str,
        partition: int | None,
        candidates: Candidates,
        size: int,
        closed: list[Batch],
    ) -> Batch:
        """A batch with room, opened if need be; those that had none are closed.  The lock is held."""
        sticks = partition is None
        if partition is None:
            last = self._sticky.pop(topic, None)
            if last is not None:
                self._close(last, closed)
            # Where nobody leads any, whichever gets a leader first is as good as another.
            some = candidates.led or range(candidates.total)
            partition = next_sticky(some, self._stuck_to.get(topic, -1))
            self._stuck_to[topic] = partition
        place = TopicPartition(topic, partition)
        batch = self._open.get(place)
        if batch is not None and not (batch.draft.room >= size or self._grow(batch, size)):
            self._close(batch, closed)
            batch = None
        if batch is None:
            if self.used_bytes + size > self._limit:
                for each in closed:  # they are closed all the same
                    self._seal(each)
                raise BufferFull
            batch = self._new_batch(place, size)
        drafts = self._drafts_of(topic, candidates.total)
        if partition < len(drafts.open):
            drafts.open[partition] = batch.draft
        if sticks:
            self._sticky[topic] = batch
            drafts.sticky = batch.draft
        return batch

    def _new_batch(self, place: TopicPartition, size: int) -> Batch:
        now = self._clock.monotonic()
        buffer = self._spare.pop() if self._spare else None
        batch = Batch(place, now, now + self._delivery_s, self._batch_size + _SLACK, buffer)
        if place not in self.queues:
            self.queues[place] = PartitionQueue(place)
        self.queues[place].add(batch)
        self.pending[batch] = None
        self._open[place] = batch
        self._reserve(batch, size)
        return batch

    def _drafts_of(self, topic: str, partitions: int) -> Drafts:
        """The drafts of a topic, of which the partitions may have become more."""
        drafts = self.drafts.get(topic)
        if drafts is None:
            drafts = self.drafts[topic] = Drafts(self._now_ns, self._stamp)
        if len(drafts.open) != partitions:
            found = (self._open.get(TopicPartition(topic, index)) for index in range(partitions))
            drafts.open = [None if batch is None else batch.draft for batch in found]
        return drafts

    def _grow(self, batch: Batch, size: int) -> bool:
        """Reserve more memory for an open batch; False if it is full, or there is no more."""
        room = batch.draft.room
        if batch.reserved - room + size > self._batch_size or self.used_bytes + size > self._limit:
            return False
        self._reserve(batch, size - room)
        return True

    def _reserve(self, batch: Batch, at_least: int) -> None:
        """Give an open batch room in steps, so that most records need not be counted one by one."""
        step = min(_STEP_BYTES, self._batch_size - batch.reserved, self._limit - self.used_bytes)
        step = max(step, at_least)
        batch.reserved += step
        batch.draft.reserve(step)
        self.used_bytes += step

    def _close(self, batch: Batch, closed: list[Batch]) -> None:
        """From now on nothing is added to it; whoever closes it seals it."""
        batch.draft.closed = True
        topic, partition = batch.partition
        drafts = self.drafts[topic]
        if self._open.get(batch.partition) is batch:
            del self._open[batch.partition]
            if partition < len(drafts.open):
                drafts.open[partition] = None
        if self._sticky.get(topic) is batch:
            del self._sticky[topic]
            drafts.sticky = None
        closed.append(batch)

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


def _encoded(headers: Iterable[tuple[str, bytes | None]]) -> bytes:
    try:
        return encode_headers(headers)
    except (TypeError, AttributeError, ValueError):
        raise TypeError(f"headers {headers!r} must be pairs of str and bytes") from None


def _nanoseconds(clock: Clock) -> Callable[[], int]:
    """The clock's time in ns, by a function of C if it is the machine's."""
    if type(clock) is SystemClock:
        return time.time_ns
    return lambda: clock.now_ms() * 1_000_000
