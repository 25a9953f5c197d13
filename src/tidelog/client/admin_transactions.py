"""Transactions from outside: which there are, who has them open where, and ending those that nobody ends.

A producer that is gone is fenced by its transactional id (`fence_producers`), which aborts what it left open.  A
transaction that hangs in a partition although its coordinator knows nothing of it is found by asking both sides
(`find_hanging_transactions`, KIP-664), and aborted there (`abort_transaction`).
"""

import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import cast

from tidelog.client.closing import Closing
from tidelog.client.cluster import TRANSACTION, Cluster, note_coordinator_error
from tidelog.dataclass import dataclass
from tidelog.errors import KafkaError, TransactionalIdNotFound, error_of
from tidelog.names import TopicPartition, names_in
from tidelog.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from tidelog.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from tidelog.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from tidelog.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from tidelog.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tidelog.protocol.schema import Request, Response

_FENCING_TIMEOUT_MS = 60_000

HANGS_AFTER_MS = 900_000
"""The brokers' transaction.max.timeout.ms if nobody has set it: the longest time that a transaction may take."""


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """A transactional id, its producer, and where its transaction stands."""

    transactional_id: str
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """What the coordinator knows of a transactional id; without a transaction the start is -1."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_time_ms: int
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class ProducerDescription:
    """What a partition knows of a producer; without an open transaction there its start is -1."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    transaction_start_offset: int


