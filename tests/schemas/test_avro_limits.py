"""Bytes that would become too much are refused before they are decoded; all others are not noticed."""

import io
import json
import subprocess
import sys
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.schemas import AvroDeserializer, AvroSerializer, Schema, SchemaMismatch
from tidelog.schemas.avro_limits import DEPTH, SPARE_VALUES, _build, _walk, limiter
from tidelog.schemas.wire import header

LIST: dict[str, Any] = {
    "type": "record",
    "name": "Node",
    "fields": [{"name": "value", "type": "int"}, {"name": "next", "type": ["null", "Node"]}],
}
TREE: dict[str, Any] = {
    "type": "record",
    "name": "Tree",
    "fields": [
        {"name": "name", "type": "string"},
        {"name": "branches", "type": {"type": "array", "items": "Tree"}},
        {"name": "marks", "type": {"type": "map", "values": ["null", "Tree"]}},
    ],
}
NULLS = {"type": "array", "items": "null"}
EMPTY = {"type": "record", "name": "Empty", "fields": []}
ORDINARY: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {
            "name": "lines",
            "type": {"type": "array", "items": {**LIST, "fields": LIST["fields"][:1]}},
        },
        {"name": "notes", "type": {"type": "map", "values": ["null", "string"]}},
        {"name": "nothing", "type": "null"},
    ],
}


def long(number: int) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, "long", number)
    return out.getvalue()


def made(schema: Any) -> tuple[Any, dict[str, Any]]:
    named: dict[str, Any] = {}
    return fastavro.parse_schema(json.loads(json.dumps(schema)), named_schemas=named), named


def doubled(levels: int) -> Any:
    """A record of two records of two records …: no bytes, and two to the power of `levels` values."""
    schema: Any = EMPTY
    for level in range(levels):
        inner = {"name": "a", "type": schema}
        again = {"name": "b", "type": schema["name"]}
        schema = {"type": "record", "name": f"L{level}", "fields": [inner, again]}
    return schema


def chained(levels: int) -> Any:
    """Records that hold the one before, declared beside each other."""
    fields = [{"name": "f0", "type": {"type": "record", "name": "R0", "fields": []}}]
    for level in range(1, levels):
        inner = [{"name": "f", "type": f"R{level - 1}"}]
        fields.append(
            {"name": f"f{level}", "type": {"type": "record", "name": f"R{level}", "fields": inner}}
        )
    return {"type": "record", "name": "All", "fields": fields}


HARMFUL: list[tuple[str, Any, bytes]] = [
    ("a linked list of 25,000", LIST, b"\x02\x02" * 25_000 + b"\x02\x00"),
    ("50 million nulls", NULLS, long(50_000_000) + b"\x00"),
    ("50 million nulls in a block with its size", NULLS, long(-50_000_000) + b"\x00\x00"),
    ("empty records", {"type": "array", "items": EMPTY}, long(50_000_000) + b"\x00"),
    ("a map of nothing", {"type": "map", "values": "null"}, long(1 << 40)),
    ("no bytes and 2^40 records", doubled(40), b""),
    ("a chain of 5,000 records", chained(5_000), b""),
    ("itself", {"type": "record", "name": "A", "fields": [{"name": "a", "type": "A"}]}, b""),
]


@pytest.mark.parametrize(
    ("schema", "body"), [each[1:] for each in HARMFUL], ids=[each[0] for each in HARMFUL]
)
def test_what_would_become_too_much_is_refused(schema: Any, body: bytes):
    limit = limiter(*made(schema))
    assert limit is not None
    with pytest.raises(SchemaMismatch):
        limit(body, 0)


@pytest.mark.parametrize(
    "schema", [ORDINARY, "int", ["null", "string"], {"type": "array", "items": "int"}]
)
def test_ordinary_schemas_cost_nothing(schema: Any):
    assert limiter(*made(schema)) is None


