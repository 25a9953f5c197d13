"""Errors of transactions, in the words that a client's version knows."""

from tidelog.errors import InvalidProducerEpoch, KafkaError, ProducerFenced


def as_known(error: KafkaError, version: int, fenced_from: int) -> KafkaError:
    """The error; before version `fenced_from` a fenced producer hears InvalidProducerEpoch instead (KIP-360)."""
    if isinstance(error, ProducerFenced) and version < fenced_from:
        return InvalidProducerEpoch(error.message)
    return error
