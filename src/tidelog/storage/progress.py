"""How far the recovery of a broker's logs has come, told at most once a second.

    progress = Progress(clock, total=200)
    progress.begin("orders-3", number=17)       the 17th of 200 logs
    progress.scan(1 << 30)                      so many bytes of it have to be scanned
    progress.at(400 << 20)                      "recovering orders-3: 39 % (log 17 of 200)"

A recovery of less than a second is not told of.
"""

import logging

from tidelog.clock import Clock

_EVERY_SECONDS = 1.0

_logger = logging.getLogger(__name__)


class Progress:
    """One for all logs of a start."""

    STEP_BYTES = 8 << 20
    """How often it wants to be told where the scan is."""

    def __init__(self, clock: Clock, total: int) -> None:
        self._clock = clock
        self._total = total
        self._number = 0
        self._name = ""
        self._bytes = 0
        self._told_at = clock.monotonic()

    def begin(self, name: str, number: int) -> None:
        """The log with this number, counted from 1, is loaded from here on."""
        self._name, self._number, self._bytes = name, number, 0

    def scan(self, total_bytes: int) -> None:
        """The log was not closed cleanly, and so many bytes of it are scanned."""
        self._bytes = total_bytes
        self.at(0)

    def at(self, position: int) -> None:
        """The scan has come to `position`."""
        now = self._clock.monotonic()
        if now - self._told_at < _EVERY_SECONDS:
            return
        self._told_at = now
        done = 100 * position // self._bytes if self._bytes else 100
        _logger.info(
            "recovering %s: %d %% (log %d of %d)", self._name, done, self._number, self._total
        )
