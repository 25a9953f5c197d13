"""Whether every document of one JSON schema is one of another, keyword by keyword; `json_schema` has the rules.

A `$ref` is followed in its own document; a pair of schemas that is being compared is taken to fit, so that recursive
schemas come to an end.
"""

import json
from collections.abc import Callable
from typing import Any

from tidelog.dataclass import dataclass
from tidelog.schemas.errors import InvalidSchema

Documents = dict[str, Any]
"""Schemas by the name under which they are referred to."""

_TYPES = ("null", "boolean", "object", "array", "number", "string")
_LOWER = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties", "minContains")
_UPPER = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties", "maxContains")
_CHOICES = ("anyOf", "oneOf")
_SAME = (
    "pattern",
    "patternProperties",
    "propertyNames",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
    "if",
    "then",
    "else",
    "not",
    "contains",
    "unevaluatedProperties",
    "unevaluatedItems",
)
"""Keywords that may go, and else must stay as they are."""

STEPS_MAX = 100_000
"""Nobody's schemas are so large; those that are made to be take no longer than this."""
REASONS_MAX = 100
"""Told of a schema; one that is referred to from many places has its own in each of them."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One reason; `kind` is Confluent's name for it where there is one."""

    kind: str
    path: str
    reason: str

    def told(self, reader: str, writer: str) -> str:
        text = (
            f"The {reader} schema {self.reason} at path '{self.path}', unlike the {writer} schema"
        )
        return f'{{errorType:"{self.kind}", description:"{text}"}}'


@dataclass(frozen=True, slots=True)
class _Side:
    """A schema in its document, for `$ref`."""

    schema: Any
    root: Any
    documents: Documents

    def at(self, schema: Any) -> "_Side":
        return _Side(schema, self.root, self.documents)

    def resolved(self) -> "_Side":
        """What `$ref` leads to; itself where there is none, or it leads nowhere."""
        side = self
        for _ in range(32):
            target = side.schema.get("$ref") if isinstance(side.schema, dict) else None
            if not isinstance(target, str):
                return side
            found = side._follow(target)
            if found is None:
                return side
            side = found
        return side

    def _follow(self, target: str) -> "_Side | None":
        name, _, fragment = target.partition("#")
        root = self.root
        if name:
            if name not in self.documents:
                return None
            root = self.documents[name]
        found = root
        for part in fragment.split("/")[1:] if fragment.startswith("/") else ():
            key = part.replace("~1", "/").replace("~0", "~")
            if isinstance(found, dict) and key in found:
                found = found[key]
            elif isinstance(found, list) and key.isdigit() and int(key) < len(found):
                found = found[int(key)]
            else:
                return None
        return _Side(found, root, self.documents)


def differences(
    reader: Any, reader_documents: Documents, writer: Any, writer_documents: Documents
) -> list[Difference]:
    """Why some document of `writer` would not fit `reader`; none if all do, as far as the rules see."""
    return _Checker().check(
        _Side(reader, reader, reader_documents), _Side(writer, writer, writer_documents), "#"
    )


