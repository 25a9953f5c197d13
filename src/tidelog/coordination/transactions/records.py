"""What `__transaction_state` holds, in Kafka's own format: one record type, the newest value of an id counts.

Key and value each begin with an int16, their version.  A key without a value is a tombstone: the id has expired.
Version 1 of the value adds tagged fields; where they have nothing to say version 0 is written, which every Kafka reads.
"""

from struct import Struct as Packer

from tidelog.coordination.transactions.states import BY_NUMBER
from tidelog.coordination.transactions.transaction import Transaction
from tidelog.dataclass import dataclass
from tidelog.errors import ProtocolError
from tidelog.protocol.codec import decode, encode_into
from tidelog.protocol.schema import Message, Struct, field, int8, int16, int32, int64, string

_INT16 = Packer(">h")


class TransactionLogKey(Message, versions="0"):
    transactional_id: string = ""


class PartitionsSchema(Struct):
    topic: string = ""
    partition_ids: list[int32] = field(factory=list)


class TransactionLogValue(Message, versions="0-1", flexible="1+"):
    producer_id: int64 = 0
    previous_producer_id: int64 = field("1+", tag=0, default=-1)
    next_producer_id: int64 = field("1+", tag=1, default=-1)
    producer_epoch: int16 = 0
    transaction_timeout_ms: int32 = 0
    transaction_status: int8 = 0
    transaction_partitions: list[PartitionsSchema] | None = field(factory=list)
    transaction_last_update_timestamp_ms: int64 = 0
    transaction_start_timestamp_ms: int64 = 0
    client_transaction_version: int16 = field("1+", tag=2, default=0)


@dataclass(frozen=True, slots=True)
class Change:
    """One record: a transactional id, and what holds from now on or None when it has expired."""

    transactional_id: str
    transaction: Transaction | None


def encode_change(change: Change) -> tuple[bytes, bytes | None]:
    """Key and value as they are stored."""
    key = bytearray(_INT16.pack(0))
    encode_into(TransactionLogKey(transactional_id=change.transactional_id), 0, key)
    if change.transaction is None:
        return bytes(key), None
    message = _to_message(change.transaction)
    version = _version_of(change.transaction)
    value = bytearray(_INT16.pack(version))
    encode_into(message, version, value)
    return bytes(key), bytes(value)


def decode_change(key: bytes, value: bytes | None) -> Change | None:
    """The record stored as `key` and `value`; None if its type is one that we do not know."""
    if _version_at(key) != 0:
        return None
    made, _ = decode(TransactionLogKey, key, _INT16.size, 0)
    if value is None:
        return Change(made.transactional_id, None)
    version = _version_at(value)
    if version not in TransactionLogValue.versions:
        raise ProtocolError(f"a transaction's value of unknown version {version}")
    message, _ = decode(TransactionLogValue, value, _INT16.size, version)
    return Change(made.transactional_id, _from_message(message))


def _version_at(data: bytes) -> int:
    if len(data) < _INT16.size:
        raise ProtocolError(f"a transaction's record has a part of {len(data)} bytes")
    return int(_INT16.unpack_from(data)[0])


def _version_of(transaction: Transaction) -> int:
    tagged = (transaction.previous_producer_id, transaction.next_producer_id)
    return 1 if tagged != (-1, -1) or transaction.client_version else 0


def _to_message(transaction: Transaction) -> TransactionLogValue:
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(transaction.places):
        topics.setdefault(topic, []).append(index)
    return TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state.number,
        transaction_partitions=[
            PartitionsSchema(topic=topic, partition_ids=ids) for topic, ids in topics.items()
        ],
        transaction_last_update_timestamp_ms=transaction.update_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
        client_transaction_version=transaction.client_version,
    )


def _from_message(message: TransactionLogValue) -> Transaction:
    number = message.transaction_status
    if not 0 <= number < len(BY_NUMBER):
        raise ProtocolError(f"a transaction of unknown state {number}")
    return Transaction(
        producer_id=message.producer_id,
        producer_epoch=message.producer_epoch,
        timeout_ms=message.transaction_timeout_ms,
        state=BY_NUMBER[number],
        places=frozenset(
            (each.topic, index)
            for each in message.transaction_partitions or ()
            for index in each.partition_ids
        ),
        start_ms=message.transaction_start_timestamp_ms,
        update_ms=message.transaction_last_update_timestamp_ms,
        previous_producer_id=message.previous_producer_id,
        next_producer_id=message.next_producer_id,
        client_version=message.client_transaction_version,
    )
