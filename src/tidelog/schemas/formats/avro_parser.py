"""Avro's schema language, read and checked: every error says where it is and what would be right.

Names, symbols and defaults are checked as Avro's specification has them; the default of a union may be of any of its
branches (Avro 1.12).  A logical type that does not suit its type is ignored, as the specification asks.
"""

import json
import re
from typing import Any

from tidelog.schemas.errors import InvalidSchema
from tidelog.schemas.formats.avro_nodes import (
    NOTHING,
    PRIMITIVES,
    Array,
    Enum,
    Field,
    Fixed,
    Map,
    Named,
    Node,
    Record,
    Union,
)

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DEPTH = 200
"""Types inside types; deeper is nobody's schema."""

_INT = range(-(2**31), 2**31)
_LONG = range(-(2**63), 2**63)

_OF_NAMED = frozenset(("type", "name", "namespace", "doc", "aliases"))
_KNOWN = {
    "record": _OF_NAMED | {"fields"},
    "error": _OF_NAMED | {"fields"},
    "enum": _OF_NAMED | {"symbols", "default"},
    "fixed": _OF_NAMED | {"size"},
    "array": frozenset(("type", "items")),
    "map": frozenset(("type", "values")),
}
_OF_FIELD = frozenset(("name", "type", "default", "doc", "order", "aliases"))


def parse(text: str, names: dict[str, Named]) -> Node:
    """The schema in `text`; `names` has the types it may use and gets those it defines."""
    try:
        given = json.loads(text, parse_constant=_no_number)
    except RecursionError:
        raise InvalidSchema(f"types are nested more than {_DEPTH} deep") from None
    except ValueError as error:
        # A primitive may be written without quotation marks; Avro's parser takes that.
        if text.strip() not in PRIMITIVES:
            raise InvalidSchema(f"the schema is not JSON: {error}") from None
        given = text.strip()
    try:
        return _Parser(names).parse(given, "", "", 0)
    except RecursionError:  # a default that is as deep
        raise InvalidSchema(f"types are nested more than {_DEPTH} deep") from None


