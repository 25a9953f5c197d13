"""Handing on partitions whose disk refuses writes, to replicas in sync elsewhere.

    resigning = Resigning(broker_id, image, control.alter_partition, clock)
    resigning.begin(topic_id, index)                   # the disk is full
    resigning.begin(topic_id, index, for_good=True)    # the disk is gone
    await resigning.run()                              # a background task

A leader that cannot write leaves the ISR of its own accord: it asks the controller for an ISR without itself, and the
controller makes one of the rest the leader (`isr.py`).  All of them have what is committed, so nothing is lost.  Where
nobody else is in sync it goes on: it serves what it has, and refuses what it cannot write.

A full disk may be everybody's, as on one machine.  So a partition is handed on once in a while only; in between a broker that
leads it again refuses, and the leadership does not go round.
"""

import asyncio
import logging
from collections.abc import Callable
from uuid import UUID

from tidelog.clock import Clock
from tidelog.cluster.image import Image, PartitionState
from tidelog.cluster.in_sync import AlterPartition
from tidelog.cluster.isr import IsrChange
from tidelog.errors import TidelogError

_log = logging.getLogger(__name__)

_NOT_AGAIN_S = 60.0
_PAUSE_S = 0.5

Place = tuple[UUID, int]
"""A topic's id and the index of its partition."""


class Resigning:
    """The partitions that this broker wants to be rid of."""

    def __init__(
        self, broker_id: int, image: Callable[[], Image], alter: AlterPartition, clock: Clock
    ) -> None:
        self._broker_id = broker_id
        self._image = image
        self._alter = alter
        self._clock = clock
        self._due: dict[Place, bool] = {}
        """Whether it is for good."""
        self._not_before: dict[Place, float] = {}
        """When a partition may be handed on again."""
        self._woken = asyncio.Event()

    def begin(self, topic_id: UUID, index: int, *, for_good: bool = False) -> None:
        """Hand the partition on if this broker leads it and another is in sync."""
        place = (topic_id, index)
        if not for_good and (
            self._others(place) is None
            or self._clock.monotonic() < self._not_before.get(place, 0.0)
        ):
            return
        self._due[place] = for_good or self._due.get(place, False)
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
        for place, for_good in list(self._due.items()):
            state = self._others(place)
            if state is not None:
                asked[place] = state
            elif not for_good or not self._leads(place):
                del self._due[place]
        if not asked:
            return
        try:
            outcomes = await self._alter([self._change(*each) for each in asked.items()])
        except TidelogError as error:
            _log.info("partitions cannot be handed on at the moment: %s", error)
            return
        for (place, state), outcome in zip(asked.items(), outcomes, strict=True):
            name = f"{self._image().topic_names.get(place[0])}-{place[1]}"
            if isinstance(outcome, PartitionState):
                self._due.pop(place, None)
                self._not_before[place] = self._clock.monotonic() + _NOT_AGAIN_S
                _log.warning(
                    "%s is handed on to broker %d: the disk refuses it", name, outcome.leader
                )
            else:
                # The image has gone on, or the others have died: the next look tells.
                _log.info("%s is not handed on to %s: %s", name, list(state.isr), outcome)

    def _leads(self, place: Place) -> bool:
        state = self._image().maybe_partition(*place)
        return state is not None and state.leader == self._broker_id

    def _others(self, place: Place) -> PartitionState | None:
        """The state of a partition that is led here, and that another live replica has in full."""
        image = self._image()
        state = image.maybe_partition(*place)
        if state is None or state.leader != self._broker_id:
            return None
        live = image.live_brokers
        return state if any(each in live for each in state.isr if each != state.leader) else None

    def _change(self, place: Place, state: PartitionState) -> IsrChange:
        isr = tuple(each for each in state.isr if each != self._broker_id)
        return IsrChange(*place, state.leader_epoch, state.partition_epoch, isr)
