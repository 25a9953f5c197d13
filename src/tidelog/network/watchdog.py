"""Counts what held the event loop for long, and names the longest of it in the log.

Everything a broker does passes through one loop: what holds it makes everybody wait.  Measured is where work begins, so that
the culprit has a name: what a connection serves of one read (two looks at the clock for a read, however many requests it
brought), and every step of a coroutine that was handed to `watched`.  What takes less than `HELD_S` leaves no trace.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Generator
from struct import Struct as Packer
from typing import Any, Self, TypeVar

from tidelog.measures import Histogram
from tidelog.protocol.messages import MODULES

from .peer import Peer

T = TypeVar("T")

HELD_S = 0.05
"""What takes longer is counted."""

_BOUNDS_S = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_BETWEEN_LINES_S = 60.0
_LENGTH = Packer(">i")
_HEADER = Packer(">hhih")  # API key, version, correlation id, length of the client id
_CLIENT_ID_SHOWN = 64

_log = logging.getLogger(__name__)


class Watchdog:
    """See the module's docstring."""

    def __init__(self, now: Callable[[], float]) -> None:
        """`now` in seconds; a test may pass the processor time of the thread instead of a clock."""
        self.now = now
        self.held = Histogram(_BOUNDS_S)
        """Seconds, of what was held for longer than `HELD_S`."""
        self._told_at = -_BETWEEN_LINES_S
        self._untold: tuple[float, str] | None = None
        """The longest that no line has told of, and what it was."""
        self._timer: asyncio.TimerHandle | None = None

    def note(self, seconds: float, what: str) -> None:
        """`what` has held the loop."""
        self.held.add(seconds)
        if self._untold is None or seconds > self._untold[0]:
            self._untold = seconds, what
        left = self._told_at + _BETWEEN_LINES_S - self.now()
        if left <= 0:
            self._tell()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(left, self._tell)

    def note_frames(self, seconds: float, peer: Peer, frames: memoryview) -> None:
        """The requests at the start of `frames`, each behind its length, have held the loop."""
        self.note(seconds, f"{_described(frames)}, from {peer}")

    def watched(
        self, work: Coroutine[Any, Any, T], describe: Callable[[], str]
    ) -> "Coroutine[Any, Any, T]":
        """`work`, each step of which is measured; `describe` names it where one was long."""
        return _Watched(work, self, describe)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tell(self) -> None:
        self._timer = None
        if self._untold is not None:
            seconds, what = self._untold
            self._untold = None
            self._told_at = self.now()
            _log.warning(
                "nobody else was served for %.0f ms: %s; it is the longest since the last such line, of %d in all",
                seconds * 1000,
                what,
                self.held.count,
            )


class _Watched(Coroutine[Any, Any, T]):
    """Hands everything on to a coroutine, and looks at the clock."""

    __slots__ = ("_describe", "_watchdog", "_work")

    def __init__(
        self, work: Coroutine[Any, Any, T], watchdog: Watchdog, describe: Callable[[], str]
    ) -> None:
        self._work = work
        self._watchdog = watchdog
        self._describe = describe

    def send(self, value: Any) -> Any:
        now = self._watchdog.now
        began = now()
        try:
            return self._work.send(value)
        finally:
            took = now() - began
            if took > HELD_S:
                self._watchdog.note(took, self._describe())

    def throw(self, *error: Any) -> Any:
        return self._work.throw(*error)

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Generator[Any, Any, T]:
        return self  # it has all that a generator needs here

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        return self.send(None)


def described(api_key: int, version: int, client_id: str | None, size: int) -> str:
    """A request, for a line in the log: nothing in it can look like another line."""
    name = MODULES.get(api_key, f"API key {api_key}").title().replace("_", "")
    shown = "no client id" if client_id is None else f"client {client_id[:_CLIENT_ID_SHOWN]!r}"
    return f"{name} v{version} of {size} bytes, {shown}"


def _described(frames: memoryview) -> str:
    """The first request, and how many more there are."""
    first, pos, count = "a broken request", 0, 0
    while len(frames) - pos >= _LENGTH.size:
        (size,) = _LENGTH.unpack_from(frames, pos)
        start = pos + _LENGTH.size
        if not count and len(frames) - start >= _HEADER.size:
            key, version, _, length = _HEADER.unpack_from(frames, start)
            raw = bytes(frames[start + _HEADER.size : start + _HEADER.size + max(length, 0)])
            client_id = None if length < 0 else raw.decode(errors="replace")
            first = described(key, version, client_id, size)
        count += 1
        if size < 0:
            break
        pos = start + size
    return first if count < 2 else f"{count} requests of one read, the first {first}"
