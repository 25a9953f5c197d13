"""The one writer of `_schemas`: appends with a producer epoch that fences whoever wrote before it.

`take_over` asks for the producer id of a fixed transactional id.  The coordinator raises the id's epoch, and the first
record with it (a NOOP) makes the partition refuse every older epoch from there on (KIP-98).  So when the NOOP has been
read back, no former writer can add anything any more, however long it was paused, and all that it did add is known.
The batches themselves are not transactional: there is nothing to commit, and a reader sees no markers.

A writer that was refused, or does not know what became of a batch, is no writer until it has taken over again.
"""

import asyncio
import time
from collections.abc import Sequence
from typing import cast

from tidelog.client.cluster import TRANSACTION, Cluster, note_coordinator_error
from tidelog.errors import (
    DuplicateSequenceNumber,
    InvalidProducerEpoch,
    KafkaError,
    MessageTooLarge,
    OutOfOrderSequenceNumber,
    ProducerFenced,
    RecordListTooLarge,
    UnknownProducerId,
    error_of,
)
from tidelog.names import TopicPartition
from tidelog.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from tidelog.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tidelog.records.builder import build_batch
from tidelog.schemas.journal import Entry, NoopKey, encode

_PRODUCE_BY_NAME = 12
_TRANSACTION_TIMEOUT_MS = 60_000
_EPOCH_AGE_S = 24 * 3600.0
"""An epoch is renewed daily: the coordinator forgets an id that was idle for transactional.id.expiration.ms (7 days)."""
_REFUSED = (InvalidProducerEpoch, ProducerFenced, OutOfOrderSequenceNumber, UnknownProducerId)


class NotTheWriter(Exception):
    """Another instance has taken over, or this one must do so anew."""


class TooLarge(Exception):
    """The topic does not take a record of this size."""


class Writer:
    """Appends to the topic's only partition; lives on one loop, and is called by one task at a time."""

    def __init__(self, cluster: Cluster, topic: str, name: str, timeout_s: float) -> None:
        self._cluster = cluster
        self._partition = TopicPartition(topic, 0)
        self._transactional_id = name
        self._timeout_s = timeout_s
        self._producer_id = -1
        self._epoch = -1
        self._sequence = 0
        self._taken_at = 0.0
        self.ready = False
        """Whether appends may be tried.  Invariant: then `_sequence` is what the partition expects next, and all that
        former writers wrote has been read."""

    @property
    def stale(self) -> bool:
        """Whether it must take over (again) before it appends."""
        return not self.ready or time.monotonic() - self._taken_at > _EPOCH_AGE_S

    async def take_over(self, max_id: int) -> int:
        """Fence all others; who has read up to the offset that it returns may set `ready`, and decide."""
        self.ready = False
        answer = await self._cluster.retrying(self._new_epoch, self._timeout_s)
        self._producer_id, self._epoch = answer.producer_id, answer.producer_epoch
        self._sequence = 0
        self._taken_at = time.monotonic()
        return await self._append([(NoopKey(), max_id)])

    async def append(self, entries: Sequence[Entry]) -> int:
        """Append at once, all or nothing; returns the last one's offset, -1 if that is not known."""
        if not self.ready:
            raise NotTheWriter
        return await self._append(entries)

    async def _append(self, entries: Sequence[Entry]) -> int:
        now_ms = time.time_ns() // 1_000_000
        rows = [(now_ms, *encode(entry), ()) for entry in entries]
        batch = build_batch(
            rows,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=self._sequence,
        )
        try:
            # The same batch with the same number is sent again, so what was taken already is not taken twice.
            base = await self._cluster.retrying(lambda: self._produce(batch), self._timeout_s)
        except (MessageTooLarge, RecordListTooLarge) as error:
            raise TooLarge from error
        except _REFUSED as error:
            self.ready = False
            raise NotTheWriter from error
        except (KafkaError, asyncio.CancelledError):
            self.ready = False  # it may be there or not
            raise
        self._sequence += len(rows)
        return base + len(rows) - 1 if base >= 0 else -1

    async def _produce(self, batch: bytearray) -> int:
        topic, index = self._partition
        leader = await self._cluster.leader(topic, index)
        data = PartitionProduceData(index=index, records=bytes(batch))
        request = ProduceRequest(
            acks=-1,
            timeout_ms=int(self._timeout_s * 1000),
            topic_data=[TopicProduceData(name=topic, partition_data=[data])],
        )
        try:
            response = cast(
                ProduceResponse,
                await self._cluster.ask(leader.node, request, at_most=_PRODUCE_BY_NAME),
            )
            return _base_offset(response.responses[0].partition_responses[0])
        except KafkaError as error:
            if error.retriable:
                await self._cluster.refresh([topic])
            raise

    async def _new_epoch(self) -> InitProducerIdResponse:
        request = InitProducerIdRequest(
            transactional_id=self._transactional_id, transaction_timeout_ms=_TRANSACTION_TIMEOUT_MS
        )
        answer = cast(
            InitProducerIdResponse,
            await self._cluster.ask_coordinator(self._transactional_id, request, kind=TRANSACTION),
        )
        if answer.error_code:
            note_coordinator_error(
                self._cluster, self._transactional_id, answer.error_code, TRANSACTION
            )
            raise error_of(answer.error_code)
        return answer


def _base_offset(answer: PartitionProduceResponse) -> int:
    if answer.error_code == DuplicateSequenceNumber.code:
        return -1
    if answer.error_code:
        raise error_of(answer.error_code, answer.error_message)
    return answer.base_offset
