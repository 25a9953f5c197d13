"""Readers that wait for data: keyed by partition, and with one timer for all of them.

An append touches only the readers of its own partition, and no timer is made for a wait: deadlines are rounded up
to ticks, and the loop is asked to call at the next tick at which anything is due.

    waiting.wait(partitions, isolation, needed_bytes, max_wait_ms, then)

calls `then()` once, on the loop and not within the call that woke it: when that many bytes more can be read, when
a partition fails, or when the time is over.
"""

import heapq
from collections.abc import Callable, Iterable
from typing import Protocol

from tidelog.clock import Clock
from tidelog.errors import KafkaError

from .partition import Partition
from .surroundings import Watcher

TICK_MS = 5
"""Deadlines are rounded up to multiples of this."""


class Cancellable(Protocol):
    def cancel(self) -> None: ...


class Scheduler(Protocol):
    """The part of an event loop that is needed here."""

    def call_soon(self, callback: Callable[[], None]) -> object: ...

    def call_later(self, delay: float, callback: Callable[[], None]) -> Cancellable: ...


class Wait:
    """One reader that waits; a watcher of each of its partitions."""

    __slots__ = (
        "_held_back_bytes",
        "_needed_bytes",
        "_offsets",
        "_waiting",
        "done",
        "isolation",
        "then",
        "tick",
    )

    def __init__(
        self,
        waiting: "Waiting",
        offsets: dict[Partition, int],
        isolation: int,
        needed_bytes: int,
        tick: int,
        then: Callable[[], None],
    ) -> None:
        self._waiting = waiting
        self._offsets = offsets
        self._needed_bytes = needed_bytes
        self._held_back_bytes = 0
        """Written, but behind an open transaction."""
        self.isolation = isolation
        self.tick = tick
        self.then = then
        self.done = False

    @property
    def partitions(self) -> Iterable[Partition]:
        return self._offsets

    def advanced(self, partition: Partition, grown_bytes: int) -> None:
        """Count what has become readable at this isolation level, behind the offset that is wanted."""
        if partition.readable_end(self.isolation) <= self._offsets[partition]:
            self._held_back_bytes += grown_bytes
            return
        self._needed_bytes -= grown_bytes + self._held_back_bytes
        self._held_back_bytes = 0
        if self._needed_bytes <= 0:
            self._waiting.wake(self)

    def failed(self, partition: Partition, error: KafkaError) -> None:
        self._waiting.wake(self)

    def settled(self, partition: Partition) -> None:
        """Nothing to read, nothing to do."""

    def watches(self, partition: Partition) -> dict[Watcher, None]:
        """Among whom of this partition's watchers it is."""
        return partition.watchers


class ReplicaWait(Wait):
    """A follower that waits: it may read up to the log's end, so that an append is enough to wake it."""

    __slots__ = ()

    def advanced(self, partition: Partition, grown_bytes: int) -> None:
        self._needed_bytes -= grown_bytes
        if self._needed_bytes <= 0:
            self._waiting.wake(self)

    def watches(self, partition: Partition) -> dict[Watcher, None]:
        return partition.replica_watchers


class Waiting:
    """All readers that wait."""

    def __init__(self, clock: Clock, scheduler: Scheduler) -> None:
        self._clock = clock
        self._scheduler = scheduler
        self._due: dict[int, dict[Wait, None]] = {}
        """By tick; a tick is in here as long as it is in `_ticks`."""
        self._ticks: list[int] = []
        self._timer: Cancellable | None = None
        self._timer_tick = 0
        self._count = 0

    def __len__(self) -> int:
        """How many wait."""
        return self._count

    def wait(
        self,
        offsets: dict[Partition, int],
        isolation: int,
        needed_bytes: int,
        max_wait_ms: int,
        then: Callable[[], None],
        *,
        replica: bool = False,
    ) -> Wait:
        """Call `then` when `needed_bytes` more lie behind `offsets`, or after `max_wait_ms`.

        For a `replica` everything that is appended counts, committed or not.
        """
        tick = int((self._clock.monotonic() * 1000 + max_wait_ms) // TICK_MS) + 1
        kind = ReplicaWait if replica else Wait
        wait = kind(self, offsets, isolation, needed_bytes, tick, then)
        for partition in offsets:
            wait.watches(partition)[wait] = None
        bucket = self._due.get(tick)
        if bucket is None:
            bucket = self._due[tick] = {}
            heapq.heappush(self._ticks, tick)
            self._arm()
        bucket[wait] = None
        self._count += 1
        return wait

    def wake(self, wait: Wait) -> None:
        """End the wait; its reader goes on when the loop comes to it."""
        if self._forget(wait):
            self._scheduler.call_soon(wait.then)

    def cancel(self, wait: Wait) -> None:
        """End the wait without telling its reader."""
        self._forget(wait)

    def close(self) -> None:
        """Wake all; the broker is stopping."""
        for bucket in list(self._due.values()):
            for wait in list(bucket):
                self.wake(wait)
        self._due.clear()
        self._ticks.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _forget(self, wait: Wait) -> bool:
        if wait.done:
            return False
        wait.done = True
        self._count -= 1
        for partition in wait.partitions:
            wait.watches(partition).pop(wait, None)
        bucket = self._due.get(wait.tick)
        if bucket is not None:
            bucket.pop(wait, None)
        return True

    def _arm(self) -> None:
        """Have the loop call at the first tick at which something is due."""
        first = self._ticks[0]
        if self._timer is not None:
            if self._timer_tick <= first:
                return
            self._timer.cancel()
        delay = max(first * TICK_MS / 1000 - self._clock.monotonic(), 0.0)
        self._timer = self._scheduler.call_later(delay, self.expire)
        self._timer_tick = first

    def expire(self) -> None:
        """Wake all whose time is over."""
        self._timer = None
        now_ms = self._clock.monotonic() * 1000
        ticks, due = self._ticks, self._due
        while ticks and ticks[0] * TICK_MS <= now_ms:
            for wait in due.pop(heapq.heappop(ticks)):
                self.wake(wait)
        while ticks and not due[ticks[0]]:
            del due[heapq.heappop(ticks)]
        if ticks:
            self._arm()
