"""Avro by schema id: `from_avro` decodes framed values of any mixture of schemas into columns, `to_avro` is the way back.

    orders = ts.from_avro(frame, "http://h:8081", subject="orders-value")       # adds the column `decoded`
    orders.select("offset", "decoded.*")

Each message is read with the schema of its id and resolved to one reader's schema: `reader`, or the latest of `subject`.  Schemas are
looked up once a process.  What does not decode is null, or fails the query with `on_bad="fail"`.

Where Polars is installed it decodes whole batches (`tidelog.spark.native_avro`); else, and where it cannot, fastavro does, message by message.

Which types columns have, and which schemas cannot be one, is in `tidelog.spark.avro_types`.
"""

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidelog.errors import SettingsError
from tidelog.spark.avro_types import arrow_type, column_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidelog.spark.native_avro import NativeReader


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
    made = column_of(json.loads(text))
    kind = made.type
    schema = StructType([*frame.schema.fields, StructField(into, from_arrow_type(kind))])

    def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        read = _deserializer(registry, text)
        native = _native(registry, text)
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
            rows = batch.column(column).to_pylist(maps_as_pydicts="strict")
            values = [write(each) for each in rows]
            place = batch.schema.get_field_index(column)
            yield batch.set_column(place, column, pa.array(values, pa.binary()))

    return frame.mapInArrow(encode, StructType(fields))


def _latest(registry: str, subject: str | None) -> str:
    from tidelog.schemas.client import RegistryClient

    if subject is None:
        raise SettingsError("from_avro needs a reader's schema, or a subject whose latest it takes")
    with RegistryClient(registry) as client:
        return client.latest(subject).schema.text


_readers: dict[tuple[str, str], Callable[[bytes | None], Any]] = {}
"""By registry and reader's schema: what makes a message a value of the column."""
_writers: dict[tuple[str, str, str], Callable[[Any], bytes | None]] = {}


def _deserializer(registry: str, text: str) -> Callable[[bytes | None], Any]:
    from tidelog.schemas.avro import AvroDeserializer
    from tidelog.schemas.client import RegistryClient

    if (registry, text) not in _readers:
        read = AvroDeserializer(RegistryClient(registry), reader=text)
        convert = column_of(json.loads(text)).convert
        _readers[registry, text] = lambda value: convert(read(value))
    return _readers[registry, text]


_natives: dict[tuple[str, str], "NativeReader"] = {}


def _native(registry: str, text: str) -> "NativeReader | None":
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
        reader = json.loads(text)
        _natives[registry, text] = NativeReader(reader, arrow_type(reader), alone, slow)
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
