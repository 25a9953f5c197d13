"""The machine's time, put forward: a clock and an event loop that agree on it.

A broker waits in two ways, for its `Clock` and for its loop's timers.  Both are moved by one `Shift`, so what is due an
hour from now is due at once when the shift grows by an hour: sessions of group members, retention, the time-outs of
transactions.  Time runs on as usual meanwhile.  The wall clock can be put back to the machine's, so that one test's hours do
not make the next test's messages old; what is monotonic stays ahead.
"""

import asyncio
import time


class Shift:
    """By how much time has been put forward."""

    __slots__ = ("seconds", "wall_seconds")

    def __init__(self, seconds: float = 0.0, wall_seconds: float = 0.0) -> None:
        self.seconds = seconds
        """Of everything monotonic: it only grows."""
        self.wall_seconds = wall_seconds

    def advance(self, seconds: float) -> None:
        self.seconds += seconds
        self.wall_seconds += seconds

    def reset(self) -> None:
        """Put the wall clock back to the machine's."""
        self.wall_seconds = 0.0


class ShiftedClock:
    """A `Clock` that is ahead of the machine's."""

    def __init__(self, shift: Shift) -> None:
        self._shift = shift

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000 + int(self._shift.wall_seconds * 1000)

    def monotonic(self) -> float:
        return time.monotonic() + self._shift.seconds


class ShiftedLoop(asyncio.SelectorEventLoop):
    """An event loop whose timers follow the same time."""

    def __init__(self, shift: Shift) -> None:
        self._shift = shift
        super().__init__()

    def time(self) -> float:
        return super().time() + self._shift.seconds
