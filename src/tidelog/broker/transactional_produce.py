"""The part of Produce that transactions need (KIP-890).

A transactional batch is taken only if its partition belongs to the producer's open transaction (`check_batch`).  Before
that (`enter`) its coordinator may have to be asked, if that is another broker; and from version 12 on the batch itself
brings its partition, which has to be recorded first, or has to wait for the end of the producer's previous transaction.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from tidelog.broker.context import Services
from tidelog.coordination.runtime import told
from tidelog.coordination.transactions.transaction import Identity
from tidelog.errors import (
    BrokerNotAvailable,
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidProducerEpoch,
    InvalidTxnState,
    KafkaError,
    NetworkException,
    NotCoordinator,
    NotEnoughReplicas,
    ProducerFenced,
    RequestTimedOut,
    TransactionAbortable,
    TransactionalIdAuthorizationFailed,
)
from tidelog.names import INTERNAL_TOPICS
from tidelog.network.answer import Answer, Deferred
from tidelog.records.batch import HEADER_BYTES, BatchHeader, parse_header

_JOINS_FROM = 12
_ABORTABLE_FROM = 11
"""Version of Produce from which on producers know TransactionAbortable."""


_PASSING = (
    BrokerNotAvailable,
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    NetworkException,
    NotCoordinator,
    RequestTimedOut,
)

Batches = Iterable[tuple[str, Iterable[tuple[int, memoryview | None]]]]
"""Topic, and of each partition its index and its batch."""

Turns = dict[str, "asyncio.Future[None]"]
"""By transactional id: done when the last request that had to wait was written."""


def enter(
    services: Services, transactional_id: str, batches: Batches, version: int
) -> "asyncio.Future[None] | None":
    """Have the transactional batches let into their producer's transaction.

    None when they may be appended; else what to wait for before that, in bounded time.
    """
    producer: Identity | None = None
    places: set[tuple[str, int]] = set()
    for name, parts in batches:
        if name in INTERNAL_TOPICS:
            continue
        for index, batch in parts:
            if batch is None or len(batch) < HEADER_BYTES:
                continue
            header = parse_header(batch, 0)
            if header.is_transactional and services.partitions.maybe_get(name, index):
                producer = Identity(header.producer_id, header.producer_epoch)
                places.add((name, index))
    if producer is None:
        return None
    try:
        return services.transactions.enter(
            transactional_id, producer, frozenset(places), joins=version >= _JOINS_FROM
        )
    except KafkaError as error:
        raise as_told(error, version) from None


def answer_in_turn(
    turns: Turns,
    transactional_id: str,
    let_in: "Callable[[], asyncio.Future[None] | None]",
    write: Callable[[], Answer],
    refuse: Callable[[KafkaError], Answer],
    *,
    waiting: "asyncio.Future[None] | None",
) -> Deferred:
    """Answer when the batches have been let in, and after all that came before them were written.

    Requests of one producer are pipelined, and their sequence numbers must not overtake each other.  Each step is
    taken once: its turn comes, it is let in, it is written or refused.  `waiting` is what `let_in` has said already of a
    request whose turn it is.
    """
    deferred = Deferred(pipelined=True)
    before = turns.get(transactional_id)
    mine = turns[transactional_id] = asyncio.get_running_loop().create_future()

    def its_turn(_: object) -> None:
        attempt(enter_and_write)

    def enter_and_write() -> None:
        waited = let_in()
        if waited is None:
            finish(write())
        else:
            waited.add_done_callback(entered)

    def entered(waited: "asyncio.Future[None]") -> None:
        def write_it() -> None:
            waited.result()
            finish(write())

        attempt(write_it)

    def attempt(step: Callable[[], None]) -> None:
        """However the step ends, whoever comes next is not left waiting."""
        try:
            step()
        except KafkaError as error:
            finish(refuse(told(error)))
        except asyncio.CancelledError:  # what was waited for is given up: the broker stops
            finish(refuse(NotCoordinator()))
        except Exception as error:  # noqa: BLE001  (the root of the request: the connection tells of it, and is closed)
            finish(error)

    def finish(answer: Answer | Exception) -> None:
        if isinstance(answer, Deferred) and not answer.pipelined:
            answer.then(
                finish
            )  # not all of it is written yet, and whoever comes next waits for that
            return
        if turns.get(transactional_id) is mine:
            del turns[transactional_id]
        mine.set_result(None)
        if isinstance(answer, Deferred):
            answer.then(deferred.resolve)
        else:
            assert not isinstance(answer, Awaitable)
            deferred.resolve(answer)

    if waiting is not None:
        waiting.add_done_callback(entered)
    elif before is not None:
        before.add_done_callback(its_turn)
    else:
        its_turn(None)
    return deferred


def check_batch(
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
        services.transactions.check(transactional_id, producer, place)
    except KafkaError as error:
        raise as_told(error, version) from None


def as_told(error: KafkaError, version: int) -> KafkaError:
    """The error of a coordinator, as producers of this version understand it."""
    if isinstance(error, TransactionAbortable) and version < _ABORTABLE_FROM:
        return InvalidTxnState(error.message)
    if isinstance(error, ProducerFenced):
        # Produce has an older word for it, and keeps to it.
        return InvalidProducerEpoch(error.message)
    if isinstance(error, _PASSING):
        # Every producer knows this one, and tries again.
        return NotEnoughReplicas(error.message)
    return error
