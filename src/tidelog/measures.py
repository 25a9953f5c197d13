"""What is measured while it happens, kept as plain numbers: whoever shows it turns it into something else.

    flushes = Durations()
    flushes.add(seconds)
    flushes.quantiles()      # of the last ones

Where things happen a hundred thousand times a second only some of them are measured; `weight` says for how many each
stands, so that `count` and `total_s` are of all of them.
"""

from collections import deque
from collections.abc import Sequence

QUANTILES = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)
"""Those that Kafka's own metrics have."""

_KEPT = 1024
"""As many as Kafka's reservoir has."""


class Durations:
    """How often something was done, for how long in all, and how the last ones were spread."""

    __slots__ = ("_last", "count", "total_s")

    def __init__(self) -> None:
        self.count = 0
        self.total_s = 0.0
        self._last: deque[float] = deque(maxlen=_KEPT)

    def add(self, seconds: float, weight: int = 1) -> None:
        """One of `weight` took so long."""
        self.count += weight
        self.total_s += seconds * weight
        self._last.append(seconds)

    def quantiles(self, wanted: Sequence[float] = QUANTILES) -> list[tuple[float, float]]:
        """(quantile, seconds) of the last ones; empty if there are none."""
        found = sorted(self._last)
        if not found:
            return []
        return [(each, found[min(int(each * len(found)), len(found) - 1)]) for each in wanted]


class Histogram:
    """How many lasted how long, in buckets that only grow."""

    __slots__ = ("_bounds", "_counts", "count", "total_s")

    def __init__(self, bounds: Sequence[float]) -> None:
        """`bounds` in seconds, growing; what is longer than the last counts all the same."""
        self._bounds = tuple(bounds)
        self._counts = [0] * len(self._bounds)
        self.count = 0
        self.total_s = 0.0

    def add(self, seconds: float) -> None:
        self.count += 1
        self.total_s += seconds
        for at, bound in enumerate(self._bounds):
            if seconds <= bound:
                self._counts[at] += 1
                return

    def cumulative(self) -> list[tuple[float, int]]:
        """(bound, how many were at most that long)."""
        found, so_far = [], 0
        for bound, count in zip(self._bounds, self._counts, strict=True):
            so_far += count
            found.append((bound, so_far))
        return found
