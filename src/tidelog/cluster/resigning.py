"""Leaving the ISR of partitions whose disk refuses writes.

    resigning = Resigning(broker_id, image, control.alter_partition, clock, heard_since)
    resigning.begin(topic_id, index)                   # the disk is full
    resigning.begin(topic_id, index, for_good=True)    # the disk is gone
    await resigning.run()                              # a background task

A replica that cannot write leaves the ISR of its own accord: it asks the controller for an ISR without itself (`isr.py`).  If it
led, another of the rest leads from then on; if it followed, nobody waits for it any longer.  All of the rest have what is
committed, so nothing is lost.

A full disk keeps what it has, and it may be the last whole copy: a session that has not run out yet says little about a broker.
So a leader counts only on those who have fetched since its disk refused, and leaves only if min.insync.replicas of them are in
sync.  Where they are not it stays: it serves what it has, and refuses what it cannot write.  A disk that is gone has nothing to
wait for: its replica leaves as soon as another one is there.

A full disk may be everybody's, as on one machine.  So a partition is handed on once in a while only; in between a broker that
leads it again refuses, and the leadership does not go round.
"""

import asyncio
import logging
from collections.abc import Callable, Set
from uuid import UUID

from tidelog.clock import Clock
from tidelog.cluster.image import Image, PartitionState
from tidelog.cluster.in_sync import AlterPartition
from tidelog.cluster.isr import IsrChange
from tidelog.dataclass import dataclass
from tidelog.errors import TidelogError

_log = logging.getLogger(__name__)

_NOT_AGAIN_S = 60.0
_PAUSE_S = 0.5
_PATIENCE_S = 3.0
"""How long a leader whose disk is full listens for its followers; the next write that is refused begins anew."""

Place = tuple[UUID, int]
"""A topic's id and the index of its partition."""

HeardSince = Callable[[Place, float], Set[int]]
"""Which followers of a partition that is led here have fetched since that time (of the monotonic clock)."""


@dataclass(frozen=True, slots=True)
class _Refused:
    """A partition that cannot be written."""

    since: float
    for_good: bool


class Resigning:
    """The partitions that this broker cannot write."""

    def __init__(
        self,
        broker_id: int,
        image: Callable[[], Image],
        alter: AlterPartition,
        clock: Clock,
        heard_since: HeardSince,
    ) -> None:
        self._broker_id = broker_id
        self._image = image
        self._alter = alter
        self._clock = clock
        self._heard_since = heard_since
        self._due: dict[Place, _Refused] = {}
        self._not_before: dict[Place, float] = {}
        """When a partition may be handed on again."""
        self._woken = asyncio.Event()

    def begin(self, topic_id: UUID, index: int, *, for_good: bool = False) -> None:
        """Leave the partition's ISR if this broker is in it, and others can do without it."""
        place = (topic_id, index)
        now = self._clock.monotonic()
        if not for_good:
            state = self._may_leave(place, for_good=False)
            if state is None:
                return
            if state.leader == self._broker_id and now < self._not_before.get(place, 0.0):
                return
        known = self._due.get(place)
        if known is None:
            self._due[place] = _Refused(now, for_good)
        elif for_good:
            self._due[place] = _Refused(known.since, for_good)
        self._woken.set()

    async def run(self) -> None:
        """Ask the controller, until cancelled."""
        while True:
            await self._woken.wait()
            self._woken.clear()
            while self._due:
                await self._send()
                if self._due:
                    await asyncio.sleep(_PAUSE_S)

    async def _send(self) -> None:
        """Ask for all that is due; what is left in `_due` afterwards is to be asked for again."""
        asked: dict[Place, PartitionState] = {}
        changes: list[IsrChange] = []
        for place, refused in list(self._due.items()):
            state = self._may_leave(place, for_good=refused.for_good)
            if state is None:
                if not refused.for_good or not self._is_in(place):
                    del self._due[place]
                continue
            rest = self._rest(place, state, refused)
            if rest:
                asked[place] = state
                changes.append(self._change(place, state, rest, for_good=refused.for_good))
            elif self._clock.monotonic() > refused.since + _PATIENCE_S:
                del self._due[place]
        if not asked:
            return
        try:
            outcomes = await self._alter(changes)
        except TidelogError as error:
            _log.info("partitions cannot be handed on at the moment: %s", error)
            return
        for (place, state), outcome in zip(asked.items(), outcomes, strict=True):
            name = f"{self._image().topic_names.get(place[0])}-{place[1]}"
            if isinstance(outcome, PartitionState):
                self._due.pop(place, None)
                if state.leader == self._broker_id:
                    self._not_before[place] = self._clock.monotonic() + _NOT_AGAIN_S
                    _log.warning(
                        "%s is handed on to broker %d: the disk refuses it", name, outcome.leader
                    )
            else:
                # The image has gone on, or the others have died: the next look tells.
                _log.info("the ISR of %s, %s, is not left: %s", name, list(state.isr), outcome)

    def _is_in(self, place: Place) -> bool:
        state = self._image().maybe_partition(*place)
        return state is not None and self._broker_id in state.isr

    def _may_leave(self, place: Place, *, for_good: bool) -> PartitionState | None:
        """The state of a partition in whose ISR this broker is, and enough others that live."""
        image = self._image()
        state = image.maybe_partition(*place)
        if state is None or self._broker_id not in state.isr:
            return None
        if state.leader not in (self._broker_id, *image.live_brokers):
            return None
        others = image.live_brokers.intersection(state.isr) - {self._broker_id}
        needed = 1 if for_good else image.needed_in_sync(place[0], state)
        return state if len(others) >= needed else None

    def _rest(self, place: Place, state: PartitionState, refused: _Refused) -> tuple[int, ...]:
        """Who is to be in sync without this broker; nobody as long as too few have been heard."""
        others = tuple(each for each in state.isr if each != self._broker_id)
        if refused.for_good or state.leader != self._broker_id:
            return others
        heard = self._heard_since(place, refused.since)
        rest = tuple(each for each in others if each in heard)
        return rest if len(rest) >= self._image().needed_in_sync(place[0], state) else ()

    def _change(
        self, place: Place, state: PartitionState, rest: tuple[int, ...], *, for_good: bool
    ) -> IsrChange:
        return IsrChange(*place, state.leader_epoch, state.partition_epoch, rest, for_good=for_good)
