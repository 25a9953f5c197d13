"""Whether a transactional batch belongs to an open transaction (KIP-890, part 1), told as Produce tells it."""

from tidelog.broker.context import Services
from tidelog.coordination.transactions.transaction import Identity
from tidelog.errors import (
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidProducerEpoch,
    InvalidTxnState,
    NotEnoughReplicas,
    ProducerFenced,
    TransactionAbortable,
    TransactionalIdAuthorizationFailed,
)
from tidelog.records.batch import BatchHeader

_ABORTABLE_FROM = 11
"""Version of Produce from which on producers know TransactionAbortable."""


def verify_batch(
    services: Services,
    transactional_id: str | None,
    place: tuple[str, int],
    header: BatchHeader,
    version: int,
) -> None:
    """Raise, as producers of this version understand it, unless the batch belongs to an open transaction.

    A batch that was added while its transaction is ending, or after that, would end up in nobody's transaction, and
    hold back every reader of committed records.
    """
    if transactional_id is None:
        raise TransactionalIdAuthorizationFailed("the request names no transactional id")
    producer = Identity(header.producer_id, header.producer_epoch)
    try:
        services.transactions.verify(transactional_id, producer, place)
    except TransactionAbortable as error:
        if version < _ABORTABLE_FROM:
            raise InvalidTxnState(error.message) from None
        raise
    except ProducerFenced as error:
        # Produce has an older word for it, and keeps to it.
        raise InvalidProducerEpoch(error.message) from None
    except (ConcurrentTransactions, CoordinatorLoadInProgress, CoordinatorNotAvailable) as error:
        # Every producer knows this one, and tries again.
        raise NotEnoughReplicas(error.message) from None
