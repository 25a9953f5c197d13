"""What a few bytes of Avro may become: looked at before fastavro decodes them, because fastavro has no limits of its own.

    limit = limiter(fast, named)            # once for a schema; None if its values cannot do harm
    if limit is not None:
        limit(data, start)                  # SchemaMismatch where it is too deep, or too much for its bytes

A value of a recursive schema nests as deep as its bytes say, and every level takes some of the C stack.  An array of values
that take no bytes (null, an empty record) has as many as its count says.  Schemas that can do neither, which are nearly all, cost
nothing here: their values are bounded by their bytes.  The others are walked once in Python, without recursion.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

from tidelog.schemas.errors import SchemaMismatch

Limit = Callable[[bytes, int], None]

DEPTH = 500
"""Records, arrays and maps inside each other."""
VALUES_A_BYTE = 16
SPARE_VALUES = 1_000
"""So many values may always be there, besides so many for each byte."""

TRIES_MAX = 100_000
"""Of branches of unions, for a value that somebody else gives us to write."""

_SIZES = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_CONTAINERS = ("record", "array", "map")


class _Type:
    """A type, and what can be said about all its values."""

    __slots__ = ("depth", "free", "kind", "parts", "size", "takes_none")

    def __init__(self, kind: str, size: int = 0) -> None:
        self.kind = kind
        """fixed, varint, bytes, union, record, array or map."""
        self.size = size
        """In bytes, of a fixed one."""
        self.parts: list[_Type] = []
        """Fields of a record, branches of a union, the items of an array or a map."""
        self.takes_none = kind == "fixed" and size == 0
        """Whether its values take no bytes."""
        self.depth = 0
        self.free = int(self.takes_none)
        """How many values one of it may hold that take no bytes, besides those in arrays and maps."""


def limiter(fast: Any, named: Mapping[str, Any]) -> Limit | None:
    """What a value must pass before it is decoded with `fast`, fastavro's parsed schema; None for nothing."""
    root = _build(fast, named)
    if not _can_do_harm(root):
        return None
    return lambda data, start: _walk(root, data, start)


def is_quick_to_write(fast: Any, named: Mapping[str, Any], value: Any) -> bool:
    """Whether fastavro finds the branches of a value's unions in a moment.

    At every level it tries a value against each branch that could hold it, and for that tries all levels below again.
    """
    branches, seen, waiting = 1, set[int](), [_build(fast, named)]
    while waiting:
        node = waiting.pop()
        if id(node) not in seen:
            seen.add(id(node))
            waiting += node.parts
            if node.kind == "union":
                branches = max(branches, sum(each.kind in _CONTAINERS for each in node.parts))
    return branches == 1 or _depth(value) * math.log(branches) <= math.log(TRIES_MAX)


def _depth(value: Any) -> int:
    """How many objects and lists are inside each other."""
    deepest, waiting = 0, [(value, 1)]
    while waiting:
        each, depth = waiting.pop()
        parts = each.values() if isinstance(each, dict) else each if isinstance(each, list) else ()
        deepest = max(deepest, depth if isinstance(each, dict | list) else 0)
        waiting += [(part, depth + 1) for part in parts]
    return deepest


def _build(fast: Any, named: Mapping[str, Any]) -> _Type:
    made: dict[str, _Type] = {}
    waiting: list[tuple[_Type, Any]] = []

    def of(schema: Any) -> _Type:
        while isinstance(schema, dict) and isinstance(schema["type"], dict | list):
            schema = schema["type"]
        if isinstance(schema, list):
            found = _Type("union")
            waiting.append((found, schema))
            return found
        kind = schema if isinstance(schema, str) else schema["type"]
        if kind in _SIZES:
            return _Type("fixed", _SIZES[kind])
        if kind in ("bytes", "string"):
            return _Type("bytes")
        if kind in ("int", "long"):
            return _Type("varint")
        if kind in ("array", "map"):
            found = _Type(kind)
            waiting.append((found, [schema["items" if kind == "array" else "values"]]))
            return found
        declared = isinstance(schema, dict) and "name" in schema
        name = schema["name"] if declared else kind
        if name not in made:
            made[name] = _named(schema if declared else named[name], waiting)
        return made[name]

    root = of(fast)
    while waiting:
        found, parts = waiting.pop()
        found.parts = [of(each) for each in parts]
    return root


