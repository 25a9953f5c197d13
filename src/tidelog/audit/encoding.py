"""Monitoring events as Avro: in Confluent's wire format where a registry is given, else with Avro's own single-object header."""

import io
import json
import struct
from dataclasses import asdict

import fastavro
from fastavro.schema import fingerprint, parse_schema, to_parsing_canonical_form

from tidelog.audit.events import TOPIC, AuditEvent
from tidelog.errors import TidelogError
from tidelog.schemas.client import RegistryClient

SCHEMA = {
    "type": "record",
    "name": "MonitoringEvent",
    "namespace": "tidelog.audit",
    "fields": [
        {"name": "tier", "type": "string"},
        {"name": "server", "type": "string"},
        {"name": "counter", "type": "string"},
        {"name": "topic", "type": "string"},
        {"name": "window_start_ms", "type": "long"},
        {"name": "window_ms", "type": "long"},
        {"name": "count", "type": "long"},
        {"name": "published_ms", "type": "long"},
    ],
}

_PARSED = parse_schema(SCHEMA)
_FINGERPRINT = bytes.fromhex(fingerprint(to_parsing_canonical_form(SCHEMA), "CRC-64-AVRO"))
_SINGLE_OBJECT = b"\xc3\x01" + _FINGERPRINT
_CONFLUENT = struct.Struct(">bi")


class NoAuditEvent(TidelogError):
    """A message of the audit topic is none of ours."""


class EventWriter:
    """Events to bytes; with a registry the schema is registered on first use."""

    def __init__(self, registry: str | None = None) -> None:
        self._registry = registry
        self._header = b"" if registry else _SINGLE_OBJECT

    def prepare(self) -> None:
        """Register the schema, if there is a registry and it was not done yet; waits for the registry."""
        if not self._header and self._registry:
            with RegistryClient(self._registry) as client:
                id = client.register(f"{TOPIC}-value", json.dumps(SCHEMA))
            self._header = _CONFLUENT.pack(0, id)

    def write(self, event: AuditEvent) -> bytes:
        self.prepare()
        out = io.BytesIO()
        out.write(self._header)
        fastavro.schemaless_writer(out, _PARSED, asdict(event))
        return out.getvalue()


def read_event(data: bytes | None) -> AuditEvent:
    """The event in a message; fields are read with the schema of this version."""
    if data and data.startswith(_SINGLE_OBJECT):
        body = data[len(_SINGLE_OBJECT) :]
    elif data and data[0] == 0 and len(data) > _CONFLUENT.size:
        body = data[_CONFLUENT.size :]
    else:
        raise NoAuditEvent(f"a message of {len(data or b'')} bytes in {TOPIC} is no audit event")
    try:
        found = fastavro.schemaless_reader(io.BytesIO(body), _PARSED, None)
        return AuditEvent(**found)  # type: ignore[arg-type]
    except (EOFError, ValueError, IndexError, TypeError, OverflowError) as error:
        raise NoAuditEvent(f"an audit event cannot be read: {error!r}") from error
