"""Avro messages in Confluent's wire format: plain callables, for `Producer(value_serializer=…)` and the like.

    registry = RegistryClient("http://localhost:8081")
    serialize = AvroSerializer(registry, schema, topic="orders")
    producer = Producer(bootstrap_servers="…", value_serializer=serialize)

    consumer = Consumer("orders", …, value_deserializer=AvroDeserializer(registry))

fastavro does the encoding.  The registry is asked once for a schema, and then no more.
"""

import io
import json
from collections.abc import Callable
from typing import Any

import fastavro

from tidelog.dataclass import dataclass
from tidelog.errors import SettingsError
from tidelog.schemas.avro_check import Check, checker
from tidelog.schemas.avro_limits import Limit, is_quick_to_write, limiter
from tidelog.schemas.avro_mismatch import find_mismatch
from tidelog.schemas.client import RegistryClient
from tidelog.schemas.errors import NotInWireFormat, SchemaMismatch
from tidelog.schemas.formats.avro import AvroSchema
from tidelog.schemas.formats.avro import parse as parse_avro
from tidelog.schemas.formats.avro_nodes import Named
from tidelog.schemas.formats.contract import Referenced
from tidelog.schemas.model import AVRO, Schema
from tidelog.schemas.objects import reader_of, to_plain
from tidelog.schemas.subjects import Strategy, topic_name
from tidelog.schemas.wire import HEADER_BYTES, header, schema_id


@dataclass(frozen=True, slots=True)
class _Ready:
    """A schema that can be written or read with."""

    header: bytes
    fast: Any
    """fastavro's."""
    named: dict[str, Any]
    """And the named types in it."""
    tree: AvroSchema
    check: Check | None
    """What must be looked at before fastavro gets it."""


class AvroSerializer:
    """Objects to bytes; one schema, one subject for each topic.

    `validate=False` leaves the check to fastavro's encoder, which is faster and takes 1.5 for an int as 1.
    `auto_register=False` wants the schema to be registered already; `use_latest=True` takes the subject's last version
    instead of `schema`, which may then be left out.
    """

    def __init__(
        self,
        registry: RegistryClient,
        schema: Schema | str | dict[str, Any] | None = None,
        *,
        topic: str | None = None,
        subject: str | None = None,
        is_key: bool = False,
        strategy: Strategy = topic_name,
        auto_register: bool = True,
        use_latest: bool = False,
        normalize: bool = False,
        validate: bool = True,
        to_dict: Callable[[Any], Any] = to_plain,
    ) -> None:
        if schema is None and not use_latest:
            raise SettingsError("AvroSerializer needs a schema, or use_latest=True")
        self._registry = registry
        self._schema = as_schema(schema, AVRO) if schema is not None else None
        self._topic = topic
        self._subject = subject
        self._field = "key" if is_key else "value"
        self._strategy = strategy
        self._auto_register = auto_register
        self._use_latest = use_latest
        self._normalize = normalize
        self._validate = validate
        self._to_dict = to_dict
        self._ready: dict[str | None, _Ready] = {}

    def check_quick(self, value: Any) -> None:
        """Raise unless the value is written in a moment: for values and schemas that strangers give."""
        ready = self._ready.get(None) or self._prepare(None)
        if not is_quick_to_write(ready.fast, ready.named, value):
            raise SchemaMismatch("", "it is nested too deep for the unions of its schema")

    def __call__(self, value: Any, topic: str | None = None) -> bytes | None:
        """The message; None stays None, a tombstone."""
        if value is None:
            return None
        ready = self._ready.get(topic) or self._prepare(topic)
        if type(value) is not dict:
            value = self._to_dict(value)
        if self._validate and ready.check is not None and not ready.check(value):
            mismatch = find_mismatch(ready.tree.root, value)
            if mismatch is not None:
                raise mismatch
        out = io.BytesIO()
        out.write(ready.header)
        try:
            fastavro.schemaless_writer(out, ready.fast, value)
        except (
            TypeError,
            ValueError,
            AttributeError,
            KeyError,
            IndexError,
            OverflowError,
        ) as error:
            raise _mismatch(ready, value, error) from error
        return out.getvalue()

    def _prepare(self, topic: str | None) -> _Ready:
        schema = self._schema
        if schema is not None:
            tree = parse_avro(schema.text, self._registry.referenced(schema))
            record = tree.root.full_name if isinstance(tree.root, Named) else None
        else:
            record = None
        subject = self._subject or self._strategy(topic or self._topic, self._field, record)
        if self._use_latest:
            latest = self._registry.latest(subject)
            schema, id = latest.schema, latest.id
        else:
            assert schema is not None
            ask = self._registry.register if self._auto_register else self._registry.id_of
            id = ask(subject, schema, normalize=self._normalize)
        ready = _make(id, schema, self._registry)
        self._ready[topic] = ready
        return ready


