r"""Messages as text: percent directives, JSON, and back.

    %v %s  value        %k  key          %t  topic        %T  timestamp in ms    %h  headers, a=b,c=d
    %V %S  its length   %K  its length   %p  partition    %d  the same as a date %%  a percent sign
                                         %o  offset       \n \t \r \0 \\ \x41    characters

The letters are kcat's, and `%v` and `%d` those of rpk.  A key or value that is null prints nothing and has length -1.
JSON has one object a line; bytes that are no UTF-8 are in `key_base64`, `value_base64`.
"""

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, NamedTuple

from tidelog.cli._times import show_time
from tidelog.errors import SettingsError

if TYPE_CHECKING:
    from tidelog.client.message import Message

Formatter = Callable[["Message"], bytes]

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\"}
_PARTS = re.compile(r"%(.?)|\\(x[0-9a-fA-F]{2}|.)", re.DOTALL)

_DIRECTIVES: dict[str, Formatter] = {
    "v": lambda message: message.value or b"",
    "s": lambda message: message.value or b"",
    "k": lambda message: message.key or b"",
    "V": lambda message: _length(message.value),
    "S": lambda message: _length(message.value),
    "K": lambda message: _length(message.key),
    "t": lambda message: message.topic.encode(),
    "p": lambda message: b"%d" % message.partition,
    "o": lambda message: b"%d" % message.offset,
    "T": lambda message: b"%d" % message.timestamp,
    "d": lambda message: show_time(message.timestamp).encode(),
    "h": lambda message: b",".join(
        name.encode() + b"=" + (value or b"") for name, value in message.headers
    ),
}


def formatter(text: str) -> Formatter:
    """What prints a message: `json`, or a text with percent directives."""
    if text == "json":
        return as_json
    parts = [
        each if isinstance(each, bytes) else _DIRECTIVES[each]
        for each in split_format(text, _DIRECTIVES)
    ]
    if parts == [_DIRECTIVES["v"], b"\n"]:  # the usual one, so without a loop
        return lambda message: (message.value or b"") + b"\n"

    def show(message: "Message") -> bytes:
        return b"".join(each if isinstance(each, bytes) else each(message) for each in parts)

    return show


def as_json(message: "Message") -> bytes:
    """The message as a JSON object on a line."""
    said: dict[str, Any] = {
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
        "timestamp": message.timestamp,
        **json_field("key", message.key),
        **json_field("value", message.value),
    }
    if message.headers:
        said["headers"] = [
            {"name": name, **json_field("value", value)} for name, value in message.headers
        ]
    return json.dumps(said, ensure_ascii=False).encode() + b"\n"


class Written(NamedTuple):
    """What a line of JSON asks to be written."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    partition: int | None
    timestamp: int | None


def from_json(line: bytes) -> Written:
    """A line as `as_json` prints it; topic, partition and offset are not taken over, for they are another's."""
    try:
        said = json.loads(line)
        if not isinstance(said, dict):
            raise ValueError("it is no object")
        headers = said.get("headers") or ()
        if isinstance(headers, dict):
            headers = [{"name": name, "value": value} for name, value in headers.items()]
        return Written(
            _bytes_field(said, "key"),
            _bytes_field(said, "value"),
            tuple((str(each["name"]), _bytes_field(each, "value")) for each in headers),
            None,
            said.get("timestamp"),
        )
    except (ValueError, KeyError, TypeError) as error:
        shown = line[:60].decode(errors="replace").strip()
        raise SettingsError(
            f"{shown!r} is no message as JSON ({error}); "
            'write {"key": "a", "value": "b", "headers": {"c": "d"}}'
        ) from None


def split_format(text: str, known: Collection[str]) -> list[bytes | str]:
    """The texts (as bytes) and the letters of the directives in a format."""
    parts: list[bytes | str] = []
    literal = b""
    end = 0
    for found in _PARTS.finditer(text):
        literal += text[end : found.start()].encode()
        end = found.end()
        directive, escape = found.groups()
        if escape is not None:
            byte = bytes([int(escape[1:], 16)]) if len(escape) == 3 else b""
            literal += byte or _ESCAPES.get(escape, "\\" + escape).encode()
        elif directive == "%":
            literal += b"%"
        elif directive in known:
            parts += [literal, directive] if literal else [directive]
            literal = b""
        else:
            there = " ".join("%" + each for each in known)
            raise SettingsError(f"--format {text!r}: %{directive} is not known; there are {there}")
    literal += text[end:].encode()
    return [*parts, literal] if literal else parts


def _length(data: bytes | None) -> bytes:
    return b"%d" % (-1 if data is None else len(data))


def json_field(name: str, data: bytes | None) -> dict[str, str | None]:
    """Bytes under a name that says how they are written."""
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": b64encode(data).decode()}


def _bytes_field(said: dict[str, Any], name: str) -> bytes | None:
    if (coded := said.get(f"{name}_base64")) is not None:
        return b64decode(coded, validate=True)
    value = said.get(name)
    if value is None or isinstance(value, str):
        return None if value is None else value.encode()
    return json.dumps(value, ensure_ascii=False).encode()
