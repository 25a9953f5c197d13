"""What `__consumer_offsets` holds, in Kafka's own formats: a file for each record type.

Key and value each begin with an int16.  In a key it says which type of record this is (offset commits have
two: 0 and 1); in a value it is the version of the layout.  A key without a value is a tombstone.

    key, value = encode_change(Change(GroupMetadataKey(group="orders"), None))
    change = decode_change(key, value)      # None for a type that we do not know

A new type is a new file with one `RecordType` in it; nothing lists them.
"""

import importlib
import pkgutil
from functools import cache
from struct import Struct as Packer

from tidelog.coordination.groups.records.record_type import RecordType
from tidelog.dataclass import dataclass
from tidelog.errors import ProtocolError
from tidelog.protocol.codec import decode, encode_into
from tidelog.protocol.schema import Message

_INT16 = Packer(">h")


@dataclass(frozen=True, slots=True)
class Change:
    """One record: a key, and its new value or None when the key is gone."""

    key: Message
    value: Message | None
    producer_id: int = -1
    """Of the transaction that the record belongs to; it counts when that has ended."""


def encode_change(change: Change) -> tuple[bytes, bytes | None]:
    """Key and value as they are stored."""
    kind = _by_class()[type(change.key)]
    key = bytearray(_INT16.pack(kind.key_version))
    encode_into(change.key, kind.key_version, key)
    if change.value is None:
        return bytes(key), None
    version = kind.value_version(change.value)
    value = bytearray(_INT16.pack(version))
    encode_into(change.value, version, value)
    return bytes(key), bytes(value)


def decode_change(key: bytes, value: bytes | None) -> Change | None:
    """The record stored as `key` and `value`; None if its type is one that we do not know.

    A newer Kafka may have written types that we do not have; they are kept by compaction and skipped here.
    """
    if len(key) < _INT16.size:
        raise ProtocolError(f"a record's key has {len(key)} bytes")
    (number,) = _INT16.unpack_from(key)
    kind = _by_number().get(number)
    if kind is None:
        return None
    made, _ = decode(kind.key, key, _INT16.size, number)
    if value is None:
        return Change(made, None)
    if len(value) < _INT16.size:
        raise ProtocolError(f"a record's value has {len(value)} bytes")
    (version,) = _INT16.unpack_from(value)
    if version not in kind.value.versions:
        raise ProtocolError(f"{kind.value.__name__} of unknown version {version}")
    return Change(made, decode(kind.value, value, _INT16.size, version)[0])


@cache
def record_types() -> tuple[RecordType, ...]:
    """Every record type that has a file in this package."""
    found: list[RecordType] = []
    for info in pkgutil.iter_modules(__path__, __name__ + "."):
        module = importlib.import_module(info.name)
        found += [each for each in vars(module).values() if isinstance(each, RecordType)]
    return tuple(found)


@cache
def _by_class() -> dict[type[Message], RecordType]:
    return {kind.key: kind for kind in record_types()}


@cache
def _by_number() -> dict[int, RecordType]:
    return {number: kind for kind in record_types() for number in kind.numbers}
