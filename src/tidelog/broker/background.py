"""Work that goes on beside the requests: tasks that are held, logged when they fail, and cancelled together."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from tidelog.errors import TidelogError

log = logging.getLogger(__name__)


class Background:
    """The broker's long-lived tasks."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def run(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Keep `work` going; should it fail, the log has the reason."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def every(self, name: str, interval_ms: int, work: Callable[[], Awaitable[object]]) -> None:
        """Do `work` again and again; a round that fails does not end it."""
        self.run(name, _repeat(name, interval_ms, work))

    async def stop(self) -> None:
        """Cancel everything and wait until it is gone."""
        tasks, self._tasks = list(self._tasks), set()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("%s has stopped", task.get_name(), exc_info=task.exception())


async def _repeat(name: str, interval_ms: int, work: Callable[[], Awaitable[object]]) -> None:
    while True:
        await asyncio.sleep(interval_ms / 1000)
        try:
            await work()
        except TidelogError as error:
            log.error("%s: %s", name, error)
        except Exception:
            log.exception("%s failed; it is tried again", name)
