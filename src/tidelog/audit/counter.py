"""One counter of one tier: totals by topic and window, and the events that say what has changed."""

import socket
import uuid
from collections.abc import Iterable, Mapping

from tidelog.audit.events import AuditEvent
from tidelog.audit.windows import WINDOW_MS
from tidelog.clock import Clock, SystemClock

_PLACES = 20_000
"""Of so many topics and windows the totals are kept, at most."""


class TierCounter:
    """Counts for one tier; not thread-safe."""

    def __init__(
        self,
        tier: str,
        *,
        window_ms: int = WINDOW_MS,
        server: str | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.tier = tier
        self.window_ms = window_ms
        self.server = server or socket.gethostname()
        self._clock = clock or SystemClock()
        self._name = uuid.uuid4().hex
        self._generation = 0
        self._totals: dict[tuple[str, int], int] = {}
        self._names: dict[tuple[str, int], str] = {}
        """Under which name a total is published: a total that was forgotten must not be counted on under the same."""
        self._changed: dict[tuple[str, int], None] = {}

    def count(self, topic: str, windows: Mapping[int, int]) -> None:
        """Messages were seen, by the windows that they lie in."""
        for start, number in windows.items():
            place = topic, start
            if place not in self._totals:
                self._totals[place] = 0
                self._names[place] = f"{self._name}.{self._generation}"
            self._totals[place] += number
            self._changed[place] = None

    def take(self) -> list[AuditEvent]:
        """Events for everything that has changed since the last call; whoever takes them publishes them."""
        now = self._clock.now_ms()
        events = [
            AuditEvent(
                self.tier,
                self.server,
                self._names[place],
                place[0],
                place[1],
                self.window_ms,
                self._totals[place],
                now,
            )
            for place in self._changed
        ]
        self._changed.clear()
        return events

    def put_back(self, events: Iterable[AuditEvent]) -> None:
        """These were not published, perhaps: they are taken again the next time, with what has come to them."""
        for event in events:
            self._changed[event.topic, event.window_start_ms] = None

    def published(self) -> None:
        """What was taken is safe: totals that are old may be forgotten."""
        if len(self._totals) <= _PLACES:
            return
        self._generation += 1
        for place in list(self._totals)[: len(self._totals) - _PLACES // 2]:
            if place not in self._changed:
                del self._totals[place], self._names[place]
