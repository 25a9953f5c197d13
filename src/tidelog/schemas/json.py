"""JSON messages with a JSON Schema, in Confluent's wire format: the counterparts of `AvroSerializer` and its reader."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from jsonschema import exceptions, validators
from referencing import Registry
from referencing.jsonschema import DRAFT202012, specification_with

from tidelog.schemas.avro import as_schema
from tidelog.schemas.client import RegistryClient
from tidelog.schemas.errors import NotInWireFormat, SchemaMismatch
from tidelog.schemas.model import JSON, Schema
from tidelog.schemas.objects import reader_of, to_plain
from tidelog.schemas.subjects import Strategy, topic_name
from tidelog.schemas.wire import HEADER_BYTES, header, schema_id


class JsonSerializer:
    """Objects to bytes; what does not fit the schema is refused unless `validate` is False."""

    def __init__(
        self,
        registry: RegistryClient,
        schema: Schema | str | dict[str, Any],
        *,
        topic: str | None = None,
        subject: str | None = None,
        is_key: bool = False,
        strategy: Strategy = topic_name,
        auto_register: bool = True,
        normalize: bool = False,
        validate: bool = True,
        to_dict: Callable[[Any], Any] = to_plain,
    ) -> None:
        self._registry = registry
        self._schema = as_schema(schema, JSON)
        self._topic = topic
        self._subject = subject
        self._field = "key" if is_key else "value"
        self._strategy = strategy
        self._auto_register = auto_register
        self._normalize = normalize
        self._validator = _validator(self._schema, registry) if validate else None
        self._to_dict = to_dict
        self._headers: dict[str | None, bytes] = {}

    def __call__(self, value: Any, topic: str | None = None) -> bytes | None:
        """The message; None stays None."""
        if value is None:
            return None
        start = self._headers.get(topic) or self._prepare(topic)
        if type(value) is not dict:
            value = self._to_dict(value)
        if self._validator is not None:
            _check(self._validator, value)
        try:
            return start + json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
        except (TypeError, ValueError) as error:
            raise SchemaMismatch("", f"cannot be written as JSON: {error}") from error

    def _prepare(self, topic: str | None) -> bytes:
        title = json.loads(self._schema.text).get("title")
        subject = self._subject or self._strategy(topic or self._topic, self._field, title)
        ask = self._registry.register if self._auto_register else self._registry.id_of
        start = header(ask(subject, self._schema, normalize=self._normalize))
        self._headers[topic] = start
        return start


class JsonDeserializer:
    """Bytes to what the JSON says, or to what `to` says; checked against the writer's schema unless told not to."""

    def __init__(self, registry: RegistryClient, *, to: Any = None, validate: bool = True) -> None:
        self._registry = registry
        self._make = reader_of(to) if to is not None else None
        self._validate = validate
        self._validators: dict[int, Any] = {}

    def __call__(self, data: bytes | None, topic: str | None = None) -> Any:
        """The object; None stays None."""
        if data is None:
            return None
        id = schema_id(data)
        try:
            value = json.loads(data[HEADER_BYTES:])
        except (ValueError, RecursionError) as error:
            raise SchemaMismatch("", f"the message is not JSON: {error}") from error
        if self._validate:
            _check(self._validators.get(id) or self._prepare(id), value)
        return value if self._make is None else self._make(value)

    def _prepare(self, id: int) -> Any:
        schema = self._registry.schema(id)
        if schema.type != JSON:
            raise NotInWireFormat(f"schema {id} is {schema.type}, not JSON")
        found = self._validators[id] = _validator(schema, self._registry)
        return found


def _validator(schema: Schema, registry: RegistryClient) -> Any:
    root = json.loads(schema.text)
    resources = []
    for name, text in registry.referenced(schema):
        document = json.loads(text)
        draft = document.get("$schema") if isinstance(document, Mapping) else None
        specification = specification_with(draft) if draft else DRAFT202012
        resources.append((name, specification.create_resource(document)))
    known: Any = Registry().with_resources(resources)
    return validators.validator_for(root, default=validators.Draft202012Validator)(
        root, registry=known
    )


def _check(validator: Any, value: Any) -> None:
    # The first one is enough, and the deepest of a choice says most.
    error = exceptions.best_match(validator.iter_errors(value))
    if error is not None:
        path = error.json_path.removeprefix("$").removeprefix(".")
        raise SchemaMismatch(path, error.message)
