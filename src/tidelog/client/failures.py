"""Deliveries that failed and that nobody has looked at: who lost records must hear of it, whatever he looks at.

The sender notes each batch that it gives up; a delivery that is asked for its outcome takes its record off again.  What is
left is told by `flush` and `close`, once, and by a warning now and then meanwhile.  Counted by batch: a record that was
delivered costs nothing.
"""

import asyncio
import logging
import threading

from tidelog.errors import DeliveryFailed
from tidelog.names import TopicPartition

WARN_EVERY_S = 1.0
"""How often at most a warning is logged, and how long whoever wants to look has time to before the first."""

_KEPT = 8
"""Of so many failed batches is remembered what went wrong; the rest is only counted."""

_log = logging.getLogger(__name__)


class FailedBatch:
    """What went wrong with a batch, and which of its records somebody has asked for."""

    __slots__ = ("_failures", "_seen", "error", "partition", "round", "unseen")

    def __init__(
        self, failures: "Failures", partition: TopicPartition, error: Exception, count: int
    ) -> None:
        self._failures = failures
        self.round = failures.round
        """What was told before this one is over."""
        self.partition = partition
        self.error = error
        # Invariant: unseen + len(_seen) is the number of records.
        self.unseen = count
        self._seen: set[int] = set()

    def look_at(self, index: int) -> None:
        """Somebody has been told of this record; from any thread."""
        with self._failures.lock:
            if index not in self._seen:
                self._seen.add(index)
                self.unseen -= 1
                self._failures.looked_at(self)


class Failures:
    """What a producer has to tell; noted on its loop, looked at and taken in any thread."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        # Guarded by the lock.
        self.lock = threading.Lock()
        self.round = 0
        """Begins anew whenever everything was told."""
        self._count = 0
        self._first: list[FailedBatch] = []
        self._last: FailedBatch | None = None

    def note(self, partition: TopicPartition, error: Exception, count: int) -> FailedBatch:
        """A batch has failed; to be called before anybody can know of it."""
        with self.lock:
            failed = FailedBatch(self, partition, error, count)
            self._count += count
            self._last = failed
            self._first = [each for each in self._first if each.unseen]
            if len(self._first) < _KEPT:
                self._first.append(failed)
        if self._timer is None:
            self._timer = self._loop.call_later(WARN_EVERY_S, self._warn)
        return failed

    def looked_at(self, failed: FailedBatch) -> None:
        """One more of its records was; the lock is held."""
        if failed.round == self.round:
            self._count -= 1

    def take(self) -> DeliveryFailed | None:
        """The error to raise if there is something to tell, which then is told."""
        with self.lock:
            error = self._error()
            self.round += 1
            self._count = 0
            self._first.clear()
            self._last = None
        return error

    def check(self) -> None:
        """Raise if there is something to tell."""
        if (error := self.take()) is not None:
            raise error from error.first

    def close(self) -> None:
        """No warnings any more: whoever closes is told."""
        if self._timer is not None:
            self._timer.cancel()

    def _warn(self) -> None:
        self._timer = None
        with self.lock:
            error = self._error()
        if error is not None:
            _log.warning("%s; flush() and close() will raise it", error)

    def _error(self) -> DeliveryFailed | None:
        if not self._count:
            return None
        first = next((each for each in self._first if each.unseen), self._last)
        assert first is not None
        return DeliveryFailed(self._count, first.partition, first.error)
