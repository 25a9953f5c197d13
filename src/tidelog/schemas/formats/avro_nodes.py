"""An Avro schema as a tree, and back to text.

A named type is one object wherever it is used, so a recursive schema is a cycle.  `to_json` writes what Avro's own
`Schema.toString` writes: attributes in a fixed order, a name in full only where it is not in the enclosing namespace, and
a definition only at its first use.  Two texts that differ in spaces or order are one schema.
"""

from collections.abc import Iterator
from dataclasses import field
from typing import Any

from tidelog.dataclass import dataclass

PRIMITIVES = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))
NOTHING = object()
"""No default; None is the default `null`."""


@dataclass(eq=False, slots=True)
class Node:
    """A type; `props` are attributes that Avro gives no meaning here, such as logicalType."""

    type: str
    props: dict[str, Any] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class Array(Node):
    items: Node = field(default_factory=lambda: Node("null"))


@dataclass(eq=False, slots=True)
class Map(Node):
    values: Node = field(default_factory=lambda: Node("null"))


@dataclass(eq=False, slots=True)
class Union(Node):
    branches: list[Node] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Named(Node):
    name: str = ""
    namespace: str = ""
    aliases: list[str] = field(default_factory=list)
    """In full."""
    doc: str | None = None

    @property
    def full_name(self) -> str:
        return f"{self.namespace}.{self.name}" if self.namespace else self.name


@dataclass(eq=False, slots=True)
class Enum(Named):
    symbols: list[str] = field(default_factory=list)
    default: str | None = None


@dataclass(eq=False, slots=True)
class Fixed(Named):
    size: int = 0


@dataclass(eq=False, slots=True)
class Field:
    """A field of a record."""

    name: str
    type: Node
    default: Any = NOTHING
    doc: str | None = None
    order: str = "ascending"
    aliases: list[str] = field(default_factory=list)
    props: dict[str, Any] = field(default_factory=dict)

    @property
    def has_default(self) -> bool:
        return self.default is not NOTHING


@dataclass(eq=False, slots=True)
class Record(Named):
    fields: list[Field] = field(default_factory=list)


def to_json(root: Node, known: frozenset[str] = frozenset(), *, sort: bool = False) -> Any:
    """The tree as JSON; `known` names are defined elsewhere, `sort` puts unknown attributes in order."""
    return _Writer(set(known), sort).write(root, "")


class _Writer:
    def __init__(self, defined: set[str], sort: bool) -> None:
        self._defined = defined
        self._sort = sort

    def write(self, node: Node, namespace: str) -> Any:
        match node:
            case Union():
                return [self.write(each, namespace) for each in node.branches]
            case Array():
                items = self.write(node.items, namespace)
                return {"type": "array", "items": items, **self._props(node.props)}
            case Map():
                values = self.write(node.values, namespace)
                return {"type": "map", "values": values, **self._props(node.props)}
            case Named():
                return self._named(node, namespace)
        return {"type": node.type, **self._props(node.props)} if node.props else node.type

    def _named(self, node: Named, namespace: str) -> Any:
        if node.full_name in self._defined:
            return _short(node.full_name, namespace)
        self._defined.add(node.full_name)
        told: dict[str, Any] = {"type": node.type, "name": node.name}
        if node.namespace != namespace:
            told["namespace"] = node.namespace
        if node.doc is not None:
            told["doc"] = node.doc
        match node:
            case Record():
                told["fields"] = [self._field(each, node.namespace) for each in node.fields]
            case Enum():
                told["symbols"] = node.symbols
                if node.default is not None:
                    told["default"] = node.default
            case Fixed():
                told["size"] = node.size
        told |= self._props(node.props)
        if node.aliases:
            told["aliases"] = [_short(each, node.namespace) for each in node.aliases]
        return told

    def _field(self, each: Field, namespace: str) -> dict[str, Any]:
        told: dict[str, Any] = {"name": each.name, "type": self.write(each.type, namespace)}
        if each.doc is not None:
            told["doc"] = each.doc
        if each.has_default:
            told["default"] = each.default
        if each.order != "ascending":
            told["order"] = each.order
        if each.aliases:
            told["aliases"] = each.aliases
        return told | self._props(each.props)

    def _props(self, props: dict[str, Any]) -> dict[str, Any]:
        return dict(sorted(props.items())) if self._sort else props


def named_types(root: Node) -> Iterator[Named]:
    """Every named type that can be reached, each once."""
    seen: set[int] = set()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        match node:
            case Union():
                waiting += node.branches
            case Array():
                waiting.append(node.items)
            case Map():
                waiting.append(node.values)
            case Record():
                waiting += [each.type for each in node.fields]
        if isinstance(node, Named):
            yield node


def _short(full_name: str, namespace: str) -> str:
    space, _, name = full_name.rpartition(".")
    return name if space == namespace and space else full_name
