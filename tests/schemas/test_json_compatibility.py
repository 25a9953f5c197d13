"""JSON Schema: which documents one schema takes of another, and what is refused."""

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.schemas.errors import InvalidSchema
from tidelog.schemas.formats.json_compatibility import differences
from tidelog.schemas.formats.json_schema import parse


def kinds(reader: Any, writer: Any) -> list[str]:
    found = parse(json.dumps(reader)).cannot_read(parse(json.dumps(writer)), ("new", "old"))
    return [each.partition('"')[2].partition('"')[0] for each in found]


def closed(required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    return {**opened(required, **properties), "additionalProperties": False}


def opened(required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"type": "object", "properties": properties}
    return {**made, "required": list(required)} if required else made


INT, NUMBER, STRING = {"type": "integer"}, {"type": "number"}, {"type": "string"}
TREE = {
    "type": "object",
    "properties": {"v": INT, "kids": {"type": "array", "items": {"$ref": "#"}}},
}
TREE_OF_NUMBER = {**TREE, "properties": {**TREE["properties"], "v": NUMBER}}  # type: ignore[dict-item]

READABLE = [
    ({}, {"type": "string"}),
    (True, {}),
    (NUMBER, INT),
    ({"type": ["string", "null"]}, STRING),
    ({"enum": ["a", "b"]}, {"enum": ["a"]}),
    ({"enum": ["a", "b"]}, {"const": "b"}),
    ({"type": "string", "maxLength": 10}, {"type": "string", "maxLength": 5}),
    ({"type": "string", "minLength": 0}, STRING),
    ({"type": "integer", "multipleOf": 2}, {"type": "integer", "multipleOf": 4}),
    (STRING, {"type": "string", "pattern": "x"}),
    (closed(a=INT, b=INT), closed(a=INT)),
    (opened(a=INT), closed(a=INT)),
    (opened(), opened(a=INT)),
    (opened(("a",), a=INT), opened(("a", "b"), a=INT, b=INT)),
    (closed(("b",), a=INT, b={**INT, "default": 1}), closed(a=INT)),
    ({"type": "object", "additionalProperties": NUMBER}, closed(a=INT)),
    ({"type": "array", "items": NUMBER}, {"type": "array", "items": INT}),
    ({"prefixItems": [NUMBER, STRING], "type": "array"}, {"prefixItems": [INT, STRING], "type": "array"}),
    ({"anyOf": [INT, STRING]}, INT),
    ({"oneOf": [INT, STRING, {"type": "null"}]}, {"oneOf": [INT, STRING]}),
    ({"type": ["integer", "string"]}, {"anyOf": [INT, STRING]}),
    ({"allOf": [NUMBER]}, {"allOf": [INT]}),
    ({"anyOf": [INT, STRING]}, {"type": ["integer", "string"]}),
    (NUMBER, {"type": "integer", "anyOf": [{"minimum": 5}, {"maximum": 1}]}),
    (TREE_OF_NUMBER, TREE),
    ({"$ref": "#/$defs/x", "$defs": {"x": NUMBER}}, INT),
    ({**INT, "title": "new", "description": "x"}, {**INT, "title": "old"}),
]  # fmt: skip

UNREADABLE = [
    (INT, NUMBER, "TYPE_NARROWED"),
    (STRING, {"type": ["string", "null"]}, "TYPE_NARROWED"),
    (STRING, {}, "TYPE_NARROWED"),
    ({"enum": ["a"]}, {"enum": ["a", "b"]}, "ENUM_ARRAY_NARROWED"),
    ({"enum": ["a"]}, STRING, "ENUM_ARRAY_NARROWED"),
    ({"type": "string", "maxLength": 5}, STRING, "MAX_LENGTH_ADDED"),
    ({"type": "integer", "minimum": 5}, {"type": "integer", "minimum": 1}, "MINIMUM_CHANGED"),
    ({"type": "string", "pattern": "a"}, {"type": "string", "pattern": "b"}, "PATTERN_CHANGED"),
    (closed(a=INT), closed(a=INT, b=INT), "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL"),
    (opened(a=INT, b=INT), opened(a=INT), "PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"),
    (closed(a=INT), opened(a=INT), "ADDITIONAL_PROPERTIES_NARROWED"),
    (closed(("b",), a=INT, b=INT), closed(a=INT), "REQUIRED_ATTRIBUTE_ADDED"),
    (closed(a=INT), closed(a=STRING), "TYPE_NARROWED"),
    ({"type": "array", "items": INT}, {"type": "array", "items": STRING}, "TYPE_NARROWED"),
    ({"anyOf": [INT, STRING]}, {"anyOf": [INT, {"type": "boolean"}]}, "SUM_TYPE_NARROWED"),
    (INT, {"anyOf": [INT, STRING]}, "TYPE_NARROWED"),
    ({"anyOf": [INT, STRING], "maxLength": 3}, {"anyOf": [INT, STRING]}, "SUM_TYPE_NARROWED"),
    (TREE, TREE_OF_NUMBER, "TYPE_NARROWED"),
    ({"allOf": [{"type": "object", "required": ["a"]}]}, {"type": "object"}, "PRODUCT_TYPE_EXTENDED"),
    (False, INT, "TYPE_NARROWED"),
]  # fmt: skip


@pytest.mark.parametrize(("reader", "writer"), READABLE)
def test_what_can_be_read(reader: Any, writer: Any) -> None:
    assert kinds(reader, writer) == []


@pytest.mark.parametrize(("reader", "writer", "why"), UNREADABLE)
def test_what_cannot_be_read(reader: Any, writer: Any, why: str) -> None:
    assert why in kinds(reader, writer)


def test_references_to_other_schemas() -> None:
    text = json.dumps({"type": "object", "properties": {"a": {"$ref": "a.json"}}})
    wide, narrow = (parse(text, [("a.json", json.dumps(each))]) for each in (NUMBER, INT))
    assert wide.cannot_read(narrow, ("new", "old")) == []
    assert narrow.cannot_read(wide, ("new", "old")) != []


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "5", '"x"', '{"type": "int"}', '{"minimum": "x"}', '{"properties": 5}']
)
def test_what_is_refused(text: str) -> None:
    with pytest.raises(InvalidSchema):
        parse(text)