class _Checker:
    def __init__(self) -> None:
        self._steps = 0
        self._assumed: dict[tuple[int, int], object] = {}
        """Pairs of schemas that are being compared, or were; their values keep the schemas, and so their ids, alive."""
        self._failed: dict[tuple[int, int], tuple[list[Difference], object]] = {}

    def check(self, reader: _Side, writer: _Side, path: str) -> list[Difference]:
        self._steps += 1
        if self._steps > STEPS_MAX:
            raise InvalidSchema(f"the two take more than {STEPS_MAX} steps to compare")
        reader, writer = reader.resolved(), writer.resolved()
        if reader.schema in (True, {}) or writer.schema is False:
            return []
        if reader.schema is False:
            return [Difference("TYPE_NARROWED", path, "allows nothing")]
        pair = (id(reader.schema), id(writer.schema))
        if pair in self._failed:
            return self._failed[pair][0]
        if pair in self._assumed:
            return []
        alive = (reader.schema, writer.schema)
        self._assumed[pair] = alive
        if writer.schema is True:
            writer = writer.at({})
        found = self._alternatives(reader, writer, path)[:REASONS_MAX]
        if found:
            self._failed[pair] = (found, alive)
        return found

    def _fits(self, reader: _Side, writer: _Side, path: str) -> bool:
        before = dict(self._assumed)
        if self.check(reader, writer, path):
            self._assumed = before
            return False
        return True

    def _alternatives(self, reader: _Side, writer: _Side, path: str) -> list[Difference]:
        """anyOf, oneOf and allOf of both sides, then the keywords beside them."""
        choices = [each for word in _CHOICES if (each := _branches(writer, word)) is not None]
        if choices:
            return self._each_choice(reader, writer, choices, path)
        # What the writer wrote fits all its parts: it is enough that one of them is readable.
        parts = _branches(writer, "allOf") or []
        if any(self._fits(reader, each, path) for each in parts):
            return []
        found: list[Difference] = []
        for word in _CHOICES:
            ours = _branches(reader, word)
            if ours is not None and not all(
                any(self._fits(branch, each, path) for branch in ours) for each in _by_type(writer)
            ):
                where = f"{path}/{word}"
                found.append(Difference("COMBINED_TYPE_CHANGED", where, "lacks an alternative"))
        for index, part in enumerate(_branches(reader, "allOf") or ()):
            if not any(self._fits(part, each, path) for each in (*parts, writer)):
                where = f"{path}/allOf/{index}"
                found.append(Difference("PRODUCT_TYPE_EXTENDED", where, "asks for more"))
        return found + self._keywords(reader, writer, path)

    def _each_choice(
        self, reader: _Side, writer: _Side, choices: list[list[_Side]], path: str
    ) -> list[Difference]:
        """The writer may have taken any of its alternatives."""
        beside = writer.at(_without(writer.schema, *_CHOICES))
        if self._fits(reader, beside, path):
            return []
        has_choices = any(word in reader.schema for word in _CHOICES)
        found: list[Difference] = []
        for index, each in enumerate(choices[0]):
            where = f"{path}/{index}"
            if not has_choices:
                found += self.check(reader, each, where)
            elif not self._fits(reader, each, where):
                found.append(Difference("SUM_TYPE_NARROWED", where, "lacks an alternative"))
        return found

    def _keywords(self, reader: _Side, writer: _Side, path: str) -> list[Difference]:
        if not isinstance(writer.schema, dict):
            return []
        ours, theirs = reader.schema, writer.schema
        found = _types(ours, theirs, path) + _values(ours, theirs, path)
        if found:
            return found
        found = _limits(ours, theirs, path) + _unchanged(ours, theirs, path)
        if "object" in _types_of(ours) and "object" in _types_of(theirs):
            found += self._properties(reader, writer, path) + _required(ours, theirs, path)
        if "array" in _types_of(ours) and "array" in _types_of(theirs):
            found += self._items(reader, writer, path)
        return found

    def _properties(self, reader: _Side, writer: _Side, path: str) -> list[Difference]:
        ours, theirs = reader.schema.get("properties", {}), writer.schema.get("properties", {})
        found: list[Difference] = []
        our_rest = reader.schema.get("additionalProperties", True)
        their_rest = writer.schema.get("additionalProperties", True)
        for name, each in theirs.items():
            where = f"{path}/properties/{name}"
            if name in ours:
                found += self.check(reader.at(ours[name]), writer.at(each), where)
            elif our_rest is False and each is not False:
                found.append(
                    Difference(
                        "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL", where, "has no such property"
                    )
                )
            elif not self._fits(reader.at(our_rest), writer.at(each), where):
                found.append(
                    Difference(
                        "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
                        where,
                        "has a narrower additionalProperties",
                    )
                )
        for name, each in ours.items():
            # The writer may have put anything there that its content model allows.
            if name not in theirs and not self._fits(reader.at(each), writer.at(their_rest), path):
                kind = (
                    "PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"
                    if their_rest in (True, {})
                    else "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
                )
                where = f"{path}/properties/{name}"
                found.append(Difference(kind, where, "restricts a property that was free"))
        if not self._fits(reader.at(our_rest), writer.at(their_rest), path):
            where = f"{path}/additionalProperties"
            found.append(Difference("ADDITIONAL_PROPERTIES_NARROWED", where, "allows less"))
        return found

    def _items(self, reader: _Side, writer: _Side, path: str) -> list[Difference]:
        our_first, our_rest = _tuple_of(reader.schema)
        their_first, their_rest = _tuple_of(writer.schema)
        found: list[Difference] = []
        for index in range(max(len(our_first), len(their_first))):
            ours = our_first[index] if index < len(our_first) else our_rest
            theirs = their_first[index] if index < len(their_first) else their_rest
            found += self.check(reader.at(ours), writer.at(theirs), f"{path}/items/{index}")
        return found + self.check(reader.at(our_rest), writer.at(their_rest), f"{path}/items")


def _branches(side: _Side, keyword: str) -> list[_Side] | None:
    found = side.schema.get(keyword)
    return [side.at(each) for each in found] if isinstance(found, list) else None


