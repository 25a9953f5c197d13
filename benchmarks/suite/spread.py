"""The arithmetic of repeated measurements: medians, their spread, and ratios within a round.

Two systems are compared round by round, because what disturbs a machine for a minute disturbs both; the ratio that is told is the
median of those of the rounds, with the smallest and the largest.
"""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

WIDENED = 1.5
LEAST_SHARE = 0.03


@dataclass(frozen=True, slots=True)
class Spread:
    median: float
    low: float
    high: float

    @property
    def share(self) -> float:
        """Half the range, as a share of the median."""
        return (self.high - self.low) / 2 / self.median if self.median else 0.0


def spread(values: Iterable[float]) -> Spread | None:
    """None of no values."""
    known = sorted(values)
    if not known:
        return None
    return Spread(statistics.median(known), known[0], known[-1])


def ratio(ours: Mapping[int, float], theirs: Mapping[int, float]) -> Spread | None:
    """Ours through theirs, in the rounds that both have."""
    common = [each for each in ours if theirs.get(each)]
    return spread(ours[each] / theirs[each] for each in common)


def coarser(course: Sequence[Sequence[float]], points: int) -> list[list[float]]:
    """The course of a run in fewer points: each tells the rate over all that lies since the one before.

    A point is (messages so far in some unit, rate since the last); the points given are equally many messages apart.
    """
    step = max(len(course) // points, 1)
    groups = [course[at : at + step] for at in range(0, len(course), step)]
    return [
        [group[-1][0], len(group) / sum(1 / rate for _, rate in group)]
        for group in groups
        if all(rate > 0 for _, rate in group)
    ]


def changed(now: Spread, before: Spread) -> str:
    """A word for a change: `same` unless the medians lie further apart than both spreads together."""
    if abs(now.median - before.median) <= margin(now) + margin(before):
        return "same"
    return "up" if now.median > before.median else "down"


def margin(found: Spread) -> float:
    """How far from its median another run of the same thing may lie: the range is of few rounds, so it is widened."""
    return max(WIDENED * (found.high - found.low) / 2, LEAST_SHARE * found.median)
