"""Many Avro messages at once: a batch becomes one Avro container, and Polars' native reader makes columns of it.

    "Obj" 1 | writer's schema | sync    a container's head
    count | size                        one block
    body of message 0 | mark
    body of message 1 | mark            …
    sync

Bodies have no frame of their own, so a single one that is too short or too long would shift all behind it.  Therefore a field is added to the
writer's schema, and eight bytes that it reads to each body: if a mark is not where it belongs, the whole batch is left to fastavro, which knows each
message by itself.

A pair of schemas is taken only if it can be resolved column by column (the same types, a wider number, a field that is new with a default),
and if the first messages come out as fastavro has them.  Everything else is fastavro's, ten times slower.  Needs `pip install polars`.
"""

import io
import json
import struct
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidelog.errors import TidelogError

_MARK_FIELD = "tidelog_mark"
_MARK_VALUE = 1.7976931348623157e308
_MARK = struct.pack("<d", _MARK_VALUE)
_SYNC = b"tidelog, in sync"
_FRAME = 5
_TRIED = 50
"""Messages that are decoded both ways before a pair of schemas is trusted."""
_WIDER = {("int", "long"), ("float", "double"), ("int", "double"), ("string", "bytes")}
_PLAIN = str | int | float | bool | None

Slow = Callable[[bytes | None], Any]
SchemaOf = Callable[[int], str | None]
"""The text of a writer's schema that stands alone, by its id."""


def is_there() -> bool:
    """Whether the native reader is installed."""
    try:
        import polars  # noqa: F401
    except ImportError:
        return False
    return True


class NativeReader:
    """Decodes batches to one reader's schema; what it does not dare it leaves to others."""

    def __init__(self, reader: Any, kind: pa.DataType, schema_of: SchemaOf, slow: Slow) -> None:
        self._reader = reader
        self._kind = kind
        self._schema_of = schema_of
        self._slow = slow
        self._plans: dict[bytes, _Plan | None] = {}

    def decode(self, values: list[bytes | None]) -> pa.Array | None:
        """The values as an array of structs; None if they must be decoded one by one."""
        groups: dict[bytes, list[int]] = {}
        for place, value in enumerate(values):
            if value is not None:
                groups.setdefault(value[:_FRAME], []).append(place)
        parts: list[pa.Array] = []
        order: list[int | None] = [None] * len(values)
        done = 0
        for head, places in groups.items():
            bodies = [values[place] for place in places]
            part = self._group(head, bodies)  # type: ignore[arg-type]  # None was left out
            if part is None:
                return None
            parts.append(part)
            for number, place in enumerate(places, done):
                order[place] = number
            done += len(places)
        if not parts:
            return pa.nulls(len(values), self._kind)
        if len(parts) == 1 and done == len(values):
            return parts[0]
        return pa.concat_arrays(parts).take(pa.array(order, pa.int64()))

    def _group(self, head: bytes, messages: list[bytes]) -> pa.Array | None:
        if head not in self._plans:
            self._plans[head] = self._try(head, messages)
        plan = self._plans[head]
        return None if plan is None else plan.columns(messages)

    def _try(self, head: bytes, messages: list[bytes]) -> "_Plan | None":
        """How to decode what begins like this, if it can be done and comes out right."""
        if len(head) < _FRAME or head[0] != 0:
            return None
        text = self._schema_of(int.from_bytes(head[1:], "big"))
        plan = _plan(text, self._reader, self._kind) if text else None
        if plan is None:
            return None
        some = messages[:_TRIED]
        found = plan.columns(some)
        if found is None:
            return None
        try:
            expected = pa.array([self._slow(each) for each in some], self._kind)
        except (TidelogError, ValueError, TypeError):
            return None
        return plan if found.equals(expected) else None


