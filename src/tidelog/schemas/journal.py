"""The records of the topic `_schemas`, in the format of Confluent's registry: JSON keys and values.

    key    {"keytype":"SCHEMA","subject":"orders-value","version":1,"magic":1}
    value  {"subject":"orders-value","version":1,"id":1,"schema":"…","deleted":false}

A value of null removes what the key names.  The topic is compacted, so a key is written in one way only.  A record that
cannot be read is skipped and told of, since another program may have written it.

NOOP records are ignored by Confluent's registry, whatever their value.  Ours carry the highest id that was ever given
(`maxId`): when the schema with that id is removed for good, compaction would forget it, and it would be given again.
"""

import base64
import hashlib
import json
from typing import Any

from tidelog.dataclass import dataclass
from tidelog.schemas.model import AVRO, Reference, Registered, Schema, SchemaId, Settings


@dataclass(frozen=True, slots=True)
class SchemaKey:
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class ConfigKey:
    subject: str | None
    """None is the setting for all."""


@dataclass(frozen=True, slots=True)
class ModeKey:
    subject: str | None


@dataclass(frozen=True, slots=True)
class DeleteSubjectKey:
    subject: str


@dataclass(frozen=True, slots=True)
class ClearSubjectKey:
    subject: str | None


@dataclass(frozen=True, slots=True)
class NoopKey:
    pass


Key = SchemaKey | ConfigKey | ModeKey | DeleteSubjectKey | ClearSubjectKey | NoopKey
Value = Registered | Settings | str | int | None
"""By key: a registration, settings, a mode, the last version deleted, nothing, the highest id."""
Entry = tuple[Key, Value]


class UnreadableRecord(Exception):
    """A record of `_schemas` that this registry does not understand."""


def encode(entry: Entry) -> tuple[bytes, bytes | None]:
    """The record's key and value."""
    key, value = entry
    return _dump(_key_json(key)), None if value is None else _dump(_value_json(key, value))


def decode(key: bytes | None, value: bytes | None) -> Entry | None:
    """What a record says; None for those that say nothing to us (contexts, associations)."""
    try:
        fields = json.loads(key or b"")
        kind = fields["keytype"]
        parsed = _parse_key(kind, fields)
        if parsed is None:
            return None
        return parsed, None if value is None else _parse_value(parsed, json.loads(value))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UnreadableRecord(f"key {key!r}: {error!r}") from error


def _key_json(key: Key) -> dict[str, Any]:
    match key:
        case SchemaKey(subject, version):
            return {"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1}
        case ConfigKey(subject):
            return {"keytype": "CONFIG", **_named(subject), "magic": 0}
        case ModeKey(subject):
            return {"keytype": "MODE", **_named(subject), "magic": 0}
        case DeleteSubjectKey(subject):
            return {"keytype": "DELETE_SUBJECT", "subject": subject, "magic": 0}
        case ClearSubjectKey(subject):
            return {"keytype": "CLEAR_SUBJECT", **_named(subject), "magic": 0}
        case NoopKey():
            return {"keytype": "NOOP", "magic": 0}


def _named(subject: str | None) -> dict[str, Any]:
    return {} if subject is None else {"subject": subject}


def _value_json(key: Key, value: Any) -> dict[str, Any]:
    match key:
        case SchemaKey():
            return _registered_json(value)
        case ConfigKey(subject):
            return {**_named(subject), **value}
        case ModeKey(subject):
            return {**_named(subject), "mode": value}
        case DeleteSubjectKey(subject):
            return {"subject": subject, "version": value}
        case ClearSubjectKey(subject):
            return _named(subject)
        case NoopKey():
            return {"maxId": value}


def _registered_json(each: Registered) -> dict[str, Any]:
    schema = each.schema
    told: dict[str, Any] = {
        "subject": each.subject,
        "version": each.version,
        "id": each.id,
        "md5": md5_of(schema),
    }
    if schema.type != AVRO:
        told["schemaType"] = schema.type
    if schema.references:
        told["references"] = [reference.as_json() for reference in schema.references]
    if schema.metadata is not None:
        told["metadata"] = json.loads(schema.metadata)
    if schema.rule_set is not None:
        told["ruleSet"] = json.loads(schema.rule_set)
    return {**told, "schema": schema.text, "deleted": each.deleted}


def md5_of(schema: Schema) -> str:
    """Confluent's digest of a schema, Base64; readers do not check it."""
    digest = hashlib.md5(schema.text.encode(), usedforsecurity=False)
    for each in schema.references:
        digest.update(f"{each.name}{each.subject}{each.version}".encode())
    return base64.b64encode(digest.digest()).decode()


def _parse_key(kind: str, fields: dict[str, Any]) -> Key | None:
    match kind:
        case "SCHEMA":
            return SchemaKey(str(fields["subject"]), int(fields["version"]))
        case "CONFIG":
            return ConfigKey(fields.get("subject"))
        case "MODE":
            return ModeKey(fields.get("subject"))
        case "DELETE_SUBJECT":
            return DeleteSubjectKey(str(fields["subject"]))
        case "CLEAR_SUBJECT":
            return ClearSubjectKey(fields.get("subject"))
        case "NOOP":
            return NoopKey()
    return None


def _parse_value(key: Key, fields: dict[str, Any]) -> Value:
    match key:
        case SchemaKey(subject, version):
            return Registered(
                subject,
                version,
                SchemaId(int(fields["id"])),
                Schema(
                    str(fields["schema"]),
                    str(fields.get("schemaType") or AVRO),
                    references_of(fields.get("references")),
                    _text(fields.get("metadata")),
                    _text(fields.get("ruleSet")),
                ),
                bool(fields.get("deleted", False)),
            )
        case ConfigKey():
            return {name: each for name, each in fields.items() if name != "subject"}
        case ModeKey():
            return str(fields["mode"])
        case DeleteSubjectKey():
            return int(fields["version"])
        case ClearSubjectKey():
            return ""
        case NoopKey():
            return int(fields.get("maxId", 0))


def references_of(given: Any) -> tuple[Reference, ...]:
    """References as they stand in JSON."""
    return tuple(
        Reference(str(each["name"]), str(each["subject"]), int(each["version"]))
        for each in given or ()
    )


def _text(value: Any) -> str | None:
    return None if value is None else canonical_json(value)


def canonical_json(value: Any) -> str:
    """One text for one value, for what is only kept."""
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)


def _dump(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")