class _Parser:
    def __init__(self, names: dict[str, Named]) -> None:
        self._names = names

    def parse(self, given: Any, namespace: str, path: str, depth: int) -> Node:
        if depth > _DEPTH:
            raise InvalidSchema(f"types are nested more than {_DEPTH} deep")
        if isinstance(given, str):
            return self._by_name(given, namespace, path)
        if isinstance(given, list):
            return self._union(given, namespace, path, depth)
        if not isinstance(given, dict):
            raise _wrong(path, f"{_shown(given)} is not a type")
        kind = given.get("type")
        if kind is None:
            raise _wrong(path, "a type needs the attribute 'type'")
        if isinstance(kind, dict | list):
            return self.parse(kind, namespace, path, depth + 1)
        if not isinstance(kind, str):
            raise _wrong(path, f"the type {_shown(kind)} is not a name")
        if kind in PRIMITIVES:
            return Node(kind, {key: each for key, each in given.items() if key != "type"})
        if kind not in _KNOWN:
            return self._by_name(kind, namespace, path)
        props = {key: each for key, each in given.items() if key not in _KNOWN[kind]}
        if kind == "array":
            items = self._inner(given, "items", namespace, path, depth)
            return Array(kind, _without_default(props), items)
        if kind == "map":
            values = self._inner(given, "values", namespace, path, depth)
            return Map(kind, _without_default(props), values)
        return self._named(kind, given, props, namespace, path, depth)

    def _by_name(self, name: str, namespace: str, path: str) -> Node:
        if name in PRIMITIVES:
            return Node(name)
        for full in (name,) if "." in name or not namespace else (f"{namespace}.{name}", name):
            if full in self._names:
                return self._names[full]
        raise _wrong(
            path,
            f"{name!r} is not defined: not a primitive, not in this schema before, not referenced",
        )

    def _inner(
        self, given: dict[str, Any], key: str, namespace: str, path: str, depth: int
    ) -> Node:
        if key not in given:
            raise _wrong(path, f"{given['type']} needs the attribute {key!r}")
        return self.parse(given[key], namespace, f"{path}/{key}", depth + 1)

    def _union(self, given: list[Any], namespace: str, path: str, depth: int) -> Union:
        branches: list[Node] = []
        seen: set[str] = set()
        for index, each in enumerate(given):
            branch = self.parse(each, namespace, f"{path}/{index}", depth + 1)
            if isinstance(branch, Union):
                raise _wrong(f"{path}/{index}", "a union may not hold another union")
            key = branch.full_name if isinstance(branch, Named) else branch.type
            if key in seen:
                raise _wrong(f"{path}/{index}", f"{key} is in this union already")
            seen.add(key)
            branches.append(branch)
        return Union("union", {}, branches)

    def _named(
        self,
        kind: str,
        given: dict[str, Any],
        props: dict[str, Any],
        namespace: str,
        path: str,
        depth: int,
    ) -> Named:
        space, name = _full_name(given, namespace, path)
        aliases = [
            each if "." in each or not space else f"{space}.{each}"
            for each in _names(given, "aliases", path, dotted=True)
        ]
        doc = given.get("doc") if isinstance(given.get("doc"), str) else None
        node: Named
        if kind in ("record", "error"):
            node = Record(kind, props, name, space, aliases, doc)
        elif kind == "enum":
            node = _enum(given, Enum(kind, props, name, space, aliases, doc), path)
        else:
            node = _fixed(given, Fixed(kind, props, name, space, aliases, doc), path)
        if node.full_name in self._names:
            raise _wrong(path, f"{node.full_name} is defined twice")
        self._names[node.full_name] = node
        if isinstance(node, Record):
            self._fields(given, node, path, depth)
        return node

    def _fields(self, given: dict[str, Any], record: Record, path: str, depth: int) -> None:
        fields = given.get("fields")
        if not isinstance(fields, list):
            raise _wrong(path, f"record {record.full_name} needs a list 'fields'")
        seen: set[str] = set()
        for index, each in enumerate(fields):
            where = f"{path}/fields/{index}"
            if not isinstance(each, dict) or not isinstance(each.get("name"), str):
                raise _wrong(where, "a field is an object with a 'name'")
            name = each["name"]
            if not _NAME.fullmatch(name):
                raise _wrong(where, f"{name!r} is not a legal field name (letters, digits, _)")
            if name in seen:
                raise _wrong(where, f"record {record.full_name} has two fields {name!r}")
            seen.add(name)
            record.fields.append(self._field(each, name, record, where, depth))

    def _field(
        self, given: dict[str, Any], name: str, record: Record, path: str, depth: int
    ) -> Field:
        if "type" not in given:
            raise _wrong(path, f"field {name!r} needs the attribute 'type'")
        type = self.parse(given["type"], record.namespace, f"{path}/type", depth + 1)
        order = given.get("order", "ascending")
        if order not in ("ascending", "descending", "ignore"):
            raise _wrong(path, f"order {_shown(order)} is not ascending, descending or ignore")
        default = given.get("default", NOTHING)
        if default is not NOTHING and not fits(type, default):
            raise _wrong(
                path, f"the default {_shown(default)} of field {name!r} does not fit its type"
            )
        doc = given.get("doc") if isinstance(given.get("doc"), str) else None
        aliases = _names(given, "aliases", path)
        props = {key: each for key, each in given.items() if key not in _OF_FIELD}
        return Field(name, type, default, doc, order, aliases, props)


def fits(node: Node, value: Any) -> bool:
    """Whether JSON may stand as a default of this type."""
    return _Defaults().fits(node, value)