@dataclass(frozen=True, slots=True)
class HangingTransaction:
    """A transaction that is open in a partition, and of which no coordinator knows: nobody will end it there."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int
    last_timestamp: int


class AsyncTransactionAdmin(Closing):
    """The part of the admin client that is about transactions."""

    _cluster: Cluster

    async def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        longer_than_ms: int = -1,
        pattern: str | None = None,
    ) -> list[TransactionListing]:
        """The transactional ids of all brokers; only those that pass what is given."""
        request = ListTransactionsRequest(
            state_filters=list(states),
            producer_id_filters=list(producer_ids),
            duration_filter=longer_than_ms,
            transactional_id_pattern=pattern,
        )
        await self._cluster.retrying(lambda: self._cluster.refresh([]))
        found: dict[str, TransactionListing] = {}
        for node in list(self._cluster.nodes):
            answer = cast(ListTransactionsResponse, await self._cluster.ask(node, request))
            if answer.error_code:
                raise error_of(answer.error_code)
            if answer.unknown_state_filters:
                unknown = ", ".join(answer.unknown_state_filters)
                raise ValueError(f"transactions have no such state: {unknown}")
            for each in answer.transaction_states:
                found[each.transactional_id] = TransactionListing(
                    each.transactional_id, each.producer_id, each.transaction_state
                )
        return sorted(found.values(), key=lambda each: each.transactional_id)

    async def describe_transactions(
        self, transactional_ids: Iterable[str]
    ) -> dict[str, TransactionDescription]:
        """What their coordinators know of these ids."""
        return {
            each: await self._describe_transaction(each) for each in names_in(transactional_ids)
        }

    async def fence_producers(self, transactional_ids: Iterable[str]) -> None:
        """Fence the producers of these ids; what they have open is aborted."""
        for name in names_in(transactional_ids):
            request = InitProducerIdRequest(
                transactional_id=name, transaction_timeout_ms=_FENCING_TIMEOUT_MS
            )
            await self._at_transaction_coordinator(
                name, request, lambda answer: cast(InitProducerIdResponse, answer).error_code
            )

    async def describe_producers(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, list[ProducerDescription]]:
        """The producers that the leaders of these partitions know."""
        found: dict[TopicPartition, list[ProducerDescription]] = {}
        for each in partitions:
            tp = TopicPartition(*each)
            found[tp] = await self._cluster.retrying(partial(self._describe_producers, tp))
        return found

    async def find_hanging_transactions(
        self,
        partitions: Iterable[TopicPartition],
        *,
        idle_ms: int = HANGS_AFTER_MS,
        now_ms: int | None = None,
    ) -> list[HangingTransaction]:
        """What is open in these partitions, has not been written to for `idle_ms`, and is unknown to its coordinator.

        Give at least the brokers' transaction.max.timeout.ms: younger ones may still be ended by those who began them.
        """
        now_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
        suspects = [
            each
            for each in await self._open_transactions(partitions)
            if now_ms - each.last_timestamp >= idle_ms
        ]
        if not suspects:
            return []
        known = await self._known_transactions({each.producer_id for each in suspects})
        strays = {each for each in suspects if (each.producer_id, each.partition) not in known}
        # One that was ended meanwhile is not known any more either.
        still = await self._open_transactions(sorted({each.partition for each in strays}))
        return [each for each in still if each in strays]

    async def _open_transactions(
        self, partitions: Iterable[TopicPartition]
    ) -> list[HangingTransaction]:
        return [
            HangingTransaction(
                tp,
                each.producer_id,
                each.producer_epoch,
                each.coordinator_epoch,
                each.transaction_start_offset,
                each.last_timestamp,
            )
            for tp, producers in (await self.describe_producers(partitions)).items()
            for each in producers
            if each.transaction_start_offset >= 0
        ]

    async def _known_transactions(
        self, producer_ids: Iterable[int]
    ) -> set[tuple[int, TopicPartition]]:
        """Who has what open where, by the coordinators' account."""
        listed = await self.list_transactions(producer_ids=producer_ids)
        known: set[tuple[int, TopicPartition]] = set()
        for each in listed:
            try:
                described = await self._describe_transaction(each.transactional_id)
            except TransactionalIdNotFound:
                continue  # it has expired meanwhile
            known |= {(described.producer_id, tp) for tp in described.partitions}
        return known

    async def abort_transaction(self, partition: TopicPartition, start_offset: int) -> None:
        """Abort, in this partition, the transaction that began there at this offset and hangs."""
        tp = TopicPartition(*partition)
        producers = (await self.describe_producers([tp]))[tp]
        for each in producers:
            if each.transaction_start_offset == start_offset:
                await self._cluster.retrying(partial(self._write_abort, tp, each))
                return
        begun = [each.transaction_start_offset for each in producers]
        listed = ", ".join(str(each) for each in sorted(begun) if each >= 0) or "none"
        raise TransactionalIdNotFound(
            f"no transaction that is open in {tp} began at offset {start_offset}; open ones began at: {listed}"
        )

    async def _describe_transaction(self, name: str) -> TransactionDescription:
        request = DescribeTransactionsRequest(transactional_ids=[name])
        answer = await self._at_transaction_coordinator(
            name,
            request,
            lambda answer: (
                cast(DescribeTransactionsResponse, answer).transaction_states[0].error_code
            ),
        )
        found = cast(DescribeTransactionsResponse, answer).transaction_states[0]
        places = [
            TopicPartition(topic.topic, index)
            for topic in found.topics
            for index in topic.partitions
        ]
        return TransactionDescription(
            name,
            found.transaction_state,
            found.producer_id,
            found.producer_epoch,
            found.transaction_timeout_ms,
            found.transaction_start_time_ms,
            tuple(sorted(places)),
        )

    async def _at_transaction_coordinator(
        self, name: str, request: Request, code_in: Callable[[Response], int]
    ) -> Response:
        async def ask() -> Response:
            answer = await self._cluster.ask_coordinator(name, request, kind=TRANSACTION)
            if code := code_in(answer):
                note_coordinator_error(self._cluster, name, code, TRANSACTION)
                raise error_of(code, f"transactional id {name!r}: {error_of(code).text}")
            return answer

        return await self._cluster.retrying(ask)

    async def _describe_producers(self, tp: TopicPartition) -> list[ProducerDescription]:
        topic = TopicRequest(name=tp.topic, partition_indexes=[tp.partition])
        answer = await self._at_leader(tp, DescribeProducersRequest(topics=[topic]))
        found = cast(DescribeProducersResponse, answer).topics[0].partitions[0]
        if found.error_code:
            await self._raise(found.error_code, tp)
        return [
            ProducerDescription(
                each.producer_id,
                each.producer_epoch,
                each.last_sequence,
                each.last_timestamp,
                each.coordinator_epoch,
                each.current_txn_start_offset,
            )
            for each in found.active_producers
        ]

    async def _write_abort(self, tp: TopicPartition, producer: ProducerDescription) -> None:
        marker = WritableTxnMarker(
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            coordinator_epoch=max(producer.coordinator_epoch, 0),
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(name=tp.topic, partition_indexes=[tp.partition])],
        )
        answer = await self._at_leader(tp, WriteTxnMarkersRequest(markers=[marker]))
        done = cast(WriteTxnMarkersResponse, answer).markers[0].topics[0].partitions[0]
        if done.error_code:
            await self._raise(done.error_code, tp)

    async def _at_leader(self, tp: TopicPartition, request: Request) -> Response:
        return await self._cluster.ask((await self._cluster.leader(*tp)).node, request)

    async def _raise(self, code: int, tp: TopicPartition) -> None:
        error: KafkaError = error_of(code, f"{tp}: {error_of(code).text}")
        if error.retriable:
            await self._cluster.refresh([tp.topic])
        raise error
