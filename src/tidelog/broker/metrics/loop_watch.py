"""Watches the event loop: how late it is, and how much of its time it has nothing to do."""

import asyncio
from collections.abc import Callable

from tidelog.measures import Histogram

_TICK_S = 0.2
_BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class LoopWatch:
    """`run` until cancelled.  Everything a broker does passes through its loop, so this says how busy it is."""

    def __init__(
        self,
        monotonic: Callable[[], float],
        thread_time: Callable[[], float],
        every_second: Callable[[float], None],
    ) -> None:
        """`thread_time` is that of the processor for this thread; `every_second` is told how many have passed."""
        self._monotonic = monotonic
        self._thread_time = thread_time
        self._every_second = every_second
        self.lag = Histogram(_BOUNDS_S)
        """By how much timers are late."""
        self.idle = 1.0
        """The share of the last second in which the loop's thread did not need a processor."""

    async def run(self) -> None:
        second, used = self._monotonic(), self._thread_time()
        while True:
            begun = self._monotonic()
            await asyncio.sleep(_TICK_S)
            now = self._monotonic()
            self.lag.add(max(now - begun - _TICK_S, 0.0))
            passed = now - second
            if passed >= 1.0:
                before, used = used, self._thread_time()
                self.idle = min(max(1.0 - (used - before) / passed, 0.0), 1.0)
                second = now
                self._every_second(passed)
