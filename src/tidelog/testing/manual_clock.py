"""A clock that stands still until it is told to move."""


class ManualClock:
    """A `Clock` for tests: time passes only by `advance` or `set`."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._monotonic = 0.0

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic(self) -> float:
        return self._monotonic

    def advance(self, ms: float) -> None:
        """Let `ms` milliseconds pass on both clocks."""
        self._now_ms += int(ms)
        self._monotonic += ms / 1000

    def set(self, now_ms: int) -> None:
        """Step the wall clock, as an administrator or NTP would; the monotonic clock does not notice."""
        self._now_ms = now_ms
