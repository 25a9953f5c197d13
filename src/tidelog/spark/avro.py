"""Avro by schema id: `from_avro` decodes framed values of any mixture of schemas into columns, `to_avro` is the way back.

    orders = ts.from_avro(frame, "http://h:8081", subject="orders-value")       # adds the column `decoded`
    orders.select("offset", "decoded.*")

Each message is read with the schema of its id and resolved to one reader's schema: `reader`, or the latest of `subject`.  Schemas are
looked up once a process.  What does not decode is null, or fails the query with `on_bad="fail"`.

Where Polars is installed it decodes whole batches (`tidelog.spark.native_avro`); else, and where it cannot, fastavro does, message by message.

Absent: decimals, recursive schemas, unions of more than one type and null.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidelog.errors import SettingsError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidelog.spark.native_avro import NativeReader

_PRIMITIVES = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
    "fixed": pa.binary(),
}
_LOGICAL = {
    "timestamp-millis": pa.timestamp("us", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "date": pa.date32(),
    "uuid": pa.string(),
}


def from_avro(
    frame: "DataFrame",
    registry: str,
    *,
    subject: str | None = None,
    reader: str | None = None,
    column: str = "value",
    into: str = "decoded",
    on_bad: str = "null",
) -> "DataFrame":
    """The frame with one column more, the decoded values as a struct."""
    from pyspark.sql.pandas.types import from_arrow_type
    from pyspark.sql.types import StructField, StructType

    if on_bad not in ("null", "fail"):
        raise SettingsError(f"on_bad={on_bad!r} must be null or fail")
    text = reader or _latest(registry, subject)
    kind = arrow_type(json.loads(text))
    schema = StructType([*frame.schema.fields, StructField(into, from_arrow_type(kind))])

    def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        read = _deserializer(registry, text)
        native = _native(registry, text, kind)
        for batch in batches:
            values = batch.column(column).to_pylist()
            decoded = native.decode(values) if native is not None else None
            if decoded is None:
                decoded = pa.array([_read(read, each, on_bad) for each in values], kind)
            yield batch.append_column(into, decoded)

    return frame.mapInArrow(decode, schema)


def to_avro(
    frame: "DataFrame", registry: str, schema: str, *, subject: str, column: str
) -> "DataFrame":
    """The frame with a struct column made into framed Avro under the same name; the schema is registered if it is new."""
    from pyspark.sql.types import BinaryType, StructField, StructType

    fields = [
        StructField(each.name, BinaryType()) if each.name == column else each
        for each in frame.schema.fields
    ]

    def encode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        write = _serializer(registry, schema, subject)
        for batch in batches:
            values = [write(each) for each in batch.column(column).to_pylist()]
            place = batch.schema.get_field_index(column)
            yield batch.set_column(place, column, pa.array(values, pa.binary()))

    return frame.mapInArrow(encode, StructType(fields))


def arrow_type(schema: Any, named: Mapping[str, Any] | None = None) -> pa.DataType:
    """The Arrow type of an Avro schema; SettingsError where there is none."""
    known: dict[str, Any] = dict(named or {})
    if isinstance(schema, list):
        some = [each for each in schema if each != "null"]
        if len(some) != 1:
            raise SettingsError(f"a union of {len(some)} types cannot be a column: {schema}")
        return arrow_type(some[0], known)
    if isinstance(schema, str):
        found = known.get(schema) or known.get(schema.rpartition(".")[2])
        return found if found is not None else _primitive(schema)
    kind = schema["type"]
    if isinstance(kind, dict | list):
        return arrow_type(kind, known)
    if schema.get("logicalType") in _LOGICAL:
        return _LOGICAL[schema["logicalType"]]
    if kind == "array":
        return pa.list_(pa.field("element", arrow_type(schema["items"], known)))
    if kind == "map":
        return pa.map_(pa.string(), arrow_type(schema["values"], known))
    if kind in ("record", "error"):
        fields = []
        for each in schema["fields"]:
            made = arrow_type(each["type"], known)
            known |= {_name(each["type"]): made} if _name(each["type"]) else {}
            fields.append(pa.field(each["name"], made))
        return pa.struct(fields)
    return _primitive(kind)


def _primitive(name: str) -> pa.DataType:
    if name not in _PRIMITIVES:
        raise SettingsError(f"the Avro type {name!r} cannot be a column")
    return _PRIMITIVES[name]


def _name(schema: Any) -> str:
    """The name of a type that is declared here, which later fields may use."""
    if isinstance(schema, list):
        return next((name for each in schema if (name := _name(each))), "")
    return str(schema.get("name", "")) if isinstance(schema, dict) else ""


def _latest(registry: str, subject: str | None) -> str:
    from tidelog.schemas.client import RegistryClient

    if subject is None:
        raise SettingsError("from_avro needs a reader's schema, or a subject whose latest it takes")
    with RegistryClient(registry) as client:
        return client.latest(subject).schema.text


_readers: dict[tuple[str, str], Callable[[bytes | None], Any]] = {}
_writers: dict[tuple[str, str, str], Callable[[Any], bytes | None]] = {}


def _deserializer(registry: str, text: str) -> Callable[[bytes | None], Any]:
    from tidelog.schemas.avro import AvroDeserializer
    from tidelog.schemas.client import RegistryClient

    if (registry, text) not in _readers:
        _readers[registry, text] = AvroDeserializer(RegistryClient(registry), reader=text)
    return _readers[registry, text]


_natives: dict[tuple[str, str], "NativeReader"] = {}


def _native(registry: str, text: str, kind: pa.DataType) -> "NativeReader | None":
    """The fast way, where it is installed."""
    from tidelog.schemas.client import RegistryClient
    from tidelog.schemas.errors import RegistryError
    from tidelog.spark.native_avro import NativeReader, is_there

    if not is_there():
        return None
    if (registry, text) not in _natives:
        client = RegistryClient(registry)

        def alone(id: int) -> str | None:
            try:
                schema = client.schema(id)
            except RegistryError:
                return None  # the slow way says what is wrong
            return None if schema.references or schema.type != "AVRO" else schema.text

        slow = _deserializer(registry, text)
        _natives[registry, text] = NativeReader(json.loads(text), kind, alone, slow)
    return _natives[registry, text]


def _serializer(registry: str, text: str, subject: str) -> Callable[[Any], bytes | None]:
    from tidelog.schemas.avro import AvroSerializer
    from tidelog.schemas.client import RegistryClient

    key = (registry, text, subject)
    if key not in _writers:
        _writers[key] = AvroSerializer(RegistryClient(registry), text, subject=subject)
    return _writers[key]


def _read(read: Callable[[bytes | None], Any], value: bytes | None, on_bad: str) -> Any:
    from tidelog.spark.writing import is_elsewhere

    try:
        return read(value)
    except Exception as error:
        if on_bad == "fail" or is_elsewhere(error):
            raise
        return None
