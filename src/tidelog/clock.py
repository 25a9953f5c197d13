"""Time, passed in.

Nothing below `broker/broker.py` reads a clock by itself: it is given a `Clock`.  Tests and the simulation pass
`tidelog.testing.ManualClock`.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """Where time comes from."""

    def now_ms(self) -> int:
        """Wall-clock time in milliseconds since 1970; may step."""
        ...

    def monotonic(self) -> float:
        """Seconds that only grow; for timeouts and durations."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    monotonic = staticmethod(time.monotonic)  # a call less, where it is asked for every request
