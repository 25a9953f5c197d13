"""A producer's batches while they are open: each record is encoded the moment it comes.

`Draft` is one batch, `Drafts` those of one topic, and `Delivery` the handle of one record, which asks its batch for
everything.  These are the only objects with state in the kernel, because one record costs so little that a call
from Python to a list, a lock or a constructor would be most of it.  What a batch is for is the owner's business: here
it only has `done`, `outcome(index, timeout)`, `failure(index, timeout)`, `when_done(callback)` and `awaited(index)`.

Compiled, no other thread runs while a record is added, as long as there is one interpreter lock: `add` needs no lock of its
own, and whoever sets `closed` knows that nothing is added from then on.  Interpreted, the caller must hold a lock.

A record is laid out as `tidelog.kernel.records` says; room for the batch's header is left in front of the first.
"""

from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any

import tidelog.kernel.hashing as hashing
import tidelog.kernel.primitives as primitives
import tidelog.kernel.varints as varints
from tidelog.names import RecordMetadata

NO_HEADERS = b"\0"

_OVERHEAD = 24
"""What a record takes beside its key, value and headers, about; the room of a draft is counted with it."""

_MOST_AROUND = 40
"""What it takes at most: five numbers of up to 5 bytes, one of up to 10, the attributes, and to spare."""


class Delivery:
    """The outcome of one record, now or later; `await` it, or call `result`."""

    __slots__ = ("batch", "index")

    def __init__(self, batch: Any, index: int) -> None:
        self.batch = batch
        self.index = index

    def done(self) -> bool:
        """Whether it is known."""
        return bool(self.batch.done)

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Where the record was written; blocks until it is known, raises what went wrong."""
        found: RecordMetadata = self.batch.outcome(self.index, timeout)
        return found

    def exception(self, timeout: float | None = None) -> Exception | None:
        """What went wrong, or None; blocks until it is known."""
        found: Exception | None = self.batch.failure(self.index, timeout)
        return found

    def add_done_callback(self, callback: "Callable[[Delivery], None]") -> None:
        """Call back with this delivery when it is known; from the client's thread, so be brief."""
        self.batch.when_done(partial(callback, self))

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        awaited: Generator[Any, None, RecordMetadata] = self.batch.awaited(self.index)
        return awaited


class Draft:
    """The records of one open batch, already encoded."""

    def __init__(self, batch: Any, head: int, usual: int, data: bytearray) -> None:
        """Leave `head` bytes in front; grow to `usual` bytes as a rule.  What is in `data` is written over."""
        self.batch = batch
        self.closed = False
        self._usual = usual
        # Invariant: room is what the owner has reserved less what the records take, by `_OVERHEAD`'s account.
        self.room = 0
        self.count = 0
        self.base_timestamp = -1
        self.max_timestamp = -1
        self.last_timestamp = -1
        self.stamps = bytearray()
        """Pairs of 64-bit numbers: from which record on which timestamp holds.  Few, because thousands come in one millisecond."""
        self.size = head
        self.data = data

    def add(
        self, timestamp: int, key: bytes | None, value: bytes | None, headers: bytes
    ) -> Delivery | None:
        """Encode a record (its headers are, already); None if the draft is closed or has no room for it."""
        key_size = 0 if key is None else len(key)
        value_size = 0 if value is None else len(value)
        size = key_size + value_size + len(headers) - 1 + _OVERHEAD
        delivery = Delivery.__new__(Delivery)  # which C does without a call
        # From here to the end no object may be made: the collector could run, and with it another thread.
        if self.closed or size > self.room:
            return None
        index = self.count
        if not index:
            self.base_timestamp = self.max_timestamp = timestamp
        if timestamp != self.last_timestamp or not index:
            self.last_timestamp = timestamp
            if timestamp > self.max_timestamp:
                self.max_timestamp = timestamp
            pos = len(self.stamps)
            primitives.enlarge(self.stamps, pos + 16)
            target = primitives.writable(self.stamps)
            primitives.put_native_i64(target, pos, index)
            primitives.put_native_i64(target, pos + 8, timestamp)
        pos = self.size
        if pos + size + _MOST_AROUND > len(self.data):
            self._grow(pos + size + _MOST_AROUND)
        target = primitives.writable(self.data)
        stamp = varints.zigzag(timestamp - self.base_timestamp)
        place = varints.zigzag(index)
        key_raw = 1 if key is None else key_size << 1
        value_raw = 1 if value is None else value_size << 1
        length = (
            1
            + varints.size_of(stamp)
            + varints.size_of(place)
            + varints.size_of(key_raw)
            + key_size
            + varints.size_of(value_raw)
            + value_size
            + len(headers)
        )
        pos = varints.put(target, pos, length << 1)
        target[pos] = 0
        pos = varints.put(target, pos + 1, stamp)
        pos = varints.put(target, pos, place)
        pos = varints.put(target, pos, key_raw)
        if key is not None:
            pos = primitives.put_bytes(target, pos, key)
        pos = varints.put(target, pos, value_raw)
        if value is not None:
            pos = primitives.put_bytes(target, pos, value)
        self.size = primitives.put_bytes(target, pos, headers)
        self.room -= size
        self.count = index + 1
        delivery.batch = self.batch
        delivery.index = index
        return delivery

    def reserve(self, room: int) -> None:
        """Have room for so many bytes more."""
        self.room += room

    def _grow(self, needed: int) -> None:
        """Make room for so many bytes in all, and for as many again unless that is more than usual."""
        primitives.enlarge(self.data, max(needed, min(2 * needed, self._usual)))

    def take(self) -> bytearray:
        """The encoded records, with the room for a header in front; the draft is done with."""
        data = self.data
        self.data = bytearray()
        del data[self.size :]
        return data


class Drafts:
    """The open batches of one topic: one for each partition at most, and the one that records without a key go to."""

    def __init__(self, now_ns: Callable[[], int], headers: bytes = NO_HEADERS) -> None:
        """`headers`, encoded, are those that every record has."""
        self._now_ns = now_ns
        self._headers = headers
        self.sticky: Draft | None = None
        self.open: list[Draft | None] = []

    def add(self, value: Any, key: Any, timestamp: Any) -> Delivery | None:
        """Add a record without headers of its own where it belongs; None if that cannot be done just like that."""
        if type(value) is not bytes:
            return None
        if key is None:
            draft = self.sticky
        elif type(key) is not bytes or not self.open:
            return None
        else:
            draft = self.open[(hashing.murmur2(key) & 0x7FFFFFFF) % len(self.open)]
        if draft is None:
            return None
        if timestamp is None:
            now = self._now_ns()
            return draft.add(now // 1_000_000, key, value, self._headers)
        if type(timestamp) is not int or not 0 <= timestamp < 1 << 60:
            return None
        return draft.add(timestamp, key, value, self._headers)

    def add_many(self, values: Sequence[Any], start: int) -> list[Delivery]:
        """Add values from `start` on to the sticky batch, as many as have room in it."""
        found: list[Delivery] = []
        draft = self.sticky
        if draft is None:
            return found
        now = self._now_ns()
        for place in range(start, len(values)):
            value = values[place]
            if type(value) is not bytes:
                break
            delivery = draft.add(now // 1_000_000, None, value, self._headers)
            if delivery is None:
                break
            found.append(delivery)
        return found
