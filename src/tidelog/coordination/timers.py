"""Timers on the passed-in clock: one heap, one wake-up of the loop at a time.

    timers = Timers(clock, call_later=loop.call_later)
    timers.schedule(("orders", "session", "m-1"), 10_000, expire)
    timers.cancel(("orders", "session", "m-1"))

A key has at most one timer; scheduling it again moves it.  Tests leave `call_later` out, move their clock and call
`run_due()` themselves.
"""

import heapq
from collections.abc import Callable, Hashable
from typing import Protocol

from tidelog.clock import Clock

_COMPACT_ABOVE = 1024
"""Below this many entries, cancelled ones left in the heap are not worth removing."""


class Handle(Protocol):
    """A wake-up that can be called off."""

    def cancel(self) -> None: ...


CallLater = Callable[[float, Callable[[], None]], Handle]


class Timers:
    """Runs actions when they are due."""

    def __init__(self, clock: Clock, call_later: CallLater | None = None) -> None:
        self._clock = clock
        self._call_later = call_later
        self._heap: list[tuple[float, int, Hashable]] = []
        self._live: dict[Hashable, tuple[int, Callable[[], None]]] = {}
        """Key to the ticket of its newest heap entry; an entry with another ticket is dead."""
        self._tickets = 0
        self._wake: Handle | None = None
        self._wake_at = float("inf")

    def __len__(self) -> int:
        return len(self._live)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._live

    def schedule(self, key: Hashable, delay_ms: float, action: Callable[[], None]) -> None:
        """Run `action` in `delay_ms`; a timer that `key` had before is replaced."""
        self._tickets += 1
        deadline = self._clock.monotonic() + max(delay_ms, 0) / 1000
        self._live[key] = (self._tickets, action)
        heapq.heappush(self._heap, (deadline, self._tickets, key))
        if len(self._heap) > _COMPACT_ABOVE and len(self._heap) > 4 * len(self._live):
            self._drop_dead()
        self._arm()

    def cancel(self, key: Hashable) -> bool:
        """Forget the timer of `key`; False if it had none."""
        return self._live.pop(key, None) is not None

    def cancel_all(self) -> None:
        """Forget every timer, and the wake-up."""
        self._live.clear()
        self._heap.clear()
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None

    def next_delay_ms(self) -> float | None:
        """Time until the next action is due; None without one."""
        self._skip_dead()
        if not self._heap:
            return None
        return max(0.0, (self._heap[0][0] - self._clock.monotonic()) * 1000)

    def run_due(self) -> int:
        """Run what is due, in order of time; returns how many actions ran.

        What the actions themselves schedule has to wait for the next call, be it due at once: a timer that renews
        itself cannot hold the loop.
        """
        self._wake = None
        ran = 0
        now = self._clock.monotonic()
        newest = self._tickets
        try:
            while True:
                self._skip_dead()
                if not self._heap or self._heap[0][0] > now or self._heap[0][1] > newest:
                    return ran
                _, _, key = heapq.heappop(self._heap)
                _, action = self._live.pop(key)
                ran += 1
                action()
        finally:
            self._arm()

    def _skip_dead(self) -> None:
        heap = self._heap
        while heap and self._live.get(heap[0][2], (0, None))[0] != heap[0][1]:
            heapq.heappop(heap)

    def _drop_dead(self) -> None:
        self._heap = [each for each in self._heap if self._live.get(each[2], (0,))[0] == each[1]]
        heapq.heapify(self._heap)

    def _arm(self) -> None:
        """Have the loop wake us at the first deadline; an earlier wake-up that finds nothing is harmless."""
        if self._call_later is None:
            return
        delay_ms = self.next_delay_ms()
        if delay_ms is None:
            return
        if self._wake is not None:
            if self._wake_at <= self._heap[0][0]:
                return
            self._wake.cancel()
        self._wake_at = self._heap[0][0]
        self._wake = self._call_later(delay_ms / 1000, self._woken)

    def _woken(self) -> None:
        self.run_due()
