"""What every async client is: something to be closed, also by `async with`, within a bounded time.

A client says in `finish` what it would still like to do, which takes time and may be cut short, and in `let_go` what has to
be done in any case and waits for no broker.  Both run once, in a task of their own: so a `close` that is cancelled leaves
nothing half closed, and another `close` waits for the same end instead of beginning it anew.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

CLOSE_TIMEOUT_S = 30.0
"""How long `close` may take unless told otherwise, as with Kafka's consumer (KIP-266)."""

_log = logging.getLogger(__name__)


class Closing(ABC):
    """Closed when its `async with` block ends."""

    _ending: "asyncio.Task[None] | None" = None
    _close_by = 0.0
    """By the loop's time; only ever sooner than it was."""
    _limit: "asyncio.Timeout | None" = None
    """Set while `finish` runs."""
    _told = False
    """Whether somebody has been raised what went wrong."""

    async def close(self, timeout: float = CLOSE_TIMEOUT_S) -> None:
        """Finish what was begun, for `timeout` seconds at most, and let go of the brokers; what could not be finished raises.

        Calling it again waits for the same end, and tells nothing twice.  Cancelled, it gives up at once what is not
        finished.
        """
        if self._told:
            return
        self._close_before(asyncio.get_running_loop().time() + timeout)
        if self._ending is None:
            self._ending = asyncio.ensure_future(self._end())
        try:
            await asyncio.shield(self._ending)
        except asyncio.CancelledError:
            self._close_before(0.0)
            self._ending.add_done_callback(_tell)  # perhaps nobody waits for it any longer
            raise
        except Exception:
            self._told = True
            raise

    @abstractmethod
    async def finish(self) -> None:
        """What is worth waiting for; cancelled when the time is over."""

    @abstractmethod
    async def let_go(self) -> None:
        """Stop all tasks and close all connections, without waiting for a broker; raises if something was not finished."""

    @abstractmethod
    def abandon(self) -> None:
        """Close the connections and nothing more: nobody holds this client any longer."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            await self.close()
        except Exception as failure:
            if error is None:
                raise
            note(error, failure)

    async def _end(self) -> None:
        try:
            async with asyncio.timeout_at(self._close_by) as self._limit:
                await self.finish()
        except TimeoutError:
            if self._limit is None or not self._limit.expired():
                raise
        finally:
            self._limit = None
            await self.let_go()

    def _close_before(self, moment: float) -> None:
        if self._ending is None or moment < self._close_by:
            self._close_by = moment
            if self._limit is not None:
                self._limit.reschedule(moment)


def note(error: BaseException, failure: Exception) -> None:
    """A block is left by `error`, which stays what the caller sees; that closing failed as well is told beside it."""
    error.add_note(f"and closing the client: {failure}")
    _log.error("closing a client: %s", failure)


def _tell(task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and (failure := task.exception()) is not None:
        _log.error("closing a client: %s", failure)
