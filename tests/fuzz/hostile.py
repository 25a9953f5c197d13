"""Hostile requests made from the declaration of any API: sound bytes that ask for as much as a few megabytes can.

    for title, make in hostile_bodies(MetadataRequest, 12, limit_bytes=10 << 20): ...

The bytes are laid out here and not by the codec: a request of millions of elements is one element's bytes, repeated.
"""

import struct
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from tidelog.protocol.schema import Field, Request, Struct, element_of, struct_of, wire_of
from tidelog.records.builder import build_batch

Value = Callable[[str, str], bytes | int | None]
"""(name of the field, kind) -> what it holds."""

LONGEST_NAMES, AS_MANY_AS_FIT = "longest names", "as many as fit"
EMPTY, KNOWN, DIFFERENT = "empty", "known", "all different"
"""Kinds of requests."""

LONGEST = 32_767
_MARK = 0x5A5A5A5A
_TEXT = b"n%08d" % 0
PATTERN = "(.?){400}x"
"""As costly as a short pattern can be."""

# What would rightly take long, or end the broker's part in its cluster.
FIXED = {"max_wait_ms": 0, "timeout_ms": 1, "num_partitions": 1, "count": 1, "min_bytes": 0, "acks": -1,
         "resource_type": 2}  # fmt: skip


def hostile_bodies(
    request: type[Request], version: int, limit_bytes: int
) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """(what it is, what makes its body) of the requests that an API has to bear."""
    flexible = version in request.flexible

    def body(value: Value, wide: dict[tuple[str, ...], int | None], room: int) -> bytes:
        return _struct(request, version, flexible, value, wide, room)

    yield LONGEST_NAMES, partial(body, _longest, {}, limit_bytes // 4)
    for path in _arrays(request, version):
        title = ".".join(path)
        yield f"{title}: {AS_MANY_AS_FIT}", partial(body, _empty, {path: None}, limit_bytes)
        wide: dict[tuple[str, ...], int | None] = {path: request.most - len(path) + 1}
        for kind, value in ((EMPTY, _empty), (KNOWN, _known), (DIFFERENT, _marked)):
            made = partial(body, value, wide, limit_bytes)
            yield f"{title}: as many as are taken, {kind}", made


def _arrays(cls: type[Struct], version: int, at: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, field in cls.__fields__.items():
        if version not in field.versions or field.tag is not None:
            continue
        element, inner = element_of(field.hint), struct_of(field.hint)
        if element is not None:
            yield (*at, name)
            inner = struct_of(element)
        if inner is not None:
            yield from _arrays(inner, version, (*at, name))


def _empty(name: str, kind: str) -> bytes | int | None:
    if name in FIXED:
        return FIXED[name]
    return b"" if kind in ("string", "bytes", "records") else 0


def _known(name: str, kind: str) -> bytes | int | None:
    """The name of a topic, group or transaction that is there."""
    if kind == "string":
        return PATTERN.encode() if "regex" in name or "pattern" in name else b"fuzz"
    if kind == "records":
        return bytes(build_batch([(1_700_000_000_000, b"k", b"v", [])]))
    return _empty(name, kind)


def _longest(name: str, kind: str) -> bytes | int | None:
    return b"x" * LONGEST if kind in ("string", "bytes", "records") else _empty(name, kind)


def _numbered(made: bytes, count: int) -> bytes:
    """An element as `_marked` makes it, so many times, each with a number of its own in its first text, or number."""
    for mark, number in (
        (_TEXT, lambda n: b"n%08d" % n),
        (struct.pack(">q", _MARK), lambda n: struct.pack(">q", n)),
        (struct.pack(">i", _MARK), lambda n: struct.pack(">i", n)),
    ):
        before, found, after = made.partition(mark)
        if found:
            return before + (after + before).join(number(n) for n in range(count)) + after
    return made * count


def _struct(
    cls: type[Struct],
    version: int,
    flexible: bool,
    value: Value,
    wide: dict[tuple[str, ...], int | None],
    room: int,
    at: tuple[str, ...] = (),
) -> bytes:
    out = bytearray()
    for name, field in cls.__fields__.items():
        if version in field.versions and field.tag is None:
            out += _field(name, field, version, flexible, value, wide, room, at)
    if flexible:
        out += b"\0"
    return bytes(out)


def _field(
    name: str,
    field: Field,
    version: int,
    flexible: bool,
    value: Value,
    wide: dict[tuple[str, ...], int | None],
    room: int,
    at: tuple[str, ...],
) -> bytes:
    element = element_of(field.hint)
    here = (*at, name)
    if element is None:
        inner = struct_of(field.hint)
        if inner is not None:
            present = b"\1" if version in field.nullable else b""
            return present + _struct(inner, version, flexible, value, wide, room, here)
        return _plain(name, field.hint, flexible, value)
    on_the_way = any(path[: len(here)] == here for path in wide)
    made = _element(name, element, version, flexible, value, wide, room, here)
    if value is _longest:
        count = max(1, min(100, room // max(len(made), 1) // 4))
        return _length(count, flexible, 4) + made * count
    if not on_the_way:
        return _length(0, flexible, 4)
    if here not in wide:
        return _length(1, flexible, 4) + made
    most = wide[here]
    count = room // max(len(made), 1)
    if most is not None:
        count = min(count, most)
    if value is _marked:
        return _length(count, flexible, 4) + _numbered(made, count)
    return _length(count, flexible, 4) + made * count


def _marked(name: str, kind: str) -> bytes | int | None:
    """Where a number of its own goes."""
    if kind == "string":
        return _TEXT
    if kind in ("int32", "int64") and name not in FIXED:
        return _MARK
    return _empty(name, kind)


def _element(
    name: str,
    hint: Any,
    version: int,
    flexible: bool,
    value: Value,
    wide: dict[tuple[str, ...], int | None],
    room: int,
    at: tuple[str, ...],
) -> bytes:
    inner = struct_of(hint)
    if inner is not None:
        return _struct(inner, version, flexible, value, wide, room, at)
    return _plain(name, hint, flexible, value)


def _plain(name: str, hint: Any, flexible: bool, value: Value) -> bytes:
    wire = wire_of(hint)
    assert wire is not None
    held = value(name, wire.name)
    if wire.code:
        if wire.name == "uuid":
            return held.to_bytes(16, "big") if isinstance(held, int) else bytes(16)
        return struct.pack(">" + wire.code, held if isinstance(held, int) else 0)
    raw = held if isinstance(held, bytes) else b""
    return _length(len(raw), flexible, 2 if wire.name == "string" else 4) + raw


def _length(count: int, flexible: bool, width: int) -> bytes:
    if not flexible:
        return struct.pack(">h" if width == 2 else ">i", count)
    count += 1
    out = bytearray()
    while count > 127:
        out.append(count & 127 | 128)
        count >>= 7
    out.append(count)
    return bytes(out)
