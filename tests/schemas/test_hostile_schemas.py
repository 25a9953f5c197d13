"""Schemas that are made to take for ever: small, and answered in a moment of processor time."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

MOST_S = 5.0
"""Of processor time, for what took minutes, or more memory than there is."""


@pytest.fixture(autouse=True)
def in_a_moment() -> Iterator[None]:
    started = time.process_time()
    yield
    assert time.process_time() - started < MOST_S


def mutual(depth: int) -> Any:
    """Two records that hold each other, and a default that fits neither, at its very end."""
    default: Any = {"z": 1}
    for _ in range(depth):
        default = {"f": default}
    second = {
        "type": "record",
        "name": "B",
        "fields": [
            {"name": "f", "type": ["null", "A", "B"]},
            {"name": "q", "type": "string", "default": ""},
        ],
    }
    first = {
        "type": "record",
        "name": "A",
        "fields": [{"name": "f", "type": ["null", "A", second]}],
    }
    fields = [{"name": "a", "type": first}, {"name": "x", "type": ["A", "B"], "default": default}]
    return {"type": "record", "name": "R", "fields": fields}


def doubled(levels: int, leaf: str) -> Any:
    schema: Any = {"type": "record", "name": "Leaf", "fields": [{"name": "v", "type": leaf}]}
    for level in range(levels):
        fields = [{"name": "a", "type": schema}, {"name": "b", "type": schema["name"]}]
        schema = {"type": "record", "name": f"L{level}", "fields": fields}
    return schema


def chained(levels: int, leaf: str) -> Any:
    fields: list[Any] = []
    for level in range(levels):
        inner = [{"name": "f", "type": f"R{level - 1}" if level else leaf}]
        kind = {"type": "record", "name": f"R{level}", "fields": inner}
        fields.append({"name": f"f{level}", "type": kind})
    return {"type": "record", "name": "All", "fields": fields[::1]}


def json_doubled(levels: int, leaf: str) -> str:
    defs: dict[str, Any] = {"d0": {"type": leaf}}
    for level in range(1, levels):
        same = {"$ref": f"#/$defs/d{level - 1}"}
        defs[f"d{level}"] = {"type": "object", "properties": {"a": same, "b": same}}
    return json.dumps({"$ref": f"#/$defs/d{levels - 1}", "$defs": defs})


def test_a_default_against_two_records_that_hold_each_other(api):
    assert len(json.dumps(mutual(24))) < 700
    status, told = api.register("s", mutual(24))
    assert (status, told["error_code"]) == (422, 42201)
    assert "does not fit its type" in told["message"]


def test_a_default_that_is_very_deep(api):
    assert api.register("s", mutual(450))[0] == 422


def test_a_difference_at_the_end_of_many_ways(api):
    assert api.register("s", doubled(30, "int"))[0] == 200
    status, told = api.register("s", doubled(30, "string"))
    assert status == 409
    assert len(told["message"]) < 100_000


def test_records_that_lead_to_each_other_for_long(api):
    assert api.register("s", chained(3_000, "int"))[0] == 200
    assert api.register("s", chained(3_000, "string"))[0] in (409, 422)


def test_so_it_is_with_json(api):
    assert api.register("s", json_doubled(40, "integer"), schemaType="JSON")[0] == 200
    status, told = api.register("s", json_doubled(40, "string"), schemaType="JSON")
    assert status == 409
    assert len(told["message"]) < 100_000
