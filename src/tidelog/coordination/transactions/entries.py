"""Which transactional batches may be appended here although their coordinator is another broker (KIP-890).

The leader of a partition asks the coordinator once for each transaction, before its first batch; from then on the open
transaction in the log speaks for itself.  The danger is the late batch: one that is appended after the marker of its
transaction would open a transaction that nobody ends.  Therefore

- an entry that was granted, and not used yet, is void when a marker comes, or when the partition has another leader epoch;
- an answer counts only if no marker came while the question was under way.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import cast

from tidelog.cluster.partition import Partition
from tidelog.cluster.peers import Peers
from tidelog.coordination.transactions.transaction import Identity, Place
from tidelog.errors import (
    CoordinatorNotAvailable,
    KafkaError,
    NotCoordinator,
    UnknownTopicOrPartition,
    error_of,
)
from tidelog.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

_ENTRIES_MAX = 10_000
"""Granted and not yet used; the oldest is forgotten, and asked for again if its batch comes after all."""
_PURPOSE = "entries"
"""A question may wait for markers, so these have a connection of their own: docs/decisions/transactions.md."""


class Entries:
    """What coordinators of other brokers have granted."""

    def __init__(self, peers: Peers, partition: Callable[[Place], Partition]) -> None:
        """`partition` gives a partition that this broker leads, or raises."""
        self._peers = peers
        self._partition = partition
        self._granted: dict[tuple[Place, int], tuple[int, int]] = {}
        """By place and producer id: the producer's epoch, and the leader epoch in which it was granted."""
        self._asking: dict[tuple[Place, int], list[_Question]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def may_append(self, place: Place, producer: Identity) -> bool:
        """Whether a batch of this producer belongs to an open transaction, as far as this broker knows."""
        partition = self._partition(place)
        if _is_open(partition, producer):
            return True
        granted = self._granted.get((place, producer.producer_id))
        return granted == (producer.producer_epoch, partition.leader_epoch)

    def enter(
        self,
        coordinator: int,
        transactional_id: str,
        producer: Identity,
        places: Iterable[Place],
        *,
        joins: bool,
    ) -> "asyncio.Future[None] | None":
        """None if batches may be appended to all these places, else a future after which to ask again.

        It is never one that is done, and fails with what the coordinator said of this producer.  `joins` puts the places
        into the transaction; otherwise it is only asked whether they are in it.
        """
        missing = [place for place in places if not self.may_append(place, producer)]
        if not missing:
            return None
        for place in missing:
            for asked in self._asking.get((place, producer.producer_id), ()):
                if asked.producer == producer and not asked.answered.done():
                    return asked.answered
        question = _Question(
            producer, {place: self._partition(place).leader_epoch for place in missing}
        )
        task = asyncio.get_running_loop().create_task(
            self._ask(coordinator, transactional_id, question, joins)
        )
        question.answered = task
        for place in missing:
            self._asking.setdefault((place, producer.producer_id), []).append(question)
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._end(question, done))
        return task

    def ended(self, place: Place, producer_id: int) -> None:
        """A marker is about to be written: whatever was granted for the place is void."""
        key = (place, producer_id)
        self._granted.pop(key, None)
        for question in self._asking.get(key, ()):
            question.still_open.pop(place, None)

    def hang_up(self, broker_id: int) -> None:
        """The broker is gone: do not wait for its answers."""
        self._peers.hang_up(broker_id, _PURPOSE)

    async def stop(self) -> None:
        """Ask no more."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _ask(
        self, coordinator: int, transactional_id: str, question: "_Question", joins: bool
    ) -> None:
        producer = question.producer
        request = _request(transactional_id, producer, question.places, verify_only=not joins)
        answer = await self._peers.ask(coordinator, request, purpose=_PURPOSE)
        told = cast(AddPartitionsToTxnResponse, answer)
        if told.error_code:
            raise error_of(told.error_code)
        codes = _codes(told)
        for place in question.places:
            error = _error(codes.get(place, -1))
            if error is not None:
                raise error
        for place, leader_epoch in question.still_open.items():
            self._grant(place, producer, leader_epoch)

    def _end(self, question: "_Question", task: "asyncio.Task[None]") -> None:
        """However the question ended, and be it cancelled before it began: nobody may wait for it any more."""
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # whoever asked may be gone, and then it is no news
        for place in question.places:
            key = (place, question.producer.producer_id)
            self._asking[key].remove(question)
            if not self._asking[key]:
                del self._asking[key]

    def _grant(self, place: Place, producer: Identity, leader_epoch: int) -> None:
        if len(self._granted) >= _ENTRIES_MAX:
            del self._granted[next(iter(self._granted))]
        self._granted[place, producer.producer_id] = (producer.producer_epoch, leader_epoch)


class _Question:
    """What a coordinator is asked: the places are settled when it is made."""

    __slots__ = ("answered", "places", "producer", "still_open")

    answered: "asyncio.Task[None]"

    def __init__(self, producer: Identity, leader_epochs: dict[Place, int]) -> None:
        self.producer = producer
        self.places = tuple(leader_epochs)
        self.still_open = leader_epochs
        """Leader epoch of each place whose transaction has not ended since the question was made."""


def _is_open(partition: Partition, producer: Identity) -> bool:
    known = partition.log.producers.by_id.get(producer.producer_id)
    return (
        known is not None
        and known.transaction_first_offset >= 0
        and known.epoch == producer.producer_epoch
    )


def _request(
    transactional_id: str, producer: Identity, places: Iterable[Place], *, verify_only: bool
) -> AddPartitionsToTxnRequest:
    topics: dict[str, list[int]] = {}
    for topic, index in places:
        topics.setdefault(topic, []).append(index)
    return AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnTransaction(
                transactional_id=transactional_id,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                verify_only=verify_only,
                topics=[
                    AddPartitionsToTxnTopic(name=name, partitions=indexes)
                    for name, indexes in topics.items()
                ],
            )
        ]
    )


def _codes(answer: AddPartitionsToTxnResponse) -> dict[Place, int]:
    return {
        (topic.name, each.partition_index): each.partition_error_code
        for transaction in answer.results_by_transaction
        for topic in transaction.topic_results
        for each in topic.results_by_partition
    }


def _error(code: int) -> KafkaError | None:
    if code == 0:
        return None
    if code < 0:
        return CoordinatorNotAvailable("the coordinator's answer says nothing of the partition")
    error = error_of(code)
    # The coordinator may not have heard of a topic that this broker leads already.
    return NotCoordinator() if isinstance(error, UnknownTopicOrPartition) else error
