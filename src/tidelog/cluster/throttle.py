"""Limits on replication (KIP-73): replicas that catch up may take so many bytes a second, those in sync what they need.

    throttle = Throttle(clock, lambda: config.leader_throttled_rate)
    if throttle.exceeded(): ...          # leave the partition out this time
    throttle.note(len(records))

Which replicas are throttled is a setting of the topic: `*`, or a list of `partition:broker`.
"""

from collections.abc import Callable, Sequence

from tidelog.clock import Clock

_BURST_S = 1.0
"""What was not used in so many seconds may be used at once."""


class Throttle:
    """A bucket that fills at a rate; what is taken from it may make it negative once."""

    def __init__(self, clock: Clock, rate: Callable[[], int]) -> None:
        self._clock = clock
        self._rate = rate
        self._left = float(rate()) * _BURST_S
        self._filled_at = clock.monotonic()

    def exceeded(self) -> bool:
        """Whether nothing may be taken now."""
        self._fill()
        return self._left <= 0

    def note(self, size_bytes: int) -> None:
        """So many bytes were taken."""
        self._fill()
        self._left -= size_bytes

    def _fill(self) -> None:
        now, rate = self._clock.monotonic(), self._rate()
        self._left = min(self._left + (now - self._filled_at) * rate, rate * _BURST_S)
        self._filled_at = now


def is_listed(replicas: Sequence[str], partition: int, broker_id: int) -> bool:
    """Whether `leader.replication.throttled.replicas` or its sister names this replica."""
    return bool(replicas) and ("*" in replicas or f"{partition}:{broker_id}" in replicas)
