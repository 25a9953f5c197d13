"""Avro by schema id, with a real registry."""

import io
import json
from collections.abc import Iterator

import fastavro
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tidelog.errors import SettingsError
from tidelog.schemas import AvroSerializer, RegistryClient
from tidelog.schemas.local_registry import LocalRegistry
from tidelog.spark import from_avro, to_avro
from tidelog.spark.avro import arrow_type
from tidelog.spark.native_avro import NativeReader, Slow

OLD = json.dumps(
    {"type": "record", "name": "Click", "fields": [{"name": "item", "type": "string"}]}
)
NEW = json.dumps(
    {
        "type": "record",
        "name": "Click",
        "fields": [
            {"name": "item", "type": "string"},
            {"name": "place", "type": ["null", "int"], "default": None},
        ],
    }
)


@pytest.fixture(scope="module")
def registry(bootstrap: str) -> Iterator[str]:
    with LocalRegistry(bootstrap) as made:
        yield made.url


def test_values_of_several_schemas_become_columns(spark: SparkSession, registry: str) -> None:
    client = RegistryClient(registry)
    old = AvroSerializer(client, OLD, subject="clicks-value")
    new = AvroSerializer(client, NEW, subject="clicks-value")
    values = [old({"item": "a"}), new({"item": "b", "place": 3}), b"poison", None]
    frame = spark.createDataFrame([(value,) for value in values], "value binary")
    decoded = from_avro(frame, registry, subject="clicks-value")
    rows = [row.decoded.asDict() if row.decoded else None for row in decoded.collect()]
    assert rows == [{"item": "a", "place": None}, {"item": "b", "place": 3}, None, None]

    good = decoded.where("decoded is not null").select("decoded")
    again = to_avro(good, registry, NEW, subject="clicks-value", column="decoded")
    assert bytes(again.collect()[1].decoded) == values[1]


def test_types() -> None:
    schema = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "when", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "tags", "type": {"type": "array", "items": "string"}},
            {"name": "sizes", "type": {"type": "map", "values": "double"}},
            {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A"]}},
            {"name": "other", "type": ["null", "Kind"]},
        ],
    }
    assert arrow_type(schema) == pa.struct(
        [
            ("when", pa.timestamp("us", "UTC")),
            ("tags", pa.list_(pa.field("element", pa.string()))),
            ("sizes", pa.map_(pa.string(), pa.float64())),
            ("kind", pa.string()),
            ("other", pa.string()),
        ]
    )
    with pytest.raises(SettingsError, match="union of 2 types"):
        arrow_type(["null", "int", "string"])


WRITTEN = {
    "type": "record",
    "name": "Event",
    "fields": [
        {"name": "item", "type": "string"},
        {"name": "number", "type": "int"},
        {"name": "place", "type": ["null", "int"], "default": None},
        {"name": "when", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {
            "name": "inner",
            "type": {
                "type": "record",
                "name": "Inner",
                "fields": [{"name": "x", "type": "double"}],
            },
        },
    ],
}


def message(number: int, schema: dict[str, object] = WRITTEN, id: int = 1) -> bytes:
    out = io.BytesIO()
    out.write(b"\0" + id.to_bytes(4, "big"))
    value = {
        "item": f"item {number}",
        "number": number,
        "place": None if number % 3 else number,
        "when": 1_700_000_000_000 + number,
        "kind": "AB"[number % 2],
        "tags": ["t"] * (number % 3),
        "inner": {"x": number / 7},
    }
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return out.getvalue()


def reader_for(
    reader: dict[str, object], writers: dict[int, dict[str, object]]
) -> tuple[NativeReader, Slow]:
    parsed = {
        id: fastavro.parse_schema(json.loads(json.dumps(each))) for id, each in writers.items()
    }
    target = fastavro.parse_schema(json.loads(json.dumps(reader)))

    def slow(data: bytes | None) -> object:
        if data is None:
            return None
        return fastavro.schemaless_reader(
            io.BytesIO(data[5:]), parsed[int.from_bytes(data[1:5], "big")], target
        )

    def text(id: int) -> str | None:
        return json.dumps(writers[id]) if id in writers else None

    return NativeReader(reader, arrow_type(reader), text, slow), slow


def test_the_native_reader_says_the_same() -> None:
    newer = {
        **WRITTEN,
        "fields": [
            *(each for each in WRITTEN["fields"] if each["name"] != "number"),
            {"name": "number", "type": "long"},
            {"name": "added", "type": "string", "default": "?"},
        ],
    }
    shorter = {**WRITTEN, "fields": [each for each in newer["fields"] if each["name"] != "added"]}
    native, slow = reader_for(newer, {1: WRITTEN, 2: shorter})
    values = [message(n, *((WRITTEN, 1) if n % 2 else (shorter, 2))) for n in range(500)]
    values[7] = values[8] = None
    found = native.decode(values)
    assert found is not None
    assert found.equals(pa.array([slow(each) for each in values], arrow_type(newer)))
    assert native.decode([None, None]).to_pylist() == [None, None]


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"\0\0\0\0\1",
        b"\0\0\0\0\x09xyz",
        message(3)[:-1],
        message(3) + b"x",
        b"\1" + message(3)[1:],
        b"\0\0\0\0\1"
        + b"\x80\x80\x80\x80\x40",  # a text of 34 GB, of which Polars says that it panics
    ],
)
def test_one_bad_message_and_the_batch_is_not_taken(bad: bytes) -> None:
    native, _ = reader_for(WRITTEN, {1: WRITTEN})
    good = [message(n) for n in range(100)]
    assert native.decode(good) is not None
    assert native.decode([*good[:50], bad, *good[50:]]) is None


def test_what_may_become_too_much_is_left_to_fastavro() -> None:
    """Which is given it after a look at its counts (`tidelog.schemas.avro_limits`)."""
    nothing = {"name": "nothing", "type": {"type": "array", "items": "null"}}
    written = {**WRITTEN, "fields": [*WRITTEN["fields"], nothing]}
    native, _ = reader_for(WRITTEN, {1: written})
    assert native.decode([message(3) + b"\x00"]) is None


def test_what_needs_more_than_columns_is_left_alone() -> None:
    renamed = {
        **WRITTEN,
        "fields": [{"name": "thing", "type": "string", "aliases": ["item"], "default": ""}],
    }
    native, _ = reader_for(renamed, {1: WRITTEN})
    assert native.decode([message(1)]) is None
