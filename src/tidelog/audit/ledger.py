"""What all tiers have counted, compared; pure.

A window is *open* until its end and the grace after it are over: counts are still to come.  Then it is *complete* if
every tier has as many messages as the reference, else *incomplete*: a tier with fewer misses some, one with more has some twice.
What a tier counted only after that time was *late*; a window can become complete late, and an event that comes late can
also make one incomplete again.
"""

from collections.abc import Iterable, Sequence
from dataclasses import field

from tidelog.audit.events import AuditEvent
from tidelog.dataclass import dataclass

GRACE_MS = 60_000
REFERENCE = "producer"

OPEN, COMPLETE, INCOMPLETE = "open", "complete", "incomplete"


@dataclass(frozen=True, slots=True)
class WindowReport:
    """One window of one topic, in all tiers."""

    topic: str
    start_ms: int
    end_ms: int
    expected: int
    """What the reference has."""
    counts: dict[str, int]
    missing: dict[str, int]
    """By tier, where there are any."""
    duplicated: dict[str, int]
    late: dict[str, int]
    state: str


@dataclass(slots=True)
class _Count:
    total: int = 0
    on_time: int = 0
    # Invariant: on_time <= total; both only grow, because events are totals of counters that only grow.


@dataclass(slots=True)
class _Window:
    length_ms: int
    tiers: dict[str, dict[str, _Count]] = field(default_factory=dict)


class Ledger:
    """Events in, comparisons out."""

    def __init__(self, *, grace_ms: int = GRACE_MS) -> None:
        self.grace_ms = grace_ms
        self._windows: dict[tuple[str, int], _Window] = {}
        self._tiers: dict[str, None] = {}
        self.mixed_windows: set[str] = set()
        """Topics that are counted in windows of different lengths, so that they cannot be compared."""

    def add(self, event: AuditEvent) -> None:
        """Take an event; in any order, and as often as it comes."""
        self._tiers.setdefault(event.tier)
        place = event.topic, event.window_start_ms
        window = self._windows.setdefault(place, _Window(event.window_ms))
        if window.length_ms != event.window_ms:
            self.mixed_windows.add(event.topic)
            window.length_ms = max(window.length_ms, event.window_ms)
        count = window.tiers.setdefault(event.tier, {}).setdefault(event.counter, _Count())
        count.total = max(count.total, event.count)
        deadline = event.window_start_ms + event.window_ms + self.grace_ms
        if event.published_ms <= deadline:
            count.on_time = max(count.on_time, event.count)

    @property
    def tiers(self) -> list[str]:
        """All tiers that have counted anything, the reference first."""
        return sorted(self._tiers, key=lambda tier: (tier != REFERENCE, tier))

    @property
    def topics(self) -> list[str]:
        return sorted({topic for topic, _ in self._windows})

    def report(
        self,
        now_ms: int,
        *,
        topics: Iterable[str] | None = None,
        tiers: Sequence[str] | None = None,
    ) -> list[WindowReport]:
        """Every window of these topics, oldest first; the first tier is what the others are compared with."""
        wanted = None if topics is None else set(topics)
        shown = list(tiers or self.tiers)
        return [
            self._compare(topic, start, window, shown, now_ms)
            for (topic, start), window in sorted(self._windows.items())
            if wanted is None or topic in wanted
        ]

    def complete_until(
        self, topic: str, now_ms: int, *, tiers: Sequence[str] | None = None
    ) -> int | None:
        """The watermark: every window that ends by this time is complete.  None if nothing is known of the topic."""
        reports = self.report(now_ms, topics=[topic], tiers=tiers)
        if not reports:
            return None
        until = reports[0].start_ms
        for each in reports:
            if each.state != COMPLETE:
                # Windows between in which nothing came are complete as well.
                return max(until, each.start_ms)
            until = each.end_ms
        length = reports[-1].end_ms - reports[-1].start_ms
        closed = now_ms - self.grace_ms
        return max(until, closed - closed % length)

    def _compare(
        self, topic: str, start: int, window: _Window, tiers: Sequence[str], now_ms: int
    ) -> WindowReport:
        end = start + window.length_ms
        of_tier = {tier: window.tiers.get(tier, {}).values() for tier in tiers}
        counts = {tier: sum(each.total for each in found) for tier, found in of_tier.items()}
        late = {
            tier: number
            for tier, found in of_tier.items()
            if (number := sum(each.total - each.on_time for each in found))
        }
        expected = counts[tiers[0]] if tiers else 0
        missing = {tier: expected - each for tier, each in counts.items() if each < expected}
        duplicated = {tier: each - expected for tier, each in counts.items() if each > expected}
        state = INCOMPLETE if missing or duplicated else COMPLETE
        if now_ms < end + self.grace_ms:
            state = OPEN
        return WindowReport(topic, start, end, expected, counts, missing, duplicated, late, state)
