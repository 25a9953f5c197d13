"""Schemas: a registry with Confluent's REST API, and serialisers for Avro and JSON that use one.

`tidelog registry` runs the registry (`server`, `api`, `registry`; its state is `state`, replayed from the topic
`_schemas`).  `RegistryClient` asks it, or Confluent's.  `AvroSerializer`, `JsonSerializer` and their readers are plain
callables for the producer and the consumer.  Names are imported when first used.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.schemas.avro import AvroDeserializer, AvroSerializer
    from tidelog.schemas.client import RegistryClient
    from tidelog.schemas.errors import (
        InvalidSchema,
        NotInWireFormat,
        RegistryError,
        RegistryUnreachable,
        SchemaMismatch,
    )
    from tidelog.schemas.json import JsonDeserializer, JsonSerializer
    from tidelog.schemas.model import Reference, Registered, Schema
    from tidelog.schemas.subjects import record_name, topic_name, topic_record_name

__all__ = [
    "AvroDeserializer",
    "AvroSerializer",
    "InvalidSchema",
    "JsonDeserializer",
    "JsonSerializer",
    "NotInWireFormat",
    "Reference",
    "Registered",
    "RegistryClient",
    "RegistryError",
    "RegistryUnreachable",
    "Schema",
    "SchemaMismatch",
    "record_name",
    "topic_name",
    "topic_record_name",
]

_HOMES = {
    "avro": ("AvroDeserializer", "AvroSerializer"),
    "client": ("RegistryClient",),
    "errors": (
        "InvalidSchema",
        "NotInWireFormat",
        "RegistryError",
        "RegistryUnreachable",
        "SchemaMismatch",
    ),
    "json": ("JsonDeserializer", "JsonSerializer"),
    "model": ("Reference", "Registered", "Schema"),
    "subjects": ("record_name", "topic_name", "topic_record_name"),
}


def __getattr__(name: str) -> object:
    from importlib import import_module

    for module, names in _HOMES.items():
        if name in names:
            try:
                return getattr(import_module(f"{__name__}.{module}"), name)
            except ModuleNotFoundError as error:
                raise ImportError(
                    f"{name} needs {error.name}: pip install 'tidelog[schemas]'"
                ) from error
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
