"""Whether data of one Avro schema can be read with another: the rules of Avro's specification, "Schema Resolution".

Names of records, enums and fixed are compared without their namespaces, as Avro's own checker does; a reader's aliases
count.  Not looked at, as there: logical types, and the order in which a union's branches would be tried.
"""

from tidelog.dataclass import dataclass
from tidelog.schemas.errors import InvalidSchema
from tidelog.schemas.formats.avro_nodes import (
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

_READS = {
    "int": frozenset(("int",)),
    "long": frozenset(("long", "int")),
    "float": frozenset(("float", "long", "int")),
    "double": frozenset(("double", "float", "long", "int")),
    "string": frozenset(("string", "bytes")),
    "bytes": frozenset(("bytes", "string")),
}
"""Which written primitives a reader's primitive takes; the others take their own."""

STEPS_MAX = 100_000
"""Nobody's schemas are so large; those that are made to be take no longer than this."""
REASONS_MAX = 100
"""Told of a record; one that is used in many places has its own in each of them."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Why it cannot be read; `kind` is the name that Avro's checker has for it."""

    kind: str
    path: str
    reader: str
    detail: str
    info: str

    def told(self, reader: str, writer: str) -> str:
        """In the form that Confluent's registry has; `reader` and `writer` are the schemas' names to the user."""
        text = self.detail.format(reader=reader, writer=writer, path=self.path)
        return f"{{errorType:'{self.kind}', description:'{text}', additionalInfo:'{self.info}'}}"


def differences(reader: Node, writer: Node) -> list[Difference]:
    """All reasons why `reader` cannot read what `writer` wrote; none if it can."""
    return _Checker().check(reader, writer, "")


class _Checker:
    def __init__(self) -> None:
        self._steps = 0
        self._assumed: set[tuple[int, int]] = set()
        """Pairs of records that are being compared, or were: a recursive type fits if nothing else speaks against it."""
        self._failed: dict[tuple[int, int], list[Difference]] = {}
        """Pairs that do not fit even so; kept, because unions in unions would ask for them without end."""

    def check(self, reader: Node, writer: Node, path: str) -> list[Difference]:
        self._steps += 1
        if self._steps > STEPS_MAX:
            raise InvalidSchema(f"the two take more than {STEPS_MAX} steps to compare")
        if isinstance(writer, Union):
            return self._every_branch(reader, writer, path)
        if isinstance(reader, Union):
            if any(not self._tried(each, writer, path) for each in reader.branches):
                return []
            return [_missing_branch(writer, path)]
        match reader, writer:
            case Record(), Record():
                return self._records(reader, writer, path)
            case Enum(), Enum():
                return _name_differs(reader, writer, path) + _symbols(reader, writer, path)
            case Fixed(), Fixed():
                return _name_differs(reader, writer, path) + _sizes(reader, writer, path)
            case Array(), Array():
                return self.check(reader.items, writer.items, f"{path}/items")
            case Map(), Map():
                return self.check(reader.values, writer.values, f"{path}/values")
        if writer.type in _READS.get(reader.type, {reader.type}):
            return []
        return [_type_differs(reader, writer, path)]

    def _every_branch(self, reader: Node, writer: Union, path: str) -> list[Difference]:
        found: list[Difference] = []
        for index, each in enumerate(writer.branches):
            if isinstance(reader, Union):
                if all(self._tried(branch, each, path) for branch in reader.branches):
                    found.append(_missing_branch(each, f"{path}/{index}"))
            else:
                found += self.check(reader, each, path)
        return found

    def _tried(self, reader: Node, writer: Node, path: str) -> list[Difference]:
        """Check without keeping what was assumed on the way to a failure."""
        before = set(self._assumed)
        found = self.check(reader, writer, path)
        if found:
            self._assumed = before
        return found

    def _records(self, reader: Record, writer: Record, path: str) -> list[Difference]:
        pair = (id(reader), id(writer))
        if pair in self._failed:
            return self._failed[pair]
        if pair in self._assumed:
            return []
        self._assumed.add(pair)
        found = _name_differs(reader, writer, path) + self._fields(reader, writer, path)
        del found[REASONS_MAX:]
        if found:
            self._failed[pair] = found
        return found

    def _fields(self, reader: Record, writer: Record, path: str) -> list[Difference]:
        found: list[Difference] = []
        written = {each.name: each for each in writer.fields}
        for index, each in enumerate(reader.fields):
            where = f"{path}/fields/{index}"
            source = _written_field(each, written)
            if source is not None:
                found += self.check(each.type, source.type, f"{where}/type")
            elif not each.has_default:
                found.append(_no_default(each, where))
        return found


def _written_field(field: Field, written: dict[str, Field]) -> Field | None:
    return next((written[name] for name in (field.name, *field.aliases) if name in written), None)


def _name_differs(reader: Named, writer: Named, path: str) -> list[Difference]:
    if reader.name == writer.name or writer.full_name in reader.aliases:
        return []
    return [
        Difference(
            "NAME_MISMATCH",
            f"{path}/name",
            reader.full_name,
            "The name of the schema has changed (path '{path}')",
            f"expected: {_shown(writer.full_name)}",
        )
    ]


def _symbols(reader: Enum, writer: Enum, path: str) -> list[Difference]:
    missing = [each for each in writer.symbols if each not in reader.symbols]
    if not missing or reader.default is not None:
        return []
    listed = ", ".join(missing)
    detail = (
        "The {reader} schema is missing enum symbols '"
        + f"[{listed}]"
        + "' at path '{path}' in the {writer} schema"
    )
    return [
        Difference(
            "MISSING_ENUM_SYMBOLS", f"{path}/symbols", reader.full_name, detail, f"[{listed}]"
        )
    ]


def _sizes(reader: Fixed, writer: Fixed, path: str) -> list[Difference]:
    if reader.size == writer.size:
        return []
    detail = "The size of FIXED type field at path '{path}' in the {reader} schema does not match with the {writer} schema"
    info = f"expected: {writer.size}, found: {reader.size}"
    return [Difference("FIXED_SIZE_MISMATCH", f"{path}/size", reader.full_name, detail, info)]


def _type_differs(reader: Node, writer: Node, path: str) -> Difference:
    kind = reader.type.upper()
    detail = (
        f"The type (path '{{path}}') of a field in the {{reader}} schema ({kind}) does not match with "
        f"the {{writer}} schema ({writer.type.upper()})"
    )
    info = f"reader type: {kind} not compatible with writer type: {writer.type.upper()}"
    return Difference("TYPE_MISMATCH", path or "/", reader.type, detail, info)


def _missing_branch(writer: Node, path: str) -> Difference:
    kind = writer.full_name if isinstance(writer, Named) else writer.type.upper()
    detail = "The {reader} schema is missing a type inside a union field at path '{path}' in the {writer} schema"
    info = f"reader union lacking writer type: {kind}"
    return Difference("MISSING_UNION_BRANCH", path or "/", kind, detail, info)


def _no_default(field: Field, path: str) -> Difference:
    detail = (
        f"The field '{field.name}' at path '{{path}}' in the {{reader}} schema has no default value "
        "and is missing in the {writer} schema"
    )
    return Difference("READER_FIELD_MISSING_DEFAULT_VALUE", path, field.name, detail, field.name)


def _shown(text: str) -> str:
    return text.replace("{", "").replace("}", "")
