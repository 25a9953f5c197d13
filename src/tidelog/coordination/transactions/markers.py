"""Writing the end of a transaction into every partition that it touched, on whatever brokers they are.

A marker in `__consumer_offsets` goes through the group coordinator, whose memory it changes; every other one is
appended to its partition, where it moves the last stable offset and wakes who waits for committed records.  Partitions
of other brokers get theirs through WriteTxnMarkers.  Writing twice does no harm: a second marker ends nothing.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Protocol

from tidelog.clock import Clock
from tidelog.cluster.image import Image
from tidelog.cluster.partitions import Partitions
from tidelog.coordination.journal import append_marker
from tidelog.coordination.runtime import EndOfTransaction
from tidelog.coordination.transactions.entries import Entries
from tidelog.coordination.transactions.marker_sender import MarkerSender
from tidelog.coordination.transactions.transaction import Place
from tidelog.errors import (
    InvalidProducerEpoch,
    KafkaError,
    LeaderNotAvailable,
    NotCoordinator,
    NotLeaderOrFollower,
    UnknownServerError,
    UnknownTopicOrPartition,
)
from tidelog.names import CONSUMER_OFFSETS

log = logging.getLogger(__name__)


class OffsetsHolder(Protocol):
    """The group coordinator, as far as transactions need it."""

    async def end_transaction(self, index: int, end: EndOfTransaction) -> None:
        """Write the end of a transaction to a partition of `__consumer_offsets`, and obey it."""
        ...


class Markers:
    """Writes markers here, and has other brokers write theirs."""

    def __init__(
        self,
        *,
        broker_id: int,
        partitions: Partitions,
        image: Callable[[], Image],
        groups: OffsetsHolder,
        entries: Entries,
        sender: MarkerSender,
        clock: Clock,
    ) -> None:
        self._broker_id = broker_id
        self._partitions = partitions
        self._image = image
        self._groups = groups
        self._entries = entries
        self._sender = sender
        self._clock = clock

    async def write(self, end: EndOfTransaction, place: Place) -> None:
        """Write one marker on this broker; returns once it is committed."""
        topic, index = place
        # First of all: what was let in for the transaction that ends here is let in no longer.
        self._entries.ended(place, end.producer_id)
        if topic == CONSUMER_OFFSETS:
            try:
                await self._groups.end_transaction(index, end)
            except NotCoordinator as error:
                # Of the groups, not of the transaction: who completes that must go on trying.
                raise NotLeaderOrFollower(error.message) from error
            return
        partition = self._partitions.get(topic, index)
        appended = append_marker(partition, end, self._clock.now_ms())
        waiting = partition.committed(appended.last_offset)
        if waiting is not None:
            await waiting

    async def write_here(
        self, end: EndOfTransaction, places: Iterable[Place]
    ) -> dict[Place, KafkaError | None]:
        """Write markers on this broker, and say for each what kept it from being written."""
        wanted = list(places)
        results = await asyncio.gather(
            *(self.write(end, place) for place in wanted), return_exceptions=True
        )
        outcomes: dict[Place, KafkaError | None] = {}
        for place, result in zip(wanted, results, strict=True):
            if result is None or isinstance(result, KafkaError):
                outcomes[place] = result
            elif isinstance(result, Exception):
                log.error("the marker for %s-%d failed", *place, exc_info=result)
                outcomes[place] = UnknownServerError()
            else:
                raise result
        return outcomes

    async def write_all(self, end: EndOfTransaction, places: Iterable[Place]) -> None:
        """Write a marker to each place, wherever it is; raises the first error after all were tried."""
        by_leader: dict[int, list[Place]] = {}
        outcomes: dict[Place, KafkaError | None] = {}
        for place in sorted(places):
            leader = self._leader(place)
            if leader is None:
                continue  # deleted meanwhile, and the transaction's records with it
            if leader < 0:
                outcomes[place] = LeaderNotAvailable()
            else:
                by_leader.setdefault(leader, []).append(place)
        writing = [
            self.write_here(end, wanted)
            if leader == self._broker_id
            else self._sender.send(leader, end, wanted)
            for leader, wanted in by_leader.items()
        ]
        for done in await asyncio.gather(*writing):
            outcomes |= done
        for place, error in outcomes.items():
            if error is not None and not self._may_be_skipped(error, place):
                raise error

    def _leader(self, place: Place) -> int | None:
        topic = self._image().topics.get(place[0])
        if topic is None or place[1] >= len(topic.partitions):
            return None
        return topic.partitions[place[1]].leader

    def _may_be_skipped(self, error: KafkaError, place: Place) -> bool:
        if isinstance(error, UnknownTopicOrPartition):
            # Whoever says so may not have heard of a new topic yet; what counts is what we know.
            return self._leader(place) is None
        if isinstance(error, InvalidProducerEpoch):
            log.warning("no marker is written to %s-%d: %s", *place, error)
            return True
        log.warning("the marker for %s-%d is written later: %s", *place, error)
        return False
