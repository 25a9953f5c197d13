"""How a broker ends that cannot go on: as a crash would, by itself.

    ending = Ending(broker.abort)
    background = Background(ending.failed)      # hears of vital work that failed
    with ending.watched_start(): …              # a start that fails this way raises StartError
    await ending.done.wait()

A broker whose picture of the cluster stands still would go on leading what others lead by now, with a session that lives.  When it ends its
session is over at once, others take over, and whoever looks after the process starts it anew.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from tidelog.errors import StartError

log = logging.getLogger(__name__)


class Ending:
    """See the module's docstring."""

    def __init__(self, abort: Callable[[], Awaitable[None]]) -> None:
        self._abort = abort
        self._starting: asyncio.Task[Any] | None = None
        self._task: asyncio.Task[None] | None = None
        self._failure = ""
        self.expected = False
        """It was told to stop: what fails now is no news."""
        self.done = asyncio.Event()

    @property
    def has_begun(self) -> bool:
        return self._task is not None

    def failed(self, work: str, error: BaseException) -> None:
        """Vital work has failed."""
        if self.expected or self._failure:
            return
        self._failure = f"{work} cannot go on: {error}"
        log.critical("%s; this broker ends, so that others take over", self._failure)
        if self._starting is not None:
            self._starting.cancel()
        else:
            self._task = asyncio.get_running_loop().create_task(self._end())

    @contextlib.contextmanager
    def watched_start(self) -> Iterator[None]:
        """While the broker starts a failure cuts the start short, and is the reason that it raises."""
        self._starting = asyncio.current_task()
        try:
            yield
        except asyncio.CancelledError as error:
            if self._failure:
                raise StartError(self._failure) from error
            raise
        finally:
            self._starting = None

    async def _end(self) -> None:
        try:
            await self._abort()
        except Exception:
            log.exception("the broker did not end in good order")
        finally:
            self.done.set()