class AvroDeserializer:
    """Bytes to dicts, or to what `to` says: a dataclass, a pydantic model, any callable that takes the dict.

    With a `reader` schema what was written with another one is resolved to it, as Avro has it.
    """

    def __init__(
        self,
        registry: RegistryClient,
        *,
        reader: Schema | str | dict[str, Any] | None = None,
        to: Any = None,
    ) -> None:
        self._registry = registry
        self._reader = None
        if reader is not None:
            schema = as_schema(reader, AVRO)
            self._reader = _fast(schema, registry.referenced(schema))
        self._make = _maker(to)
        self._writers: dict[int, tuple[Any, Limit | None]] = {}

    def __call__(self, data: bytes | None, topic: str | None = None) -> Any:
        """The object; None stays None."""
        if data is None:
            return None
        id = schema_id(data)
        writer, limit = self._writers.get(id) or self._prepare(id)
        if limit is not None:
            try:
                limit(data, HEADER_BYTES)
            except SchemaMismatch as error:
                raise SchemaMismatch("", f"not data of schema {id}: {error.reason}") from None
        stream = io.BytesIO(data)
        stream.seek(HEADER_BYTES)
        try:
            value = fastavro.schemaless_reader(stream, writer, self._reader)
        except (fastavro.read.SchemaResolutionError, EOFError, ValueError, TypeError) as error:
            raise SchemaMismatch("", f"not readable with schema {id}: {error!r}") from error
        except (IndexError, KeyError, UnicodeDecodeError, OverflowError, MemoryError) as error:
            raise SchemaMismatch("", f"not data of schema {id}: {error!r}") from error
        return value if self._make is None else self._make(value)

    def _prepare(self, id: int) -> tuple[Any, Limit | None]:
        schema = self._registry.schema(id)
        if schema.type != AVRO:
            raise NotInWireFormat(f"schema {id} is {schema.type}, not AVRO")
        named: dict[str, Any] = {}
        fast = _fast(schema, self._registry.referenced(schema), named)
        ready = self._writers[id] = (fast, limiter(fast, named))
        return ready


def as_schema(given: Schema | str | dict[str, Any], type: str) -> Schema:
    """A schema however it was given."""
    if isinstance(given, Schema):
        return given
    return Schema(given if isinstance(given, str) else json.dumps(given), type)


def _maker(to: Any) -> Callable[[Any], Any] | None:
    if to is None or to is dict:
        return None
    return reader_of(to) if isinstance(to, type) else to


def _make(id: int, schema: Schema, registry: RegistryClient) -> _Ready:
    references = registry.referenced(schema)
    tree = parse_avro(schema.text, references)
    named: dict[str, Any] = {}
    fast = _fast(schema, references, named)
    return _Ready(header(id), fast, named, tree, checker(tree.root))


def _fast(schema: Schema, references: list[Referenced], named: dict[str, Any] | None = None) -> Any:
    """fastavro's own form of it; `named` gets every named type."""
    named = {} if named is None else named
    for _, text in references:
        fastavro.parse_schema(_json(text), named_schemas=named)
    return fastavro.parse_schema(_json(schema.text), named_schemas=named)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text.strip()  # a primitive without quotation marks


def _mismatch(ready: _Ready, value: Any, error: Exception) -> SchemaMismatch:
    found = find_mismatch(ready.tree.root, value)
    return found or SchemaMismatch("", f"does not fit its schema: {error}")
