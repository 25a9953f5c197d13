"""Avro's schema language: what is taken, what is refused with which words, and what is kept."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.schemas.errors import InvalidSchema
from tidelog.schemas.formats.avro import parse


def canonical(text: str) -> Any:
    return json.loads(parse(text).canonical)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ('"string"', "string"),
        ("string", "string"),
        ('{"type": "string"}', "string"),
        ('{"type": {"type": "string"}}', "string"),
        ('{"type": "int", "logicalType": "date"}', {"type": "int", "logicalType": "date"}),
        ('["null", "int"]', ["null", "int"]),
        (
            '{"name": "a.b.R", "fields": [], "type": "record"}',
            {"type": "record", "name": "R", "namespace": "a.b", "fields": []},
        ),
        (
            '{"type": "enum", "name": "E", "symbols": ["A"], "default": "A", "x": 1, "aliases": ["F"]}',
            {"type": "enum", "name": "E", "symbols": ["A"], "default": "A", "x": 1, "aliases": ["F"]},
        ),
        (
            '{"type":"record","name":"R","namespace":"n","fields":[{"name":"r","type":["null","n.R"]}]}',
            {"type": "record", "name": "R", "namespace": "n", "fields": [{"name": "r", "type": ["null", "R"]}]},
        ),
        (
            '{"type":"record","name":"R","namespace":"n","fields":[{"name":"f","order":"ignore","default":"é","type":'
            '{"type":"fixed","size":1,"name":"F"}}]}',
            {
                "type": "record",
                "name": "R",
                "namespace": "n",
                "fields": [
                    {
                        "name": "f",
                        "type": {"type": "fixed", "name": "F", "size": 1},
                        "default": "é",
                        "order": "ignore",
                    }
                ],
            },
        ),
    ],
)  # fmt: skip
def test_what_is_kept(given: str, kept: Any) -> None:
    assert canonical(given) == kept
    assert list(canonical(given)) == list(kept), "in the order in which Avro writes it"


def test_spaces_and_order_make_no_difference() -> None:
    one = parse(
        '{"type":"record","name":"R","doc":"d","fields":[{"name":"a","type":"int","default":1}]}'
    )
    other = parse(
        '{ "fields": [ {"default": 1, "type": {"type": "int"}, "name": "a"} ],\n "doc": "d", "name": "R", "type": "record" }'
    )
    assert one.canonical == other.canonical


def test_normalised_puts_unknown_attributes_in_order() -> None:
    one, other = (parse(f'{{"type":"string",{props}}}') for props in ('"b":1,"a":2', '"a":2,"b":1'))
    assert one.canonical != other.canonical
    assert one.normalized == other.normalized


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("5", "at /: 5 is not a type"),
        ("{}", "needs the attribute 'type'"),
        ('"strnig"', "'strnig' is not defined"),
        ('{"type": 5}', "is not a name"),
        ('["int", "int"]', "int is in this union already"),
        ('["int", ["string"]]', "at /1: a union may not hold another union"),
        ('{"type": "array"}', "array needs the attribute 'items'"),
        ('{"type": "map", "values": "x"}', "at /values: 'x' is not defined"),
        ('{"type": "enum", "name": "E"}', "needs a list 'symbols'"),
        ('{"type": "enum", "name": "E", "symbols": ["A", "A"]}', "the symbol 'A' twice"),
        ('{"type": "enum", "name": "E", "symbols": ["a-b"]}', "'a-b' in symbols is not a legal name"),
        ('{"type": "enum", "name": "E", "symbols": ["A"], "default": "B"}', "no symbol of E"),
        ('{"type": "fixed", "name": "F"}', "needs a 'size'"),
        ('{"type": "fixed", "name": "F", "size": -1}', "needs a 'size'"),
        ('{"type": "fixed", "size": 1}', "needs a 'name'"),
        ('{"type": "record", "name": "R"}', "needs a list 'fields'"),
        ('{"type": "record", "name": "1R", "fields": []}', "'1R' is not a legal name"),
        ('{"type": "record", "name": "R", "namespace": "a..b", "fields": []}', "not a legal namespace"),
        ('{"type": "record", "name": "int", "fields": []}', "name of a primitive"),
        ('{"type": "record", "name": "R", "fields": [5]}', "a field is an object"),
        ('{"type": "record", "name": "R", "fields": [{"name": "a"}]}', "field 'a' needs the attribute 'type'"),
        ('{"type": "record", "name": "R", "fields": [{"name": "a b", "type": "int"}]}', "not a legal field name"),
        ('{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}, {"name": "a", "type": "int"}]}', "two fields 'a'"),
        ('{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int", "default": "x"}]}', 'default "x" of field \'a\''),
        ('{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int", "default": 2147483648}]}', "does not fit"),
        ('{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int", "order": "up"}]}', "order"),
        ('{"type": "record", "name": "R", "fields": [{"name": "a", "type": {"type": "record", "name": "R", "fields": []}}]}', "R is defined twice"),
        ('{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int", "default": 1e999}]}', "does not fit"),
        ('{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int", "default": NaN}]}', "not JSON"),
        ("[" * 5000, "deep"),
        ('{"type":"array","items":' * 300 + '"int"' + "}" * 300, "deep"),
    ],
)  # fmt: skip
def test_what_is_refused(given: str, words: str) -> None:
    with pytest.raises(InvalidSchema) as refused:
        parse(given)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("type", "default"),
    [
        ("null", None),
        ("boolean", True),
        ("int", 1),
        ("double", 1),
        ("bytes", "ÿ"),
        (["null", "string"], "x"),
        ({"type": "array", "items": "int"}, [1]),
        ({"type": "map", "values": "int"}, {"a": 1}),
        (
            {"type": "record", "name": "X", "fields": [{"name": "y", "type": "int", "default": 1}]},
            {},
        ),
    ],
)
def test_defaults_that_fit(type: Any, default: Any) -> None:
    text = json.dumps(
        {"type": "record", "name": "R", "fields": [{"name": "a", "type": type, "default": default}]}
    )
    assert canonical(text)["fields"][0]["default"] == default


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
    | st.sampled_from(["record", "enum", "fixed", "array", "map", "string", "int"]),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(
        st.sampled_from(["type", "name", "fields", "items", "values", "symbols", "size", "default", "aliases", "namespace"])
        | st.text(max_size=4),
        inner,
        max_size=6,
    ),
    max_leaves=20,
)  # fmt: skip


@given(_json)
def test_garbage_is_refused_in_one_way(value: Any) -> None:
    try:
        kept = parse(json.dumps(value))
    except InvalidSchema:
        return
    assert parse(kept.canonical).canonical == kept.canonical
