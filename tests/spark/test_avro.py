"""Avro by schema id, with a real registry."""

import json
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tidelog.errors import SettingsError
from tidelog.schemas import AvroSerializer, RegistryClient
from tidelog.schemas.local_registry import LocalRegistry
from tidelog.spark import from_avro, to_avro
from tidelog.spark.avro import arrow_type

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
