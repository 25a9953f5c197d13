"""Leaders that their followers cannot reach, though the metastore hears all of them.

Where the network parts a leader from its followers and not from the metastore, its session lives and it stays the leader: whoever
writes with acks=all waits until it gives up its followers (replica.lag.time.max.ms), and is refused from then on.  So followers tell the
controller of a leader that has not answered for replica.leader.silence.max.ms.  When more than half of the in-sync replicas
do, and they are enough to go on by themselves (min.insync.replicas), one of them leads, and those that did not tell leave
the ISR.  All in sync have every committed record, so nothing is lost; it is what happens when the leader stops, for this partition alone.

On the wire a vote is AlterPartition, from a follower in sync, for an ISR without the leader; `votes.py` counts them.
"""

import asyncio
import logging
from collections.abc import Callable
from uuid import UUID

from tidelog.cluster.fetcher import Fetchers
from tidelog.cluster.image import Image
from tidelog.cluster.in_sync import AlterPartition
from tidelog.cluster.isr import IsrChange
from tidelog.errors import TidelogError

_log = logging.getLogger(__name__)

_LOOK_S = 1.0
_MOST_AT_ONCE = 1000

Place = tuple[UUID, int]


class Complaints:
    """A follower's side: tells the controller of leaders that are silent."""

    def __init__(
        self,
        broker_id: int,
        image: Callable[[], Image],
        fetchers: Fetchers,
        alter: AlterPartition,
        silence_ms: Callable[[], int],
    ) -> None:
        self._broker_id = broker_id
        self._image = image
        self._fetchers = fetchers
        self._alter = alter
        self._silence_ms = silence_ms
        self._seen: frozenset[Place] = frozenset()

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_S)
            silent = self._silent()
            # Twice in a row: one that was paused itself finds its answers when it goes on.
            due = sorted(self._seen & silent)[:_MOST_AT_ONCE]
            self._seen = silent
            changes = [each for each in map(self._vote, due) if each is not None]
            if changes:
                try:
                    await self._alter(changes)
                except TidelogError as error:
                    _log.info("the controller is not told of silent leaders: %s", error)

    def _silent(self) -> frozenset[Place]:
        silence_s = self._silence_ms() / 1000
        if not silence_s:
            return frozenset()
        found = self._fetchers.unanswered(silence_s)
        return frozenset((each.topic_id, each.index) for each in found)

    def _vote(self, place: Place) -> IsrChange | None:
        state = self._image().maybe_partition(*place)
        if state is None or self._broker_id not in state.isr or state.leader == self._broker_id:
            return None
        rest = tuple(each for each in state.isr if each != state.leader)
        return IsrChange(*place, state.leader_epoch, state.partition_epoch, rest)
