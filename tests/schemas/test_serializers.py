"""Avro and JSON messages: the wire format, objects of several kinds, and errors that name the field."""

import enum
import json
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pydantic
import pytest

from tidelog.errors import SettingsError
from tidelog.schemas import (
    AvroDeserializer,
    AvroSerializer,
    JsonDeserializer,
    JsonSerializer,
    NotInWireFormat,
    Reference,
    RegistryError,
    Schema,
    SchemaMismatch,
    record_name,
    topic_record_name,
)

ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["OPEN", "SHUT"]}},
        {
            "name": "lines",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "Line",
                    "fields": [
                        {"name": "what", "type": "string"},
                        {"name": "price", "type": ["null", "double"], "default": None},
                    ],
                },
            },
        },
        {"name": "tags", "type": {"type": "map", "values": "string"}, "default": {}},
    ],
}
PLAIN = {
    "id": 1,
    "state": "OPEN",
    "lines": [{"what": "tea", "price": 2.5}, {"what": "cup", "price": None}],
    "tags": {"a": "b"},
}


class State(enum.Enum):
    OPEN = "OPEN"
    SHUT = "SHUT"


@dataclass
class Line:
    what: str
    price: float | None = None


@dataclass
class Order:
    id: int
    state: State
    lines: list[Line]
    tags: dict[str, str] = field(default_factory=dict)


class LineModel(pydantic.BaseModel):
    what: str
    price: float | None = None


class OrderModel(pydantic.BaseModel):
    id: int
    state: str
    lines: list[LineModel]
    tags: dict[str, str] = {}


AS_OBJECT = Order(1, State.OPEN, [Line("tea", 2.5), Line("cup")], {"a": "b"})
AS_MODEL = OrderModel.model_validate(PLAIN)


# Avro.


def test_the_wire_format(client):
    data = AvroSerializer(client, '"string"', subject="s")("hi")
    assert data == b"\x00\x00\x00\x00\x01\x04hi"
    assert AvroDeserializer(client)(data) == "hi"


def test_dicts_dataclasses_and_models_are_one(client):
    serialize = AvroSerializer(client, ORDER, topic="orders")
    data = serialize(PLAIN)
    assert serialize(AS_OBJECT) == data
    assert serialize(AS_MODEL) == data
    assert AvroDeserializer(client)(data) == PLAIN
    assert AvroDeserializer(client, to=Order)(data) == AS_OBJECT
    assert AvroDeserializer(client, to=OrderModel)(data) == AS_MODEL
    assert AvroDeserializer(client, to=lambda each: each["id"])(data) == 1


def test_nothing_stays_nothing(client):
    assert AvroSerializer(client, ORDER, topic="orders")(None) is None
    assert AvroDeserializer(client)(None) is None
    assert client.asked == []


def test_the_registry_is_asked_once(client, api):
    serialize, deserialize = AvroSerializer(client, ORDER, topic="orders"), AvroDeserializer(client)
    for _ in range(10):
        deserialize(serialize(PLAIN))
    assert client.asked == ["POST /subjects/orders-value/versions", "GET /schemas/ids/1"]
    AvroSerializer(client, ORDER, topic="orders")(PLAIN)
    assert len(client.asked) == 2, "another serializer with the same client asks no more"


def test_subjects(client):
    AvroSerializer(client, ORDER, topic="t")(PLAIN)
    AvroSerializer(client, ORDER, topic="t", is_key=True)(PLAIN)
    AvroSerializer(client, ORDER, strategy=record_name)(PLAIN)
    AvroSerializer(client, ORDER, topic="t", strategy=topic_record_name)(PLAIN)
    AvroSerializer(client, ORDER)(PLAIN, "given")
    AvroSerializer(client, ORDER, subject="own")(PLAIN)
    wanted = ["given-value", "own", "shop.Order", "t-key", "t-shop.Order", "t-value"]
    assert client.subjects() == wanted
    with pytest.raises(SettingsError, match="topic="):
        AvroSerializer(client, ORDER)(PLAIN)