class _Plan:
    """A writer's schema, and how its columns become the reader's."""

    def __init__(self, writer: Any, kind: pa.DataType, defaults: dict[str, Any]) -> None:
        marked = {**writer, "fields": [*writer["fields"], {"name": _MARK_FIELD, "type": "double"}]}
        self._head = b"Obj\x01" + _metadata(json.dumps(marked).encode()) + _SYNC
        self._kind = kind
        self._defaults = defaults

    def columns(self, messages: list[bytes]) -> pa.Array | None:
        import polars

        body = _MARK.join([each[_FRAME:] for each in messages]) + _MARK
        block = _long(len(messages)) + _long(len(body)) + body + _SYNC
        try:
            table = polars.read_avro(io.BytesIO(self._head + block)).to_arrow()
        except (polars.exceptions.PolarsError, pa.ArrowException, ValueError, OSError):
            return None
        except polars.exceptions.PanicException:  # not an Exception: it would end the task
            return None  # a length that is longer than the bytes, a type it has not learnt yet
        if table.num_rows != len(messages) or not _all_marks(table.column(_MARK_FIELD)):
            return None
        arrays = []
        for each in self._kind:
            try:
                arrays.append(self._column(table, each))
            except pa.ArrowException:
                return None
        return pa.StructArray.from_arrays(arrays, fields=list(self._kind))

    def _column(self, table: pa.Table, field: pa.Field) -> pa.Array:
        if field.name not in table.column_names:
            return pa.repeat(pa.scalar(self._defaults[field.name], field.type), table.num_rows)
        found = table.column(field.name).combine_chunks()
        if isinstance(found, pa.ChunkedArray):
            found = found.chunk(0) if found.num_chunks else pa.array([], found.type)
        if pa.types.is_dictionary(found.type):
            found = found.dictionary_decode()
        return found.cast(field.type)


def _plan(text: str, reader: Any, kind: pa.DataType) -> _Plan | None:
    """How what was written with one schema can be read with another; None if it takes more than columns."""
    try:
        writer = json.loads(text)
    except ValueError:
        return None
    if not _is_record(writer) or not _is_record(reader) or not _is_for_polars(writer):
        return None
    if _can_do_harm(writer):
        return None
    written = {each["name"]: each["type"] for each in writer["fields"]}
    defaults: dict[str, Any] = {}
    for each in reader["fields"]:
        name = each["name"]
        if name in written:
            if not _same(written[name], each["type"]):
                return None
        elif each.get("aliases") or not isinstance(each.get("default", ()), _PLAIN):
            return None
        else:
            defaults[name] = each["default"]
    return _Plan(writer, kind, defaults)


def _can_do_harm(writer: Any) -> bool:
    """Whether a few bytes may become very much: then fastavro gets them, after a look at each."""
    import fastavro

    from tidelog.schemas.avro_limits import limiter

    named: dict[str, Any] = {}
    try:
        return limiter(fastavro.parse_schema(writer, named_schemas=named), named) is not None
    except (fastavro.schema.SchemaParseException, fastavro.schema.UnknownType):
        return True


def _is_for_polars(schema: Any, *, inside: bool = False) -> bool:
    """Whether its reader was made for the schema; it panics at maps, durations, and enums that are no field of a record."""
    if isinstance(schema, list):
        return all(_is_for_polars(each, inside=True) for each in schema)
    if not isinstance(schema, dict):
        return True
    kind = schema["type"]
    if kind == "record":
        return all(_is_for_polars(each["type"]) for each in schema["fields"])
    if isinstance(kind, dict | list):
        return _is_for_polars(kind, inside=inside)
    if kind == "array":
        return _is_for_polars(schema["items"], inside=True)
    foreign = kind == "map" or schema.get("logicalType") == "duration"
    return not foreign and not (kind == "enum" and inside)


def _is_record(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "record" and "fields" in schema


def _same(written: Any, read: Any) -> bool:
    """Whether values of the one type are values of the other; by their looks, which is enough to say yes."""
    if written == read or (isinstance(written, str) and (written, read) in _WIDER):
        return True
    if isinstance(read, list) and isinstance(written, list):
        return [each for each in written if each != "null"] == [
            each for each in read if each != "null"
        ] and ("null" in read or "null" not in written)
    return isinstance(read, list) and "null" in read and _same([written], read)


def _all_marks(column: pa.ChunkedArray) -> bool:
    return column.null_count == 0 and bool(pc.all(pc.equal(column, _MARK_VALUE)).as_py())


def _metadata(schema: bytes) -> bytes:
    pairs = ((b"avro.schema", schema), (b"avro.codec", b"null"))
    words = b"".join(_long(len(word)) + word for pair in pairs for word in pair)
    return _long(len(pairs)) + words + _long(0)


def _long(number: int) -> bytes:
    """Avro's: zig-zag, seven bits a byte."""
    rest, out = number << 1, bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)
