"""The part of Produce that transactions need (KIP-890).

A transactional batch is taken only if its partition belongs to the producer's open transaction (`verify_batch`).  From
version 12 on the batch itself brings its partition (`join`), which may have to wait: for the record of it to be
committed, or for the end of the producer's previous transaction.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from tidelog.broker.context import Services
from tidelog.coordination.transactions.transaction import Identity
from tidelog.errors import (
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidProducerEpoch,
    InvalidTxnState,
    KafkaError,
    NotCoordinator,
    NotEnoughReplicas,
    ProducerFenced,
    ProtocolError,
    TransactionAbortable,
    TransactionalIdAuthorizationFailed,
)
from tidelog.names import INTERNAL_TOPICS
from tidelog.network.answer import Answer, Deferred
from tidelog.records.batch import HEADER_BYTES, BatchHeader, parse_header

JOINS_FROM = 12
_ABORTABLE_FROM = 11
"""Version of Produce from which on producers know TransactionAbortable."""


_PASSING = (
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    NotCoordinator,
)

Places = Iterable[tuple[str, Iterable[tuple[int, int, int]]]]
"""Topic, and of each partition its index and where its batch begins and ends in the frame."""


def join(
    services: Services, transactional_id: str, frame: memoryview, places: Places, version: int
) -> "asyncio.Future[None] | None":
    """Put the partitions of the frame's transactional batches into their producer's transaction.

    None when that is done; else what to wait for before asking again.
    """
    producer: Identity | None = None
    joining: set[tuple[str, int]] = set()
    for name, parts in places:
        if name in INTERNAL_TOPICS:
            continue
        for index, start, end in parts:
            if end - start >= HEADER_BYTES and services.partitions.maybe_get(name, index):
                header = parse_header(frame, start)
                if header.is_transactional:
                    producer = Identity(header.producer_id, header.producer_epoch)
                    joining.add((name, index))
    if producer is None:
        return None
    try:
        return services.transactions.join(transactional_id, producer, frozenset(joining))
    except KafkaError as error:
        raise _as_told(error, version) from None


def answer_after(waiting: "asyncio.Future[None]", again: Callable[[], Answer]) -> Deferred:
    """The answer that `again` gives once `waiting` is done, whatever came of it."""
    deferred = Deferred(pipelined=True)

    def done(_: "asyncio.Future[None]") -> None:
        try:
            answer = again()
        except ProtocolError as error:
            deferred.resolve(error)
            return
        if isinstance(answer, Deferred):
            answer.then(deferred.resolve)
        else:
            assert not isinstance(answer, Awaitable)
            deferred.resolve(answer)

    waiting.add_done_callback(done)
    return deferred


def verify_batch(
    services: Services,
    transactional_id: str | None,
    place: tuple[str, int],
    header: BatchHeader,
    version: int,
) -> None:
    """Raise, as producers of this version understand it, unless the batch belongs to an open transaction.

    A batch that came while its transaction is ending, or after that, would end up in nobody's transaction, and
    hold back every reader of committed records.
    """
    if transactional_id is None:
        raise TransactionalIdAuthorizationFailed("the request names no transactional id")
    producer = Identity(header.producer_id, header.producer_epoch)
    try:
        services.transactions.verify(transactional_id, producer, place)
    except KafkaError as error:
        raise _as_told(error, version) from None


def _as_told(error: KafkaError, version: int) -> KafkaError:
    if isinstance(error, TransactionAbortable) and version < _ABORTABLE_FROM:
        return InvalidTxnState(error.message)
    if isinstance(error, ProducerFenced):
        # Produce has an older word for it, and keeps to it.
        return InvalidProducerEpoch(error.message)
    if isinstance(error, _PASSING):
        # Every producer knows this one, and tries again.
        return NotEnoughReplicas(error.message)
    return error
