"""A message for eyes: a line about it, then its value."""

import json
from typing import TYPE_CHECKING

from tidelog.cli._times import show_time

if TYPE_CHECKING:
    from tidelog.client.message import Message

_SHOWN_BYTES = 2_000


def readable(message: "Message") -> bytes:
    """Where it is, when, key and headers; then the value: JSON with its structure, text as it is, other bytes in hex."""
    head = f"{message.topic}-{message.partition} @{message.offset}  {show_time(message.timestamp)}"
    if message.key is not None:
        head += f"  key {_text(message.key)}"
    for name, value in message.headers:
        head += f"  {name}={_text(value or b'')}"
    if message.value is None:
        body = "(null)"
    else:
        body = _pretty(message.value)
    return (head + "\n    " + body.replace("\n", "\n    ") + "\n").encode()


def _pretty(value: bytes) -> str:
    if value[:1] in (b"{", b"["):
        try:
            return json.dumps(json.loads(value), indent=2, ensure_ascii=False)
        except ValueError:
            pass
    return _text(value)


def _text(data: bytes) -> str:
    more = f" … {len(data)} bytes" if len(data) > _SHOWN_BYTES else ""
    try:
        text = data[:_SHOWN_BYTES].decode(errors="ignore" if more else "strict")
    except UnicodeDecodeError:
        return "0x" + data[:_SHOWN_BYTES].hex() + more
    # Control characters could do anything to a terminal.
    shown = "".join(
        each if each.isprintable() or each in "\n\t" else repr(each)[1:-1] for each in text
    )
    return shown + more