def test_what_is_in_bounds_passes():
    body = b"\x02\x02" * (DEPTH - 1) + b"\x02\x00"
    limit = limiter(*made(LIST))
    assert limit is not None
    limit(body, 0)
    nulls = limiter(*made(NULLS))
    assert nulls is not None
    nulls(long(SPARE_VALUES // 2) + b"\x00", 0)
    with pytest.raises(SchemaMismatch, match="nested more than"):
        limit(b"\x02\x02" + body, 0)


trees = st.recursive(
    st.builds(lambda name: {"name": name, "branches": [], "marks": {}}, st.text(max_size=3)),
    lambda inner: st.builds(
        lambda name, branches, marks: {"name": name, "branches": branches, "marks": marks},
        st.text(max_size=3),
        st.lists(inner, max_size=3),
        st.dictionaries(st.text(max_size=3), st.none() | inner, max_size=2),
    ),
    max_leaves=12,
)


@given(trees)
def test_every_value_that_was_written_passes(tree: Any):
    fast, named = made(TREE)
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fast, tree)
    limit = limiter(fast, named)
    assert limit is not None
    limit(b"head" + out.getvalue(), 4)
    with pytest.raises(SchemaMismatch):
        limit(out.getvalue()[:-1], 0)


@given(st.sampled_from([LIST, TREE, ORDINARY, NULLS]), st.binary(max_size=60))
def test_garbage_is_refused_or_as_large_as_its_bytes(schema: Any, body: bytes):
    fast, named = made(schema)
    try:
        _walk(_build(fast, named), body, 0)
    except SchemaMismatch:
        return
    try:
        found = fastavro.schemaless_reader(io.BytesIO(body), fast, None)
    except (EOFError, ValueError, IndexError):  # bytes that are no text, say
        return
    assert len(json.dumps(found, default=str)) < 100 * (SPARE_VALUES + 16 * len(body))


def test_the_deserialiser_looks_first(client):
    id = client.register("nodes", Schema(json.dumps(LIST)))
    read = AvroDeserializer(client)
    good = header(id) + b"\x02\x02" * 10 + b"\x02\x00"
    assert read(good)["next"]["value"] == 1
    with pytest.raises(SchemaMismatch, match=f"schema {id}: it is nested more than"):
        read(header(id) + b"\x02\x02" * 25_000 + b"\x02\x00")


def test_fastavro_itself_has_no_limit():
    """The day this fails the look beforehand can go: until then a process dies of 50 KB."""
    program = (
        "import io, sys, json, fastavro;"
        "fastavro.schemaless_reader(io.BytesIO(b'\\x02\\x02' * 2_000_000 + b'\\x02\\x00'),"
        "fastavro.parse_schema(json.loads(sys.argv[1])), None)"
    )
    run = subprocess.run(
        [sys.executable, "-c", program, json.dumps(LIST)],
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert run.returncode < 0


def mutual(depth: int) -> tuple[Any, Any]:
    """Two records that hold each other, and a value of theirs."""
    second = {
        "type": "record",
        "name": "B",
        "fields": [{"name": "f", "type": ["null", "A", "B"]}, {"name": "x", "type": "string"}],
    }
    first = {
        "type": "record",
        "name": "A",
        "fields": [{"name": "f", "type": ["null", "A", second]}, {"name": "x", "type": "int"}],
    }
    value: Any = None
    for _ in range(depth):
        value = {"f": value, "x": "s"}
    return first, {"f": value, "x": 1}


def test_a_value_that_takes_for_ever_to_write(client):
    """fastavro would try some 2^60 branches."""
    schema, value = mutual(60)
    client.register("a-value", Schema(json.dumps(schema)))
    serialize = AvroSerializer(client, subject="a-value", use_latest=True)
    with pytest.raises(SchemaMismatch, match="nested too deep"):
        serialize.check_quick(value)
    good = mutual(8)[1]
    serialize.check_quick(good)
    assert AvroDeserializer(client)(serialize(good)) == good
    lists = AvroSerializer(client, json.dumps(LIST), subject="b-value")
    node: Any = None
    for number in range(400):
        node = {"value": number, "next": node}
    lists.check_quick(node)