class _Defaults:
    """Every part of a value is held against every type once: unions of records that hold each other ask again and again."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], bool] = {}
        """By identity: types and the parts of the value outlive the question."""

    def fits(self, node: Node, value: Any) -> bool:
        key = (id(node), id(value))
        if key not in self._known:
            self._known[key] = self._look(node, value)
        return self._known[key]

    def _look(self, node: Node, value: Any) -> bool:
        match node:
            case Union():
                return any(self.fits(each, value) for each in node.branches)
            case Array():
                return isinstance(value, list) and all(
                    self.fits(node.items, each) for each in value
                )
            case Map():
                return isinstance(value, dict) and all(
                    self.fits(node.values, each) for each in value.values()
                )
            case Record():
                return isinstance(value, dict) and all(
                    self.fits(each.type, value[each.name])
                    if each.name in value
                    else each.has_default
                    for each in node.fields
                )
            case Enum():
                return isinstance(value, str) and value in node.symbols
            case Fixed():
                return isinstance(value, str) and len(value) == node.size and _is_latin(value)
        return _fits_primitive(node.type, value)


def _fits_primitive(type: str, value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    match type:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "int":
            return _whole(value) and int(value) in _INT
        case "long":
            return _whole(value) and int(value) in _LONG
        case "float" | "double":
            return number or value in ("NaN", "Infinity", "-Infinity", "INF", "-INF")
        case "string":
            return isinstance(value, str)
    return isinstance(value, str) and _is_latin(value)


def _full_name(given: dict[str, Any], namespace: str, path: str) -> tuple[str, str]:
    name = given.get("name")
    if not isinstance(name, str) or not name:
        raise _wrong(path, f"{given['type']} needs a 'name'")
    space = given.get("namespace", namespace)
    if "." in name:
        space, _, name = name.rpartition(".")
    if not isinstance(space, str):
        raise _wrong(path, f"the namespace {_shown(space)} is not a text")
    if not _NAME.fullmatch(name):
        raise _wrong(path, f"{name!r} is not a legal name (letters, digits, _)")
    if space and not all(_NAME.fullmatch(each) for each in space.split(".")):
        raise _wrong(path, f"{space!r} is not a legal namespace (names with dots between them)")
    if name in PRIMITIVES and not space:
        raise _wrong(path, f"{name!r} is the name of a primitive type")
    return space, name


def _names(given: dict[str, Any], key: str, path: str, *, dotted: bool = False) -> list[str]:
    found = given.get(key, [])
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise _wrong(path, f"{key} must be a list of names")
    for each in found:
        parts = each.split(".") if dotted else [each]
        if not all(_NAME.fullmatch(part) for part in parts):
            raise _wrong(path, f"{each!r} in {key} is not a legal name")
    return list(found)


def _enum(given: dict[str, Any], node: Enum, path: str) -> Enum:
    if not isinstance(given.get("symbols"), list):
        raise _wrong(path, f"enum {node.full_name} needs a list 'symbols'")
    node.symbols = _names(given, "symbols", path)
    if len(set(node.symbols)) < len(node.symbols):
        twice = next(each for each in node.symbols if node.symbols.count(each) > 1)
        raise _wrong(path, f"enum {node.full_name} has the symbol {twice!r} twice")
    node.default = given.get("default")
    if node.default is not None and node.default not in node.symbols:
        raise _wrong(path, f"the default {_shown(node.default)} is no symbol of {node.full_name}")
    return node


def _fixed(given: dict[str, Any], node: Fixed, path: str) -> Fixed:
    size = given.get("size")
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 2**31:
        raise _wrong(path, f"fixed {node.full_name} needs a 'size' in bytes, not {_shown(size)}")
    node.size = size
    return node


def _without_default(props: dict[str, Any]) -> dict[str, Any]:
    return {key: each for key, each in props.items() if key != "default"}


def _whole(value: Any) -> bool:
    if isinstance(value, float):
        return value.is_integer()
    return isinstance(value, int) and not isinstance(value, bool)


def _is_latin(text: str) -> bool:
    return all(ord(each) < 256 for each in text)


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no JSON")


def _wrong(path: str, reason: str) -> InvalidSchema:
    return InvalidSchema(f"at {path or '/'}: {reason}")