def _named(schema: Any, waiting: list[tuple[_Type, Any]]) -> _Type:
    if schema["type"] == "enum":
        return _Type("varint")
    if schema["type"] == "fixed":
        return _Type("fixed", int(schema["size"]))
    found = _Type("record")
    waiting.append((found, [each["type"] for each in schema["fields"]]))
    return found


def _can_do_harm(root: _Type) -> bool:
    """Judges every type after its parts; one that is met again while its own are being judged is recursive."""
    judged: set[int] = set()
    under_way: set[int] = set()
    waiting = [(root, False)]
    while waiting:
        node, parts_done = waiting.pop()
        if parts_done:
            under_way.discard(id(node))
            judged.add(id(node))
            if _judge(node):
                return True
        elif id(node) not in judged:
            under_way.add(id(node))
            waiting.append((node, True))
            for each in node.parts:
                if id(each) in under_way:
                    return True
                waiting.append((each, False))
    return root.free > SPARE_VALUES


def _judge(node: _Type) -> bool:
    parts = node.parts
    node.depth = max((each.depth for each in parts), default=0) + (node.kind in _CONTAINERS)
    if node.kind == "record":
        node.takes_none = all(each.takes_none for each in parts)
        node.free = sum(each.free for each in parts) + node.takes_none
    elif node.kind == "union":
        node.free = max((each.free for each in parts), default=0)
    elif parts and (parts[0].takes_none or parts[0].free > VALUES_A_BYTE):
        return True
    return node.depth > DEPTH


def _walk(root: _Type, data: bytes, start: int) -> None:
    """Goes through a value as a decoder would, and keeps nothing of it."""
    at, end = start, len(data)
    left = SPARE_VALUES + VALUES_A_BYTE * (end - start)
    # Of each value that is open: its type, and how many of its parts are still to come in this block.
    open_values: list[list[Any]] = []
    node: _Type | None = root
    while True:
        if node is None:
            if not open_values:
                return
            node, at = _next(open_values, data, at, left)
            continue
        left -= 1
        if left < 0:
            raise SchemaMismatch("", f"{end - start} bytes hold more values than they may")
        kind = node.kind
        if kind == "fixed":
            at += node.size
        elif kind == "varint":
            _, at = _long(data, at)
        elif kind == "bytes":
            length, at = _long(data, at)
            at = _skip(length, at)
        elif kind == "union":
            branch, at = _long(data, at)
            if not 0 <= branch < len(node.parts):
                raise SchemaMismatch("", f"there is no branch {branch} in a union")
            node = node.parts[branch]
            continue
        else:
            if len(open_values) >= DEPTH:
                raise SchemaMismatch("", f"it is nested more than {DEPTH} deep")
            open_values.append([node, len(node.parts) if kind == "record" else 0])
        if at > end:
            raise SchemaMismatch("", "it ends too soon")
        node = None


def _next(
    open_values: list[list[Any]], data: bytes, at: int, left: int
) -> tuple[_Type | None, int]:
    """The type of what comes next, and where; None where the innermost value has ended."""
    innermost = open_values[-1]
    node, remaining = innermost
    if node.kind == "record":
        if not remaining:
            open_values.pop()
            return None, at
        innermost[1] -= 1
        return node.parts[len(node.parts) - remaining], at
    if not remaining:
        remaining, at = _long(data, at)
        if remaining < 0:
            remaining = -remaining
            _, at = _long(data, at)  # how long the block is
        if not remaining:
            open_values.pop()
            return None, at
        if remaining > left:
            raise SchemaMismatch("", f"a count of {remaining} is more than its bytes can hold")
    innermost[1] = remaining - 1
    if node.kind == "map":
        length, at = _long(data, at)
        at = _skip(length, at)
    return node.parts[0], at


def _skip(length: int, at: int) -> int:
    if length < 0:
        raise SchemaMismatch("", f"a length of {length}")
    return at + length


def _long(data: bytes, at: int) -> tuple[int, int]:
    """Avro's: zig-zag, seven bits a byte."""
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise SchemaMismatch("", "it ends too soon" if at >= len(data) else "a number too long")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
