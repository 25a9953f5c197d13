"""Replicas whose log directory has failed: the cluster knows of them, and does not count on them until the directory is back.

    offline = Offline(broker_id, image, control.assign_directories, unclean)
    offline.add(topic_id, index)       # it lies on a directory that failed
    await offline.tell()               # at the start, before the broker takes part
    await offline.run()                # a background task

What a broker holds offline and what the image says of it are compared, and the difference is told to the controller.  A mark
is taken back by a start that has found the log again.  A replica that is marked leads nothing and leaves every ISR that
has another member; as the last member it stays, because nobody else has every committed record: the partition is without
a leader then, and nothing is lost.

While too few are in sync a replica that leaves so is eligible (`eligible.py`).  A disk that has failed may have lost what was not
synced, so it does not lead as long as another one that had everything may come back: it keeps its mark until somebody
leads, or until the last in sync turns out to have lost records and it is the last one itself.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Set
from uuid import UUID

from tidelog.cluster.elections import Unclean, settle
from tidelog.cluster.image import NO_LEADER, Image
from tidelog.cluster.metadata import PartitionChangeRecord, Record
from tidelog.cluster.registration import registered
from tidelog.errors import KafkaError, UnsupportedVersion

_log = logging.getLogger(__name__)

_PAUSE_S = 0.5
_UPDATED_S = 10.0
"""How often it is looked whether all brokers have been updated."""

Place = tuple[UUID, int]
"""A topic's id and the index of its partition."""

AssignDirectories = Callable[[Set[Place], Set[Place]], Awaitable[None]]
"""Tells the controller which replicas are offline, and which are back."""


def assign(
    image: Image, broker_id: int, broker_epoch: int, lost: Set[Place], back: Set[Place]
) -> list[PartitionChangeRecord]:
    """Mark replicas of a broker as offline, or as back; what is so already, or is gone, changes nothing."""
    registered(image, broker_id, broker_epoch)
    changes = []
    for place in sorted(lost | back):
        state = image.maybe_partition(*place)
        if state is None or broker_id not in state.replicas:
            continue
        marked = {*state.offline, broker_id} if place in lost else {*state.offline} - {broker_id}
        offline = tuple(each for each in state.replicas if each in marked)
        if offline != state.offline:
            # Whoever is back follows, or is the last in sync: it may have lost something with its disk.
            eligible = None if place in lost else _without(state.eligible, broker_id)
            changes.append(PartitionChangeRecord(*place, eligible=eligible, offline=offline))
    return changes


def _without(brokers: tuple[int, ...], broker_id: int) -> tuple[int, ...]:
    return tuple(each for each in brokers if each != broker_id)


def settled(image: Image, changes: list[PartitionChangeRecord], unclean: Unclean) -> list[Record]:
    """The changes, and the leaders that follow from them, as one batch."""
    after, _ = image.apply(changes, image.number)
    return [*changes, *settle(after, after.live_brokers, unclean)]


class Offline:
    """The replicas of this broker that are offline."""

    def __init__(
        self,
        broker_id: int,
        image: Callable[[], Image],
        assign: AssignDirectories,
        unclean: Unclean,
    ) -> None:
        self._broker_id = broker_id
        self._image = image
        self._assign = assign
        self._unclean = unclean
        self._here: set[Place] = set()
        self._empty: set[Place] = set()
        """Begun anew, so that nobody should wait for them."""
        self._waiting: set[Place] = set()
        """Back, and still marked."""
        self._told_of_old = False
        self._woken = asyncio.Event()

    def add(self, topic_id: UUID, index: int) -> None:
        """The replica lies on a directory that failed."""
        self._here.add((topic_id, index))
        self._woken.set()

    def forget(self, topic_id: UUID, index: int) -> None:
        """The replica is deleted, held elsewhere, or begun anew."""
        self._here.discard((topic_id, index))
        self._woken.set()

    def begin_empty(self, topic_id: UUID, index: int) -> None:
        """The replica has no log any more: nobody should wait for it."""
        self._empty.add((topic_id, index))

    def changed(self, topic_id: UUID, index: int) -> None:
        """The image says something else of the replica's partition."""
        if (topic_id, index) in self._here or (topic_id, index) in self._waiting:
            self._woken.set()

    async def tell(self) -> bool:
        """Let the controller know what is offline here, and only that, however long that takes.

        False while a broker is there that is too old to hear of it.
        """
        while True:
            image, told = self._image(), self._told()
            lost = {each for each in self._here - told if self._is_ours(image, each)}
            self._waiting = {each for each in told - self._here if self._waits(image, each)}
            back = told - self._here - self._waiting
            if not lost and not back:
                return True
            try:
                await self._assign(lost, back)
            except UnsupportedVersion as error:
                if not self._told_of_old:
                    self._told_of_old = True
                    _log.warning("the cluster is not told of failed directories yet: %s", error)
                return False
            except KafkaError as error:
                _log.info("the controller is told later of failed directories: %s", error)
                await asyncio.sleep(_PAUSE_S)

    async def run(self) -> None:
        """Tell of what fails, until cancelled."""
        while True:
            await self._woken.wait()
            self._woken.clear()
            if not await self.tell():
                await asyncio.sleep(_UPDATED_S)
                self._woken.set()

    def _told(self) -> set[Place]:
        """What the cluster takes for offline here."""
        return {
            (topic.id, index)
            for topic in self._image().topics.values()
            for index, state in enumerate(topic.partitions)
            if self._broker_id in state.offline
        }

    def _waits(self, image: Image, place: Place) -> bool:
        """Whether the replica is here again, and another one that had everything may come back and lead."""
        state = image.maybe_partition(*place)
        return (
            state is not None
            and place not in self._empty
            and state.leader == NO_LEADER
            and self._broker_id in state.eligible
            and not self._unclean(image.topic_names[place[0]])
        )

    def _is_ours(self, image: Image, place: Place) -> bool:
        state = image.maybe_partition(*place)
        return state is not None and self._broker_id in state.replicas
