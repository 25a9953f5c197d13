"""Where a value does not fit an Avro schema: looked for when encoding failed, or when it is asked for.

Values of logical types (dates, decimals, UUIDs) are taken as they are, since fastavro turns them into what is stored.
"""

from collections.abc import Mapping
from datetime import date, time
from decimal import Decimal
from typing import Any
from uuid import UUID

from tidelog.schemas.errors import SchemaMismatch
from tidelog.schemas.formats.avro_nodes import Array, Enum, Fixed, Map, Named, Node, Record, Union

LOGICAL = (date, time, Decimal, UUID)
"""What fastavro turns into a stored value; a datetime is a date, too."""
_INT_LIMIT = {"int": 2**31, "long": 2**63}


def find_mismatch(node: Node, value: Any, path: str = "") -> SchemaMismatch | None:
    """The first place where the value does not fit; None if it fits."""
    match node:
        case Union():
            return _in_union(node, value, path)
        case Record():
            return _in_record(node, value, path)
        case Array():
            if not isinstance(value, list | tuple):
                return _wrong(path, value, "a list")
            found = (
                find_mismatch(node.items, each, f"{path}[{i}]") for i, each in enumerate(value)
            )
            return next((each for each in found if each is not None), None)
        case Map():
            if not isinstance(value, Mapping):
                return _wrong(path, value, "a dict")
            for key, each in value.items():
                if not isinstance(key, str):
                    return SchemaMismatch(path, f"the key {key!r} of the map is not a string")
                if mismatch := find_mismatch(node.values, each, f"{path}[{key!r}]"):
                    return mismatch
            return None
        case Enum():
            if isinstance(value, str) and value in node.symbols:
                return None
            return _wrong(path, value, f"one of {', '.join(node.symbols)}")
        case Fixed():
            if "logicalType" in node.props and _is_logical(node, value):
                return None
            if isinstance(value, bytes | bytearray) and len(value) == node.size:
                return None
            return _wrong(path, value, f"{node.size} bytes")
    return _in_primitive(node, value, path)


def _in_record(node: Record, value: Any, path: str) -> SchemaMismatch | None:
    if not isinstance(value, Mapping):
        return _wrong(path, value, f"a dict for record {node.full_name}")
    for each in node.fields:
        where = f"{path}.{each.name}" if path else each.name
        if each.name not in value:
            if each.has_default:
                continue
            if find_mismatch(each.type, None) is None:
                continue  # fastavro writes null for what is not there
            return SchemaMismatch(where, "is missing and has no default")
        if mismatch := find_mismatch(each.type, value[each.name], where):
            return mismatch
    return None


def _in_union(node: Union, value: Any, path: str) -> SchemaMismatch | None:
    if isinstance(value, tuple) and len(value) == 2:  # fastavro's way to name the branch
        named = [each for each in node.branches if _name(each) == value[0]]
        return find_mismatch(named[0], value[1], path) if named else _none_of(node, value, path)
    mismatches = [find_mismatch(each, value, path) for each in node.branches]
    if any(each is None for each in mismatches):
        return None
    deeper = [each for each in mismatches if each is not None and each.path != path]
    # A dict that is nearly the union's one record: what is wrong with it says more than "none of these".
    return deeper[0] if len(deeper) == 1 else _none_of(node, value, path)


def _none_of(node: Union, value: Any, path: str) -> SchemaMismatch:
    return _wrong(path, value, f"one of {', '.join(map(_name, node.branches))}")


def _in_primitive(node: Node, value: Any, path: str) -> SchemaMismatch | None:
    if "logicalType" in node.props and _is_logical(node, value):
        return None
    match node.type:
        case "null":
            fits = value is None
        case "boolean":
            fits = isinstance(value, bool)
        case "int" | "long":
            fits = isinstance(value, int) and not isinstance(value, bool)
            limit = _INT_LIMIT[node.type]
            if fits and not -limit <= value < limit:
                return SchemaMismatch(path, f"{value} does not fit into {node.type}")
        case "float" | "double":
            fits = isinstance(value, int | float) and not isinstance(value, bool)
        case "string":
            fits = isinstance(value, str)
        case _:
            fits = isinstance(value, bytes | bytearray)
    return None if fits else _wrong(path, value, node.type)


def _is_logical(node: Node, value: Any) -> bool:
    if isinstance(value, str) and node.props["logicalType"] == "date":
        return True  # fastavro reads it as ISO
    return isinstance(value, LOGICAL)


def _name(node: Node) -> str:
    return node.full_name if isinstance(node, Named) else node.type


def _wrong(path: str, value: Any, wanted: str) -> SchemaMismatch:
    shown = repr(value)
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    return SchemaMismatch(path, f"{shown} ({type(value).__name__}) is not {wanted}")