def _by_type(side: _Side) -> list[_Side]:
    """The schema once for each of its types, since each may fit another alternative."""
    types = side.schema.get("type")
    if not isinstance(types, list):
        return [side]
    return [side.at({**side.schema, "type": each}) for each in types]


def _without(schema: dict[str, Any], *keywords: str) -> dict[str, Any]:
    return {key: each for key, each in schema.items() if key not in keywords}


def _types_of(schema: Any) -> frozenset[str]:
    given = schema.get("type") if isinstance(schema, dict) else None
    if given is None:
        return frozenset((*_TYPES, "integer"))
    return frozenset([given] if isinstance(given, str) else given)


def _types(ours: dict[str, Any], theirs: dict[str, Any], path: str) -> list[Difference]:
    allowed = _types_of(ours)
    if "number" in allowed:
        allowed |= {"integer"}
    missing = _types_of(theirs) - allowed
    if not missing:
        return []
    if "type" not in theirs and "enum" in theirs and _values_fit(allowed, theirs["enum"]):
        return []
    return [Difference("TYPE_NARROWED", path, f"does not allow {', '.join(sorted(missing))}")]


def _values_fit(allowed: frozenset[str], values: list[Any]) -> bool:
    return all(_type_of(each) in allowed for each in values)


def _type_of(value: Any) -> str:
    names: dict[type, str] = {bool: "boolean", int: "integer", float: "number", str: "string"}
    return names.get(type(value), "null" if value is None else "object")


def _values(ours: dict[str, Any], theirs: dict[str, Any], path: str) -> list[Difference]:
    allowed = _listed(ours)
    if allowed is None:
        return []
    written = _listed(theirs)
    if written is None or not written <= allowed:
        return [Difference("ENUM_ARRAY_NARROWED", f"{path}/enum", "allows fewer values")]
    return []


def _listed(schema: dict[str, Any]) -> frozenset[str] | None:
    if "const" in schema:
        return frozenset((json.dumps(schema["const"], sort_keys=True),))
    if isinstance(schema.get("enum"), list):
        return frozenset(json.dumps(each, sort_keys=True) for each in schema["enum"])
    return None


def _limits(ours: dict[str, Any], theirs: dict[str, Any], path: str) -> list[Difference]:
    tighter: list[tuple[tuple[str, ...], Callable[[Any, Any], bool]]] = [
        (_LOWER, lambda our, their: our > their),
        (_UPPER, lambda our, their: our < their),
        (("multipleOf",), lambda our, their: their % our != 0),
        (("uniqueItems",), lambda our, their: bool(our) and not their),
    ]
    found = []
    for keywords, is_tighter in tighter:
        for keyword in keywords:
            our, their = ours.get(keyword), theirs.get(keyword)
            if our is None or our is False or (keyword.startswith("min") and our == 0):
                continue
            numbers = isinstance(our, int | float) and isinstance(their, int | float)
            if not numbers or is_tighter(our, their):
                kind = f"{_screaming(keyword)}_{'ADDED' if their is None else 'CHANGED'}"
                found.append(Difference(kind, f"{path}/{keyword}", f"has a tighter {keyword}"))
    return found


def _unchanged(ours: dict[str, Any], theirs: dict[str, Any], path: str) -> list[Difference]:
    return [
        Difference(f"{_screaming(each)}_CHANGED", f"{path}/{each}", f"has another {each}")
        for each in _SAME
        if each in ours and (each not in theirs or ours[each] != theirs[each])
    ]


def _required(ours: dict[str, Any], theirs: dict[str, Any], path: str) -> list[Difference]:
    found = []
    properties = ours.get("properties", {})
    for name in ours.get("required") or ():
        if name in (theirs.get("required") or ()):
            continue
        its_schema = properties.get(name)
        if isinstance(its_schema, dict) and "default" in its_schema:
            continue
        where = f"{path}/required/{name}"
        found.append(Difference("REQUIRED_ATTRIBUTE_ADDED", where, "requires a property more"))
    return found


def _tuple_of(schema: dict[str, Any]) -> tuple[list[Any], Any]:
    """The schemas of the first items and that of the rest; `items` as a list is how it was before 2020-12."""
    items = schema.get("items", True)
    if isinstance(items, list):
        return items, schema.get("additionalItems", True)
    return schema.get("prefixItems", []), items


def _screaming(keyword: str) -> str:
    return "".join(f"_{each}" if each.isupper() else each for each in keyword).upper().strip("$_")
