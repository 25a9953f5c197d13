"""Work that goes on beside the requests: tasks that are held, logged when they fail, and cancelled together."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

from tidelog.errors import TidelogError
from tidelog.network.watchdog import Watchdog

log = logging.getLogger(__name__)

_TOLD_AGAIN_SECONDS = 2.0


class Background:
    """The broker's long-lived tasks."""

    def __init__(
        self,
        failed: Callable[[str, BaseException], None] = lambda *_: None,
        watchdog: Watchdog | None = None,
    ) -> None:
        """`failed` hears of vital work that failed, with its name: what relies on it must not go on."""
        self._watchdog = watchdog or Watchdog(lambda: 0.0)
        self._tasks: set[asyncio.Task[None]] = set()
        self._failed = failed

    def run(
        self,
        name: str,
        work: Coroutine[Any, Any, None],
        *,
        vital: bool = False,
        watched: bool = True,
    ) -> None:
        """Keep `work` going; should it fail, the log has the reason.

        Work that is not `watched` may hold the loop without being told of: who reads the log could do nothing about it.
        """
        if watched:
            work = self._watchdog.watched(work, lambda: name)
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(partial(self._ended, vital=vital))

    def every(self, name: str, interval_ms: int, work: Callable[[], Awaitable[object]]) -> None:
        """Do `work` again and again; a round that fails does not end it."""
        self.run(name, _repeat(name, interval_ms, work))

    async def stop(self) -> None:
        """Cancel everything and wait until it is gone."""
        tasks, self._tasks = self._tasks, set()
        while tasks:
            for task in tasks:
                task.cancel()
            # Python 3.11 can lose a cancellation (asyncio.wait_for), so whoever goes on is told again.
            _, tasks = await asyncio.wait(tasks, timeout=_TOLD_AGAIN_SECONDS)
            for task in tasks:
                log.warning("%s goes on; it is told again to stop", task.get_name())

    def _ended(self, task: asyncio.Task[None], *, vital: bool) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            known = isinstance(error, TidelogError)
            log.error(
                "%s has stopped: %s", task.get_name(), error, exc_info=None if known else error
            )
            if vital:
                self._failed(task.get_name(), error)


async def _repeat(name: str, interval_ms: int, work: Callable[[], Awaitable[object]]) -> None:
    while True:
        await asyncio.sleep(interval_ms / 1000)
        try:
            await work()
        except TidelogError as error:
            log.error("%s: %s", name, error)
        except Exception:
            log.exception("%s failed; it is tried again", name)
