"""Those who have connected and not logged in, on listeners that ask for it: how many, for how long, and what is told of them.

Whoever has not logged in must cost little: a deadline, a bound for each address, memory of their own (`hub.strangers_memory`) and
few lines in the log, however many of them there are.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from .config import NetworkConfig

if TYPE_CHECKING:
    from .connection import Connection

_BETWEEN_LINES_S = 10.0

_log = logging.getLogger(__name__)


class StrangersLog:
    """A line at once, then one in ten seconds at most, with how many were left out."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._told_at = -_BETWEEN_LINES_S
        self._left_out = 0

    def tell(self, level: int, who: object, reason: str) -> None:
        if level < logging.INFO:
            _log.log(level, "closed the connection from %s: %s", who, reason)
            return
        now = self._now()
        if now - self._told_at < _BETWEEN_LINES_S:
            self._left_out += 1
            return
        more = f"; {self._left_out} more were closed since the last line" if self._left_out else ""
        self._told_at, self._left_out = now, 0
        _log.log(level, "closed the connection from %s: %s%s", who, reason, more)


class Strangers:
    """Of one hub.  Nobody says here that it has logged in: its peer's `largest` is None then."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        now: Callable[[], float],
        log: StrangersLog,
        config: Callable[[], NetworkConfig],
    ) -> None:
        self._loop = loop
        self._now = now
        self._tell = log.tell
        self._config = config
        self._waiting: deque[tuple[float, Connection]] = deque()
        """Since when, the longest first."""
        self._by_host: dict[str, list[Connection]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def too_many(self, host: str) -> bool:
        """Whether that address has as many as it may have."""
        most = self._config().max_strangers_per_ip
        found = self._by_host.get(host, ())
        if len(found) < most:
            return False
        left = [each for each in found if _is_stranger(each)]
        self._by_host[host] = left
        return len(left) >= most

    def add(self, connection: "Connection") -> None:
        if self._config().login_timeout_ms >= 0:
            self._waiting.append((self._now(), connection))
        self._by_host.setdefault(connection.peer.address.host, []).append(connection)
        self._schedule()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _schedule(self) -> None:
        timeout_ms = self._config().login_timeout_ms
        if self._timer is None and self._waiting and timeout_ms >= 0:
            left = self._waiting[0][0] + timeout_ms / 1000 - self._now()
            self._timer = self._loop.call_later(max(left, 0.01), self._close_overdue)

    def _close_overdue(self) -> None:
        self._timer = None
        timeout_ms = self._config().login_timeout_ms
        until = self._now() - timeout_ms / 1000
        while self._waiting and (
            self._waiting[0][0] <= until or not _is_stranger(self._waiting[0][1])
        ):
            _, connection = self._waiting.popleft()
            self._forget(connection)
            if _is_stranger(connection):
                connection.close(f"it did not log in within {timeout_ms} ms")
        self._schedule()

    def _forget(self, connection: "Connection") -> None:
        host = connection.peer.address.host
        found = self._by_host.get(host)
        if found is not None:
            left = [each for each in found if each is not connection and _is_stranger(each)]
            if left:
                self._by_host[host] = left
            else:
                del self._by_host[host]


def _is_stranger(connection: "Connection") -> bool:
    return connection.is_open and connection.peer.largest is not None
