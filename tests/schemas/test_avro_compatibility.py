"""The cases of "Schema Resolution" in Avro's specification, one after the other, and what they leave open."""

import io
import json
from typing import Any

import fastavro
import pytest

from tidelog.schemas.formats.avro import parse

R = "record"


def record(*fields: Any, name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": R, "name": name, "fields": list(fields), **more}


def field(name: str, type: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type, **more}


def enum(*symbols: str, name: str = "E", **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": name, "symbols": list(symbols), **more}


def fixed(size: int, name: str = "F", **more: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": name, "size": size, **more}


def array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def map_of(values: Any) -> dict[str, Any]:
    return {"type": "map", "values": values}


def kinds(reader: Any, writer: Any) -> list[str]:
    """What speaks against reading."""
    found = parse(json.dumps(reader)).cannot_read(parse(json.dumps(writer)), ("new", "old"))
    return [each.partition("'")[2].partition("'")[0] for each in found]


PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
PROMOTIONS = {
    ("int", "long"),
    ("int", "float"),
    ("int", "double"),
    ("long", "float"),
    ("long", "double"),
    ("float", "double"),
    ("string", "bytes"),
    ("bytes", "string"),
}


@pytest.mark.parametrize("writer", PRIMITIVES)
@pytest.mark.parametrize("reader", PRIMITIVES)
def test_primitives_and_promotions(reader: str, writer: str) -> None:
    readable = reader == writer or (writer, reader) in PROMOTIONS
    assert kinds(reader, writer) == ([] if readable else ["TYPE_MISMATCH"])


LIST = record(field("value", "long"), field("next", ["null", "R"], default=None))
LIST_OF_INT = record(field("value", "int"), field("next", ["null", "R"], default=None))
LIST_OF_STRING = record(field("value", "string"), field("next", ["null", "R"], default=None))

READABLE = [
    ("arrays whose item types match", array("long"), array("int")),
    ("maps whose value types match", map_of("double"), map_of("float")),
    ("enums of one name", enum("A", "B"), enum("A", "B")),
    ("fixed of one name and size", fixed(4), fixed(4)),
    ("records of one name", record(field("a", "int")), record(field("a", "int"))),
    ("fields in another order", record(field("a", "int"), field("b", "int")), record(field("b", "int"), field("a", "int"))),
    ("a field that the writer lacks, with a default", record(field("a", "int", default=1)), record()),
    ("a default that is null", record(field("a", ["null", "int"], default=None)), record()),
    ("a field that the reader lacks", record(), record(field("a", "int"))),
    ("a field that was promoted", record(field("a", "double")), record(field("a", "int"))),
    ("a field under its alias", record(field("b", "int", aliases=["a"])), record(field("a", "int"))),
    ("a record under its alias", record(name="New", aliases=["Old"]), record(name="Old")),
    ("a record under its full alias", record(name="New", aliases=["x.Old"]), record(name="Old", namespace="x")),
    ("an enum under its alias", enum("A", name="New", aliases=["Old"]), enum("A", name="Old")),
    ("a fixed under its alias", fixed(2, name="New", aliases=["Old"]), fixed(2, name="Old")),
    ("names in another namespace", record(namespace="x"), record(namespace="y")),
    ("symbols in another order, and more", enum("C", "B", "A"), enum("A", "B")),
    ("a symbol that is missing, with a default", enum("A", default="A"), enum("A", "B")),
    ("the reader a union", ["null", "string"], "string"),
    ("the reader a union, promoted", ["null", "double"], "int"),
    ("the writer a union of what the reader reads", "long", ["int", "long"]),
    ("the writer a union of one", "string", ["string"]),
    ("both unions", ["null", "string", "int"], ["null", "string"]),
    ("both unions, promoted", ["null", "double"], ["int", "float", "null"]),
    ("both unions, in another order", ["string", "null"], ["null", "string"]),
    ("a union of records", [record(name="A"), record(name="B")], record(name="B")),
    ("a recursive type", LIST, LIST_OF_INT),
    ("a union in a record", record(field("a", ["null", "int"])), record(field("a", "int"))),
    ("deep inside", array(map_of(record(field("a", ["null", "long"])))), array(map_of(record(field("a", "int"))))),
    ("a logical type on the same type", {"type": "int", "logicalType": "date"}, "int"),
    ("an error as a record", {**record(), "type": "error"}, record()),
    ("an empty writer union", "int", []),
]  # fmt: skip


@pytest.mark.parametrize(("reader", "writer"), [each[1:] for each in READABLE], ids=[each[0] for each in READABLE])  # fmt: skip
def test_what_can_be_read(reader: Any, writer: Any) -> None:
    assert kinds(reader, writer) == []


UNREADABLE = [
    ("another item type", array("int"), array("string"), ["TYPE_MISMATCH"]),
    ("another value type", map_of("int"), map_of("long"), ["TYPE_MISMATCH"]),
    ("an array for a map", array("int"), map_of("int"), ["TYPE_MISMATCH"]),
    ("a record for an enum", record(name="X"), enum("A", name="X"), ["TYPE_MISMATCH"]),
    ("a fixed for bytes", fixed(4), "bytes", ["TYPE_MISMATCH"]),
    ("enums of other names", enum("A", name="X"), enum("A", name="Y"), ["NAME_MISMATCH"]),
    ("records of other names", record(name="X"), record(name="Y"), ["NAME_MISMATCH"]),
    ("the writer's alias", record(name="X"), record(name="Y", aliases=["X"]), ["NAME_MISMATCH"]),
    ("fixed of other names", fixed(4, name="X"), fixed(4, name="Y"), ["NAME_MISMATCH"]),
    ("fixed of another size", fixed(4), fixed(8), ["FIXED_SIZE_MISMATCH"]),
    ("a symbol that is missing", enum("A"), enum("A", "B"), ["MISSING_ENUM_SYMBOLS"]),
    ("the writer's enum default", enum("A"), enum("A", "B", default="A"), ["MISSING_ENUM_SYMBOLS"]),
    ("a field without a default", record(field("a", "int")), record(), ["READER_FIELD_MISSING_DEFAULT_VALUE"]),
    ("a nullable field without a default", record(field("a", ["null", "int"])), record(), ["READER_FIELD_MISSING_DEFAULT_VALUE"]),
    ("the writer's field alias", record(field("a", "int")), record(field("b", "int", aliases=["a"])), ["READER_FIELD_MISSING_DEFAULT_VALUE"]),
    ("two fields", record(field("a", "int"), field("b", "int")), record(), ["READER_FIELD_MISSING_DEFAULT_VALUE"] * 2),
    ("a field of another type", record(field("a", "int")), record(field("a", "long")), ["TYPE_MISMATCH"]),
    ("a default does not help a wrong type", record(field("a", "int", default=0)), record(field("a", "string")), ["TYPE_MISMATCH"]),
    ("the reader union lacks it", ["null", "int"], "string", ["MISSING_UNION_BRANCH"]),
    ("the reader union lacks one", ["null", "string"], ["null", "int"], ["MISSING_UNION_BRANCH"]),
    ("the reader lacks one of the writer's union", "int", ["int", "string"], ["TYPE_MISMATCH"]),
    ("null is not taken", "string", ["null", "string"], ["TYPE_MISMATCH"]),
    ("an empty reader union", [], "int", ["MISSING_UNION_BRANCH"]),
    ("a recursive type", LIST, LIST_OF_STRING, ["TYPE_MISMATCH"]),
    ("not the other way", LIST_OF_INT, LIST, ["TYPE_MISMATCH"]),
    ("deep inside", array(map_of(record(field("a", "int")))), array(map_of(record(field("a", "string")))), ["TYPE_MISMATCH"]),
    ("a record in a union", ["null", record(field("a", "int"))], ["null", record(field("a", "string"))], ["MISSING_UNION_BRANCH"]),
]  # fmt: skip


@pytest.mark.parametrize(("reader", "writer", "why"), [each[1:] for each in UNREADABLE], ids=[each[0] for each in UNREADABLE])  # fmt: skip
def test_what_cannot_be_read(reader: Any, writer: Any, why: list[str]) -> None:
    assert kinds(reader, writer) == why


SAMPLES = {
    "arrays whose item types match": [1, 2],
    "a field that was promoted": {"a": 3},
    "a field under its alias": {"a": 3},
    "a symbol that is missing, with a default": "B",
    "a recursive type": {"value": 1, "next": {"value": 2, "next": None}},
    "both unions, promoted": 2.5,
    "a union in a record": {"a": 1},
    "the reader a union": "x",
    "a field that the writer lacks, with a default": {},
}


@pytest.mark.parametrize("case", SAMPLES)
def test_what_we_call_readable_fastavro_reads(case: str) -> None:
    _, reader, writer = next(each for each in READABLE if each[0] == case)
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(writer), SAMPLES[case])
    out.seek(0)
    fastavro.schemaless_reader(out, fastavro.parse_schema(writer), fastavro.parse_schema(reader))


def test_the_reason_says_where_and_who() -> None:
    new = parse(
        json.dumps(record(field("a", "int"), field("b", record(field("c", "int"), name="Inner"))))
    )
    old = parse(json.dumps(record(field("a", "int"), field("b", record(name="Inner")))))
    assert new.cannot_read(old, ("new", "old")) == [
        "{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE', description:'The field 'c' at path "
        "'/fields/1/type/fields/0' in the new schema has no default value and is missing in the old schema', "
        "additionalInfo:'c'}"
    ]


def test_references_bring_their_types() -> None:
    street = json.dumps(record(field("street", "string"), name="Address", namespace="shop"))
    both = json.dumps(
        record(field("street", "string"), field("zip", "string"), name="Address", namespace="shop")
    )
    text = json.dumps(record(field("home", "shop.Address"), name="Customer"))
    reader, writer = parse(text, [("shop.Address", both)]), parse(text, [("shop.Address", street)])
    assert len(reader.cannot_read(writer, ("new", "old"))) == 1
    assert writer.cannot_read(reader, ("new", "old")) == []
    assert json.loads(reader.canonical) == json.loads(text), (
        "what is referred to is not written out"
    )


def test_nested_unions_of_records_end_in_time() -> None:
    """Each level asks for the one below twice: without memory that is 2^60 questions."""

    def nested(leaf: str) -> Any:
        schema: Any = record(field("x", leaf), name="L0")
        for level in range(1, 61):
            below = f"L{level - 1}"
            schema = record(
                field("a", ["null", schema]), field("b", ["null", below]), name=f"L{level}"
            )
        return schema

    assert kinds(nested("int"), nested("string")) != []
    assert kinds(nested("long"), nested("int")) == []
