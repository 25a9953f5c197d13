"""Writing the end of a transaction into every partition that it touched.

A marker in `__consumer_offsets` goes through the group coordinator, whose memory it changes; every other one is
appended to its partition, where it moves the last stable offset and wakes who waits for committed records.  Writing
twice does no harm: a second marker ends nothing.
"""

import asyncio
import logging
from collections.abc import Iterable
from typing import Protocol

from tidelog.clock import Clock
from tidelog.cluster.partition import Partitions
from tidelog.coordination.journal import append_marker
from tidelog.coordination.runtime import EndOfTransaction
from tidelog.coordination.transactions.transaction import Place
from tidelog.errors import InvalidProducerEpoch, KafkaError, UnknownTopicOrPartition
from tidelog.names import CONSUMER_OFFSETS

log = logging.getLogger(__name__)


class OffsetsHolder(Protocol):
    """The group coordinator, as far as transactions need it."""

    async def end_transaction(self, index: int, end: EndOfTransaction) -> None:
        """Write the end of a transaction to a partition of `__consumer_offsets`, and obey it."""
        ...


class Markers:
    """Writes markers on this broker, which leads every partition."""

    def __init__(self, partitions: Partitions, groups: OffsetsHolder, clock: Clock) -> None:
        self._partitions = partitions
        self._groups = groups
        self._clock = clock

    async def write(self, end: EndOfTransaction, place: Place) -> None:
        """Write one marker; returns once it is committed."""
        topic, index = place
        if topic == CONSUMER_OFFSETS:
            await self._groups.end_transaction(index, end)
            return
        partition = self._partitions.get(topic, index)
        appended = append_marker(partition, end, self._clock.now_ms())
        waiting = partition.committed(appended.last_offset)
        if waiting is not None:
            await waiting

    async def write_all(self, end: EndOfTransaction, places: Iterable[Place]) -> None:
        """Write a marker to each place; raises the first error after all were tried."""
        wanted = sorted(places)
        results = await asyncio.gather(
            *(self.write(end, place) for place in wanted), return_exceptions=True
        )
        for place, result in zip(wanted, results, strict=True):
            if isinstance(result, BaseException) and not _may_be_skipped(result, place):
                raise result


def _may_be_skipped(error: BaseException, place: Place) -> bool:
    if isinstance(error, UnknownTopicOrPartition):
        return True  # deleted meanwhile, and the transaction's records with it
    if isinstance(error, InvalidProducerEpoch):
        log.warning("no marker is written to %s-%d: %s", *place, error)
        return True
    if isinstance(error, KafkaError):
        log.warning("the marker for %s-%d is written later: %s", *place, error)
    return False
