"""What the Avro serializer takes comes back as it was; what it does not take, it refuses with the field."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.schemas import AvroDeserializer, AvroSerializer, SchemaMismatch

TYPES: dict[str, Any] = {
    "i": "int",
    "l": "long",
    "d": "double",
    "b": "boolean",
    "s": "string",
    "y": "bytes",
    "n": "null",
    "a": {"type": "array", "items": "int"},
    "t": {"type": "array", "items": "string"},
    "m": {"type": "map", "values": "boolean"},
    "u": ["null", "long", "string"],
    "w": ["null", {"type": "array", "items": "double"}],
    "e": {"type": "enum", "name": "E", "symbols": ["A", "B"]},
    "x": {"type": "fixed", "name": "X", "size": 2},
    "r": ["null", "R"],
}
SCHEMA = {
    "type": "record",
    "name": "R",
    "fields": [{"name": name, "type": type} for name, type in TYPES.items()],
}
GOOD: dict[str, Any] = {
    "i": 1,
    "l": 2**40,
    "d": 1.5,
    "b": True,
    "s": "x",
    "y": b"y",
    "n": None,
    "a": [1],
    "t": ["x"],
    "m": {"k": False},
    "u": "x",
    "w": [1.5],
    "e": "A",
    "x": b"xx",
    "r": None,
}
POOL = [
    *(None, True, False, 0, -1, 2**31, -(2**31), 2**63, -(2**63), 1.5, 2.0, float("inf"), "", "x", "A", b"", b"xx"),
    *([], [1], ["x"], [True], [2**31], [1.5], [None], {}, {"k": True}, {"k": 1}, {1: True}, (1, 2), bytearray(b"xx")),
    *({"a", "b"}, object(), 1j, "1.5", "true"),
]  # fmt: skip


def same(one: Any, other: Any) -> bool:
    """Equal, and not only because True is 1."""
    if isinstance(one, list | tuple):
        return isinstance(other, list) and len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return isinstance(other, dict) and one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)  # fmt: skip
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


@pytest.fixture(scope="module")
def both(new_client: Any) -> tuple[AvroSerializer, AvroDeserializer]:
    client = new_client()
    return AvroSerializer(client, SCHEMA, topic="t"), AvroDeserializer(client)


def test_a_good_one(both: tuple[AvroSerializer, AvroDeserializer]) -> None:
    serialize, deserialize = both
    nested = {**GOOD, "r": {**GOOD, "r": GOOD}}
    assert deserialize(serialize(nested)) == nested


@settings(max_examples=150)
@given(
    st.dictionaries(st.sampled_from(list(TYPES)), st.sampled_from(POOL), max_size=3),
    st.integers(0, 2),
)
def test_nothing_is_changed_in_silence(
    both: tuple[AvroSerializer, AvroDeserializer], changes: dict[str, Any], depth: int
) -> None:
    serialize, deserialize = both
    value = {**GOOD, **changes}
    for _ in range(depth):
        value = {**GOOD, "r": value}
    try:
        data = serialize(value)
    except SchemaMismatch as refused:
        names = [each.partition("[")[0] for each in refused.path.split(".")]
        assert set(names) & set(changes), "the field that was named is one that was changed"
        return
    assert same(value, deserialize(data))