_scalars = st.sampled_from([INT, NUMBER, STRING, {"type": "boolean"}, {"enum": [1, "a"]}, {}])
_schemas = st.recursive(
    _scalars,
    lambda inner: (
        st.builds(
            lambda properties, rest, required: {
                "type": "object",
                "properties": properties,
                "additionalProperties": rest,
                "required": required,
            },
            st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
            st.booleans() | _scalars,
            st.lists(st.sampled_from("ab"), max_size=2, unique=True),
        )
        | st.builds(lambda items: {"type": "array", "items": items}, inner)
        | st.builds(lambda some: {"anyOf": some}, st.lists(inner, min_size=1, max_size=2))
    ),
    max_leaves=5,
)
_documents = st.recursive(
    st.sampled_from([1, 1.5, "a", True, None]),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3) | st.lists(inner, max_size=2),
    max_leaves=5,
)  # fmt: skip


@settings(max_examples=100)
@given(_schemas, _schemas, st.lists(_documents, max_size=10))
def test_what_is_called_readable_is(reader: Any, writer: Any, documents: list[Any]) -> None:
    """Sound: a document of the writer that does not fit the reader makes the reader incompatible."""
    if differences(reader, {}, writer, {}):
        return
    old, new = jsonschema.Draft202012Validator(writer), jsonschema.Draft202012Validator(reader)
    for document in documents:
        assert not old.is_valid(document) or new.is_valid(document)


@given(_schemas)
def test_a_schema_reads_itself(schema: Any) -> None:
    assert differences(schema, {}, json.loads(json.dumps(schema)), {}) == []
