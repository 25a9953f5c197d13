"""Bytes as people read them, and back: JSON, Avro by the registry's schema, text, or hex where nothing else fits.

What is shown is bounded; `size` is what there is.  A message in Confluent's wire format whose schema the registry does not know, or
cannot give, is shown as what it is without.
"""

import base64
import binascii
import json
from collections.abc import Callable
from typing import Any

from tidelog.console.errors import bad_request
from tidelog.dataclass import dataclass
from tidelog.errors import TidelogError
from tidelog.schemas.avro import AvroDeserializer, AvroSerializer
from tidelog.schemas.client import RegistryClient
from tidelog.schemas.errors import RegistryUnreachable
from tidelog.schemas.wire import HEADER_BYTES, MAGIC, schema_id

SHOWN_BYTES = 64 * 1024
_UNPRINTABLE = frozenset(map(chr, {*range(32), 127} - {9, 10, 13}))


@dataclass(frozen=True, slots=True)
class Shown:
    """A key, a value or a header's value."""

    format: str
    """`null`, `json`, `avro`, `text` or `hex`."""
    text: str
    size: int
    truncated: bool
    schema_id: int | None = None


class Payloads:
    """Shows bytes; remembers what the registry does not know.  Blocking where a schema has to be asked for."""

    def __init__(self, registry: RegistryClient | None) -> None:
        self._registry = registry
        self._avro = None if registry is None else AvroDeserializer(registry)
        self._unknown: set[int] = set()

    def forget(self) -> None:
        """What was unknown may have been registered meanwhile."""
        self._unknown.clear()

    def show(self, data: bytes | None, limit: int = SHOWN_BYTES) -> Shown:
        if data is None:
            return Shown("null", "", 0, False)
        if (decoded := self._by_schema(data)) is not None:
            kind, text, id = decoded
            return Shown(kind, text[:limit], len(data), len(text) > limit, id)
        kind, text = _guess(data, limit)
        return Shown(kind, text, len(data), len(data) > limit)

    def text_of(self, data: bytes | None) -> str:
        """Everything there is to search in."""
        if data is None:
            return ""
        decoded = self._by_schema(data)
        return decoded[1] if decoded is not None else data.decode("utf-8", "replace")

    def _by_schema(self, data: bytes) -> tuple[str, str, int] | None:
        if self._avro is None or self._registry is None:
            return None
        if len(data) < HEADER_BYTES or data[0] != MAGIC:
            return None
        id = schema_id(data)
        if id in self._unknown:
            return None
        try:
            schema = self._registry.schema(id)
            if schema.type == "AVRO":
                return "avro", _dump(self._avro(data)), id
            if schema.type == "JSON":
                return "json", data[HEADER_BYTES:].decode("utf-8", "replace"), id
        except RegistryUnreachable:
            self._unknown.add(id)  # until the next request; every message would wait for it
        except (TidelogError, RecursionError):
            if id not in getattr(self._registry, "_schemas", {}):
                self._unknown.add(id)
        return None


def _guess(data: bytes, limit: int) -> tuple[str, str]:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return "hex", data[: limit // 2].hex(" ")
    if any(each in _UNPRINTABLE for each in text[:limit]):
        return "hex", data[: limit // 2].hex(" ")
    if text[:1] in ("{", "[") or text.strip()[:1] in ("{", "["):
        try:
            json.loads(text)
        except (ValueError, RecursionError):
            pass
        else:
            return "json", text[:limit]
    return "text", text[:limit]


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=_plain)


def _plain(value: Any) -> Any:
    return value.hex() if isinstance(value, bytes) else str(value)


# ---------------------------------------------------------------------- and back


def bytes_of(
    what: str,
    format: str,
    text: str,
    topic: str,
    registry: RegistryClient | None,
) -> bytes | None:
    """The bytes to be written; what cannot be is told with the field's name.  Blocking for Avro."""
    if format == "avro":
        return _avro_of(what, text, topic, registry)
    return _FORMATS[format](what, text)


def _json_of(what: str, text: str) -> bytes:
    try:
        json.loads(text)
    except (ValueError, RecursionError) as error:
        raise bad_request(f"{what} is not JSON: {error}") from None
    return text.encode("utf-8", "surrogatepass")


def _base64_of(what: str, text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise bad_request(f"{what} is not base64: {error}") from None


def _hex_of(what: str, text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError as error:
        raise bad_request(f"{what} is not hex: {error}") from None


def _text_of(what: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise bad_request(f"{what} has half a character in it (a lone surrogate)") from None


_FORMATS: dict[str, Callable[[str, str], bytes | None]] = {
    "null": lambda what, text: None,
    "text": _text_of,
    "json": _json_of,
    "base64": _base64_of,
    "hex": _hex_of,
}


def _avro_of(what: str, text: str, topic: str, registry: RegistryClient | None) -> bytes | None:
    if registry is None:
        raise bad_request(
            f"{what}: Avro needs a schema registry; start the console with --registry"
        )
    subject = f"{topic}-{what}"
    serialize = AvroSerializer(registry, subject=subject, is_key=what == "key", use_latest=True)
    try:
        value = json.loads(text)
        serialize.check_quick(value)
        return serialize(value)
    except (ValueError, RecursionError) as error:
        raise bad_request(f"{what} is not JSON: {error}") from None