def test_without_registering(client):
    serialize = AvroSerializer(client, ORDER, topic="t", auto_register=False)
    with pytest.raises(RegistryError) as refused:
        serialize(PLAIN)
    assert refused.value.code == 40401
    id = client.register("t-value", json.dumps(ORDER))
    assert serialize(PLAIN)[:5] == b"\0" + id.to_bytes(4, "big")


def test_with_the_latest(client):
    client.register("t-value", '"int"')
    client.register("t-value", '"long"')
    assert AvroSerializer(client, topic="t", use_latest=True)(5) == b"\0\0\0\0\x02\x0a"
    with pytest.raises(SettingsError):
        AvroSerializer(client, topic="t")


def test_an_incompatible_schema_is_refused(client):
    AvroSerializer(client, '"int"', subject="s")(1)
    with pytest.raises(RegistryError) as refused:
        AvroSerializer(client, '"string"', subject="s")("x")
    assert refused.value.status == 409


def test_a_reader_schema(client):
    data = AvroSerializer(client, ORDER, topic="orders")(PLAIN)
    reader = {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "double"},
            {"name": "country", "type": "string", "default": "NL"},
        ],
    }
    assert AvroDeserializer(client, reader=reader)(data) == {"id": 1.0, "country": "NL"}
    with pytest.raises(SchemaMismatch):
        AvroDeserializer(client, reader='"int"')(data)


def test_references(client):
    client.register("line", json.dumps(ORDER["fields"][2]["type"]["items"] | {"namespace": "shop"}))
    basket = Schema(
        '{"type":"record","name":"Basket","fields":[{"name":"lines","type":{"type":"array","items":"shop.Line"}}]}',
        references=(Reference("shop.Line", "line", 1),),
    )
    data = AvroSerializer(client, basket, topic="b")({"lines": [{"what": "tea"}]})
    assert AvroDeserializer(client)(data) == {"lines": [{"what": "tea", "price": None}]}
    with pytest.raises(SchemaMismatch, match=r"lines\[0\].what: is missing"):
        AvroSerializer(client, basket, topic="b")({"lines": [{}]})


def changed(**changes: Any) -> dict[str, Any]:
    return {**PLAIN, **changes}


@pytest.mark.parametrize("validate", [True, False])
@pytest.mark.parametrize(
    ("value", "path"),
    [
        (changed(id="x"), "id"),
        (changed(state="AJAR"), "state"),
        (changed(lines=[{"what": "tea"}, {"what": 5}]), "lines[1].what"),
        (changed(lines=[{"price": 1.0}]), "lines[0].what"),
        (changed(lines=[{"what": "tea", "price": "dear"}]), "lines[0].price"),
        (changed(lines=5), "lines"),
        (changed(tags={"a": 5}), "tags['a']"),
        ({"id": 1}, "state"),
        (Order("x", State.OPEN, []), "id"),  # type: ignore[arg-type]
    ],
)
def test_the_error_names_the_field(client, value, path, validate):
    with pytest.raises(SchemaMismatch) as refused:
        AvroSerializer(client, ORDER, topic="orders", validate=validate)(value)
    assert refused.value.path == path
    assert path in str(refused.value)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (changed(id=2**31), "2147483648 does not fit into int"),
        (changed(id=1.5), "1.5 (float) is not int"),
        (changed(id=True), "is not int"),
        (changed(lines="tea"), "'tea' (str) is not a list"),
    ],
)
def test_what_the_encoder_alone_would_change(client, value, words):
    with pytest.raises(SchemaMismatch) as refused:
        AvroSerializer(client, ORDER, topic="orders")(value)
    assert words in str(refused.value)


@pytest.mark.parametrize("data", [b"", b"\0\0\0", b"\x01\0\0\0\x01abc", b"{}", b'{"a": 1, "b": 2}'])
def test_bytes_that_are_no_message(client, data):
    for deserialize in (AvroDeserializer(client), JsonDeserializer(client)):
        with pytest.raises(NotInWireFormat):
            deserialize(data)


