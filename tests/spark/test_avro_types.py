"""Every type of Avro's specification as a column: through fastavro, through Polars, and back; without Spark but for one look."""

import io
import json
import uuid
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tidelog.errors import SettingsError
from tidelog.schemas import AvroSerializer, RegistryClient
from tidelog.schemas.local_registry import LocalRegistry
from tidelog.spark.avro import from_avro, to_avro
from tidelog.spark.avro_types import arrow_type, column_of
from tidelog.spark.native_avro import NativeReader

NOON = datetime(2026, 1, 31, 12, 0, 0, 123000, UTC).replace(tzinfo=None)
ID = uuid.UUID("01234567-89ab-cdef-0123-456789abcdef")
POINT = {"type": "record", "name": "Point", "fields": [{"name": "x", "type": "int"}]}


def logical(kind: str, logical_type: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": logical_type, **more}


CASES: dict[str, tuple[Any, Any, pa.DataType, Any]] = {
    # name: schema, a value that is written, the column's type, what is in it
    "boolean": ("boolean", True, pa.bool_(), True),
    "int": ("int", -7, pa.int32(), -7),
    "long": ("long", 1 << 40, pa.int64(), 1 << 40),
    "float": ("float", 0.5, pa.float32(), 0.5),
    "double": ("double", 0.1, pa.float64(), 0.1),
    "bytes": ("bytes", b"\0\xff", pa.binary(), b"\0\xff"),
    "string": ("string", "é", pa.string(), "é"),
    "fixed": ({"type": "fixed", "name": "F", "size": 2}, b"ab", pa.binary(), b"ab"),
    "enum": ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", pa.string(), "B"),
    "array": (
        {"type": "array", "items": "int"},
        [1, 2],
        pa.list_(pa.field("element", pa.int32())),
        [1, 2],
    ),
    "map": (
        {"type": "map", "values": "int"},
        {"a": 1},
        pa.map_(pa.string(), pa.int32()),
        [("a", 1)],
    ),
    "record": (POINT, {"x": 1}, pa.struct([("x", pa.int32())]), {"x": 1}),
    "union": (["null", "int"], None, pa.int32(), None),
    "uuid": (logical("string", "uuid"), ID, pa.string(), str(ID)),
    "decimal of bytes": (
        logical("bytes", "decimal", precision=9, scale=2),
        Decimal("-12345.67"),
        pa.decimal128(9, 2),
        Decimal("-12345.67"),
    ),
    "decimal of fixed": (
        logical("fixed", "decimal", name="D", size=8, precision=10, scale=3),
        Decimal("1.500"),
        pa.decimal128(10, 3),
        Decimal("1.500"),
    ),
    "date": (logical("int", "date"), date(2026, 1, 31), pa.date32(), date(2026, 1, 31)),
    "time-millis": (logical("int", "time-millis"), time(12, 0, 0, 5000), pa.int32(), 43_200_005),
    "time-micros": (logical("long", "time-micros"), time(12, 0, 0, 5), pa.int64(), 43_200_000_005),
    "timestamp-millis": (
        logical("long", "timestamp-millis"),
        NOON.replace(tzinfo=UTC),
        pa.timestamp("us", "UTC"),
        NOON.replace(tzinfo=UTC),
    ),
    "timestamp-micros": (
        logical("long", "timestamp-micros"),
        NOON.replace(tzinfo=UTC),
        pa.timestamp("us", "UTC"),
        NOON.replace(tzinfo=UTC),
    ),
    "local-timestamp-millis": (
        logical("long", "local-timestamp-millis"),
        NOON,
        pa.timestamp("us"),
        NOON,
    ),
    "local-timestamp-micros": (
        logical("long", "local-timestamp-micros"),
        NOON,
        pa.timestamp("us"),
        NOON,
    ),
    "duration": (
        logical("fixed", "duration", name="Span", size=12),
        bytes(range(12)),
        pa.binary(),
        bytes(range(12)),
    ),
    "an unknown logical type": (logical("int", "since-breakfast"), 5, pa.int32(), 5),
}


def record_of(schema: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": "field", "type": schema}]}


def framed(schema: dict[str, Any], value: Any) -> bytes:
    out = io.BytesIO()
    out.write(b"\0\0\0\0\1")
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return out.getvalue()


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("wrap", ["", "array", "map", "union"])
def test_a_value_becomes_one_of_the_column(name: str, wrap: str) -> None:
    schema, value, kind, expected = CASES[name]
    if wrap == "union" and isinstance(schema, list):
        wrap = ""  # a union stands in no other
    wrapped = {
        "": (schema, value, kind, expected),
        "array": (
            {"type": "array", "items": schema},
            [value, value],
            pa.list_(pa.field("element", kind)),
            [expected, expected],
        ),
        "map": (
            {"type": "map", "values": schema},
            {"k": value},
            pa.map_(pa.string(), kind),
            [("k", expected)],
        ),
        "union": (["null", schema], value, kind, expected),
    }[wrap]
    whole = record_of(wrapped[0])
    made = column_of(whole)
    assert made.type == pa.struct([("field", wrapped[2])])
    parsed = fastavro.parse_schema(json.loads(json.dumps(whole)))
    messages = [framed(whole, {"field": wrapped[1]})] * 3

    def slow(data: bytes | None) -> Any:
        return (
            None
            if data is None
            else made.convert(fastavro.schemaless_reader(io.BytesIO(data[5:]), parsed, parsed))
        )

    found = pa.array([slow(each) for each in messages], made.type)
    assert found.to_pylist() == [{"field": wrapped[3]}] * 3
    native = NativeReader(whole, made.type, lambda id: json.dumps(whole), slow)
    decoded = native.decode(list(messages))
    assert decoded is None or decoded.equals(found), "Polars says the same, or nothing"


@pytest.mark.parametrize(
    "first",
    [
        {"type": "array", "items": POINT},
        {"type": "map", "values": POINT},
        ["null", POINT],
        {"type": "record", "name": "Outer", "fields": [{"name": "inner", "type": POINT}]},
    ],
)
def test_a_type_that_is_declared_inside_another_can_be_used_again(first: Any) -> None:
    schema = {
        "type": "record",
        "name": "R",
        "namespace": "org.example",
        "fields": [
            {"name": "first", "type": first},
            {"name": "second", "type": "Point"},
            {"name": "third", "type": ["null", "org.example.Point"]},
        ],
    }
    point = pa.struct([("x", pa.int32())])
    made = arrow_type(schema)
    assert (made.field("second").type, made.field("third").type) == (point, point)


def test_what_cannot_be_a_column_says_why() -> None:
    tree = {
        "type": "record",
        "name": "Tree",
        "fields": [{"name": "children", "type": {"type": "array", "items": "Tree"}}],
    }
    with pytest.raises(SettingsError, match="'Tree' contains itself"):
        arrow_type(tree)
    with pytest.raises(SettingsError, match=r"precision 39 and scale 0 .* 1 to 38 digits"):
        arrow_type(logical("bytes", "decimal", precision=39))
    with pytest.raises(SettingsError, match="'Nowhere' cannot be a column"):
        arrow_type(record_of("Nowhere"))


@pytest.fixture(scope="module")
def registry(bootstrap: str) -> Iterator[str]:
    with LocalRegistry(bootstrap) as made:
        yield made.url


def test_all_of_them_through_spark_and_back(spark: SparkSession, registry: str) -> None:
    names = {name: f"f{number}" for number, name in enumerate(CASES)}
    fields = [{"name": names[name], "type": CASES[name][0]} for name in CASES]
    text = json.dumps({"type": "record", "name": "All", "fields": fields})
    value = {names[name]: CASES[name][1] for name in CASES}
    encoded = AvroSerializer(RegistryClient(registry), text, subject="all-value")(value)
    frame = spark.createDataFrame([(encoded,)], "value binary")
    decoded = from_avro(frame, registry, subject="all-value", on_bad="fail")
    row = decoded.collect()[0].decoded
    assert row[names["uuid"]] == str(ID)
    assert row[names["decimal of bytes"]] == Decimal("-12345.67")
    assert row[names["time-micros"]] == 43_200_000_005
    assert row[names["local-timestamp-micros"]] == NOON
    again = to_avro(
        decoded.select("decoded"), registry, text, subject="all-value", column="decoded"
    )
    assert bytes(again.collect()[0].decoded) == encoded
