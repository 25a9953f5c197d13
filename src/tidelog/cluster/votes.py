"""Which followers cannot reach their leader, as they told the controller (`unreachable.py`).

Votes are kept in memory, for seconds: another controller is told again.
"""

import asyncio
from collections.abc import Callable
from uuid import UUID

from tidelog.cluster.isr import IsrChange

_VALID_S = 3.0
"""A vote that is not repeated within this time is void."""
_NOT_AGAIN_S = 30.0
"""So long a partition is not taken from its leader a second time: a network that comes and goes must not move it about."""

Place = tuple[UUID, int]


class Votes:
    """Who has told of whom, and when."""

    def __init__(self, now: Callable[[], float] | None = None) -> None:
        self._now = now or (lambda: asyncio.get_running_loop().time())
        self._cast: dict[tuple[Place, int], dict[int, float]] = {}
        """By partition and leader epoch the followers that cannot reach the leader."""
        self._not_before: dict[Place, float] = {}
        self._swept = 0.0

    def cast(self, change: IsrChange, broker_id: int) -> frozenset[int]:
        """Note a vote; all that count for the same leader, none if it was elected this way a moment ago."""
        now, place = self._now(), (change.topic_id, change.index)
        self._sweep(now)
        if now < self._not_before.get(place, 0.0):
            return frozenset()
        votes = self._cast.setdefault((place, change.leader_epoch), {})
        votes[broker_id] = now
        return frozenset(each for each, then in votes.items() if now - then <= _VALID_S)

    def carried_out(self, change: IsrChange) -> None:
        """The leader is another one."""
        place = (change.topic_id, change.index)
        self._cast.pop((place, change.leader_epoch), None)
        self._not_before[place] = self._now() + _NOT_AGAIN_S

    def _sweep(self, now: float) -> None:
        if now < self._swept + _NOT_AGAIN_S:
            return
        self._swept = now
        self._not_before = {each: then for each, then in self._not_before.items() if then > now}
        self._cast = {
            each: votes
            for each, votes in self._cast.items()
            if now - max(votes.values()) <= _VALID_S
        }