def test_bytes_that_do_not_fit_the_schema(client):
    data = AvroSerializer(client, ORDER, topic="orders")(PLAIN)
    for cut in range(5, len(data)):
        with pytest.raises(SchemaMismatch):
            AvroDeserializer(client)(data[:cut])
    with pytest.raises(RegistryError) as unknown:
        AvroDeserializer(client)(b"\0\0\0\0\x63" + data[5:])
    assert unknown.value.code == 40403


def test_logical_types(client):
    fields = {
        "day": {"type": "int", "logicalType": "date"},
        "at": {"type": "long", "logicalType": "timestamp-micros"},
        "price": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        "who": {"type": "string", "logicalType": "uuid"},
        "maybe": ["null", {"type": "long", "logicalType": "timestamp-millis"}],
    }
    schema = {
        "type": "record",
        "name": "L",
        "fields": [{"name": name, "type": type} for name, type in fields.items()],
    }
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    value = {
        "day": date(2026, 1, 2),
        "at": at,
        "price": Decimal("12.50"),
        "who": UUID(int=5),
        "maybe": at,
    }
    serialize = AvroSerializer(client, schema, topic="l")
    assert AvroDeserializer(client)(serialize(value)) == value
    for name, wrong in {"day": 1.5, "at": "soon", "price": 5, "who": 5, "maybe": "x"}.items():
        with pytest.raises(SchemaMismatch) as refused:
            serialize({**value, name: wrong})
        assert refused.value.path == name


# JSON.

PERSON = {
    "title": "Person",
    "type": "object",
    "properties": {"name": {"type": "string"}, "pets": {"type": "array", "items": {"type": "string"}}},
    "required": ["name"],
}  # fmt: skip


@dataclass
class Person:
    name: str
    pets: list[str]


def test_json_messages(client):
    serialize = JsonSerializer(client, PERSON, topic="people")
    data = serialize({"name": "Zoë", "pets": []})
    assert data == b'\0\0\0\0\x01{"name":"Zo\xc3\xab","pets":[]}'
    assert serialize(Person("Zoë", [])) == data
    assert JsonDeserializer(client)(data) == {"name": "Zoë", "pets": []}
    assert JsonDeserializer(client, to=Person)(data) == Person("Zoë", [])
    assert client.schema(1).type == "JSON"


def test_json_errors_name_the_field(client):
    serialize = JsonSerializer(client, PERSON, topic="people")
    with pytest.raises(SchemaMismatch) as refused:
        serialize({"name": "x", "pets": ["a", 5]})
    assert refused.value.path == "pets[1]"
    with pytest.raises(SchemaMismatch, match="'name' is a required property"):
        serialize({})
    serialize({"name": "x"})
    with pytest.raises(SchemaMismatch) as unreadable:
        JsonDeserializer(client)(b'\0\0\0\0\x01{"name":5}')
    assert unreadable.value.path == "name"
    assert JsonDeserializer(client, validate=False)(b'\0\0\0\0\x01{"name":5}') == {"name": 5}
    with pytest.raises(SchemaMismatch, match="not JSON"):
        JsonDeserializer(client)(b"\0\0\0\0\x01{")


def test_json_references(client):
    client.register("pet", Schema('{"type":"string","minLength":1}', "JSON"))
    owner = Schema(
        '{"type":"object","properties":{"pet":{"$ref":"pet.json"}}}',
        "JSON",
        (Reference("pet.json", "pet", 1),),
    )
    data = JsonSerializer(client, owner, topic="owners")({"pet": "cat"})
    assert JsonDeserializer(client)(data) == {"pet": "cat"}
    with pytest.raises(SchemaMismatch) as refused:
        JsonSerializer(client, owner, topic="owners")({"pet": ""})
    assert refused.value.path == "pet"


def test_one_kind_is_not_read_as_the_other(client):
    data = JsonSerializer(client, PERSON, topic="people")({"name": "x"})
    with pytest.raises(NotInWireFormat, match="JSON, not AVRO"):
        AvroDeserializer(client)(data)
