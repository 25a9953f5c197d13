"""Flushing logs off the loop: one fsync in flight for each log, shared by all who wait for it (group commit)."""

import asyncio
import logging
from concurrent.futures import Executor

from tidelog.errors import KafkaError, KafkaStorageError
from tidelog.measures import Durations
from tidelog.storage.files import no_descriptor
from tidelog.storage.flushing import Flush
from tidelog.storage.log import Log

_logger = logging.getLogger(__name__)


class Flusher:
    """Flushes logs in an executor's threads.  Belongs to one event loop."""

    def __init__(self, executor: Executor | None = None) -> None:
        """Without an executor the loop's own is used."""
        self.times = Durations()
        """Of the flushes that succeeded."""
        self._executor = executor
        self._in_flight: dict[Log, asyncio.Task[None]] = {}
        self._background: set[asyncio.Task[None]] = set()

    async def flush(self, log: Log, up_to: int) -> None:
        """Return when everything below `up_to` is on the disk; `KafkaStorageError` if it cannot be."""
        while log.recovery_point < up_to:
            if log.failure is not None:
                raise log.failure
            task = self._in_flight.get(log)
            if task is None:
                task = asyncio.get_running_loop().create_task(self._flush(log))
                # Those who wait may all be cancelled; a log that failed has said so itself.
                task.add_done_callback(lambda done: done.cancelled() or done.exception())
                self._in_flight[log] = task
            truncations = log.truncations
            # One waiter's cancellation must not take the flush from the others.
            await asyncio.shield(task)
            if log.truncations != truncations:
                # What was to be flushed is gone; what remains is synced by the next flush.
                up_to = min(up_to, log.log_end_offset)

    def flush_soon(self, log: Log) -> None:
        """Flush in the background, as after a segment was closed."""
        task = asyncio.get_running_loop().create_task(self._quietly(log))
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def settle(self) -> None:
        """Wait for everything in flight."""
        while pending := [*self._background, *self._in_flight.values()]:
            await asyncio.gather(*pending, return_exceptions=True)

    async def _flush(self, log: Log) -> None:
        try:
            loop = asyncio.get_running_loop()
            flush: Flush | None = None
            try:
                flush = log.prepare_flush()
                begun = log.clock.monotonic()
                await loop.run_in_executor(self._executor, flush.run)
            except OSError as error:
                if not no_descriptor(error):
                    raise log.fail(error) from error
                if flush is not None:
                    flush.undo()  # the disk was not reached
                raise KafkaStorageError(
                    f"cannot flush {log.topic_partition}: {error.strerror}"
                ) from error
            flush.done()
            self.times.add(log.clock.monotonic() - begun)
        finally:
            del self._in_flight[log]

    async def _quietly(self, log: Log) -> None:
        try:
            await self.flush(log, log.log_end_offset)
        except (KafkaError, OSError) as error:
            # The log has taken itself offline and said so; who appends next is told.
            _logger.debug("flush of %s failed: %s", log, error)
