"""Who waits until records are committed, or flushed: callbacks by the last offset that each waits for."""

import asyncio
from collections.abc import Callable

from tidelog.errors import KafkaError

Then = Callable[[KafkaError | None], None]
"""Called once: with None when it is done, else with what came in between."""


class Commits:
    """The waits of one partition."""

    __slots__ = ("_waiters",)

    def __init__(self) -> None:
        self._waiters: list[tuple[int, Then]] = []
        """In the order of the appends; a repeated batch waits for an older offset."""

    def __bool__(self) -> bool:
        return bool(self._waiters)

    def __len__(self) -> int:
        return len(self._waiters)

    def then(self, last_offset: int, then: Then) -> None:
        """Call `then` when `last_offset` is below the end that `release` tells of."""
        self._waiters.append((last_offset, then))

    def wait(self, last_offset: int) -> "asyncio.Future[None]":
        """The same as a future."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def settle(error: KafkaError | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)

        self._waiters.append((last_offset, settle))
        return future

    def release(self, end: int, error: KafkaError | None = None) -> None:
        """End the waits for what is below `end`; with `error`, if they get something else than they waited for."""
        waiters = self._waiters
        self._waiters = [each for each in waiters if each[0] >= end]
        for last_offset, then in waiters:
            if last_offset < end:
                then(error)

    def fail(self, error: KafkaError) -> None:
        """End all waits with `error`."""
        waiters, self._waiters = self._waiters, []
        for _, then in waiters:
            then(error)
