"""Protobuf for the registry: `.proto` files, parsed by `proto-schema-parser`.

Compared by field number, as the wire does.  Refused: a message or a field of a oneof that is gone, a field whose type
changed to one that is not alike on the wire, a `required` field more or less, fields moved together into a oneof, another
package.  A field more or less is compatible in both directions.

A schema may come as Base64 of a FileDescriptorProto, as confluent-kafka's serializer sends it; that is turned into a
text.  Absent: names are not resolved across imports (a type of another file is compared by name), extensions, services
and options are not compared, groups are not read, and comments stay in the canonical text.
"""

import base64
import binascii
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Any

from antlr4.error.ErrorListener import ErrorListener
from proto_schema_parser import ast
from proto_schema_parser.generator import Generator
from proto_schema_parser.parser import Parser

from tidelog.dataclass import dataclass
from tidelog.schemas.errors import InvalidSchema

_ALIKE = (
    frozenset(("int32", "uint32", "int64", "uint64", "bool")),
    frozenset(("sint32", "sint64")),
    frozenset(("string", "bytes")),
    frozenset(("fixed32", "sfixed32")),
    frozenset(("fixed64", "sfixed64")),
)
"""Scalars that have one encoding (protobuf.dev, "Updating A Message Type")."""
_WELL_KNOWN = "google/"


@dataclass(slots=True)
class _Field:
    name: str
    type: str
    label: str
    oneof: str | None


@dataclass(slots=True)
class _Message:
    fields: dict[int, _Field] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ProtobufSchema:
    """A parsed file."""

    file: ast.File
    text: str

    @property
    def canonical(self) -> str:
        return self.text

    @property
    def normalized(self) -> str:
        return str(Generator().generate(_without_comments(self.file)))

    def cannot_read(self, writer: "ProtobufSchema", names: tuple[str, str]) -> list[str]:
        reader, _ = names
        return [
            f'{{errorType:"{kind}", description:"The {reader} schema {reason} (path {path})"}}'
            for kind, path, reason in _differences(self.file, writer.file)
        ]


def parse(text: str, references: Sequence[tuple[str, str]] = ()) -> ProtobufSchema:
    """The file; every import must be a reference, or one of Protobuf's own."""
    if not text.strip():
        raise InvalidSchema("the schema is empty")
    text = _from_descriptor(text)
    file = _parse(text)
    known = {name for name, _ in references}
    for each in file.file_elements:
        if isinstance(each, ast.Import):
            name = each.name.strip("\"'")
            if name not in known and not name.startswith(_WELL_KNOWN):
                raise InvalidSchema(f"import {name!r} is not among the references")
    _check_numbers(file)
    return ProtobufSchema(file, text)


def _parse(text: str) -> ast.File:
    listener = _Refusing()

    def strict(recognizer: object) -> None:
        recognizer.removeErrorListeners()  # type: ignore[attr-defined]
        recognizer.addErrorListener(listener)  # type: ignore[attr-defined]

    try:
        return Parser(setup_lexer=strict, setup_parser=strict).parse(text)
    except InvalidSchema:
        raise
    except (ValueError, TypeError, AttributeError, KeyError, IndexError) as error:
        raise InvalidSchema(f"not a .proto file: {error}") from None


class _Refusing(ErrorListener):  # type: ignore[misc]
    def syntaxError(
        self,
        recognizer: object,
        symbol: object,
        line: int,
        column: int,
        message: str,
        error: object,
    ) -> None:
        short = message if len(message) <= 120 else message[:117] + "..."
        raise InvalidSchema(f"line {line}, column {column + 1}: {short}")


def _check_numbers(file: ast.File) -> None:
    for name, elements in _messages(file.file_elements, ""):
        seen: dict[int, str] = {}
        for each, _ in _fields(elements):
            if each.number in seen:
                raise InvalidSchema(
                    f"message {name}: fields {seen[each.number]!r} and {each.name!r} have the number {each.number}"
                )
            if not 1 <= each.number < 2**29:
                raise InvalidSchema(f"message {name}: {each.number} is no field number")
            seen[each.number] = each.name


def _messages(elements: Sequence[object], prefix: str) -> Iterator[tuple[str, Sequence[object]]]:
    for each in elements:
        if isinstance(each, ast.Message):
            name = f"{prefix}{each.name}"
            yield name, each.elements
            yield from _messages(each.elements, f"{name}.")


def _fields(
    elements: Sequence[object],
) -> Iterator[tuple["ast.Field | ast.MapField", str | None]]:
    for each in elements:
        if isinstance(each, ast.Field | ast.MapField):
            yield each, None
        elif isinstance(each, ast.OneOf):
            for inner in each.elements:
                if isinstance(inner, ast.Field):
                    yield inner, each.name


def _model(file: ast.File) -> dict[str, _Message]:
    found: dict[str, _Message] = {}
    for name, elements in _messages(file.file_elements, ""):
        message = found[name] = _Message()
        for each, oneof in _fields(elements):
            if isinstance(each, ast.MapField):
                type, label = f"map<{each.key_type},{each.value_type}>", "REPEATED"
            else:
                type = each.type
                label = each.cardinality.value if each.cardinality else ""
            message.fields[each.number] = _Field(each.name, type, label, oneof)
    return found


def _package(file: ast.File) -> str:
    return next((each.name for each in file.file_elements if isinstance(each, ast.Package)), "")


def _differences(reader: ast.File, writer: ast.File) -> Iterator[tuple[str, str, str]]:
    if _package(reader) != _package(writer):
        yield "PACKAGE_CHANGED", "#/", f"is in package '{_package(reader)}'"
    ours, theirs = _model(reader), _model(writer)
    for name, message in theirs.items():
        if name not in ours:
            yield "MESSAGE_REMOVED", f"#/{name}", "has no such message"
            continue
        yield from _in_message(name, ours[name], message)


def _in_message(name: str, ours: _Message, theirs: _Message) -> Iterator[tuple[str, str, str]]:
    for number in sorted(ours.fields.keys() | theirs.fields.keys()):
        our, their = ours.fields.get(number), theirs.fields.get(number)
        path = f"#/{name}/{number}"
        if our is None and their is not None:
            if their.oneof is not None:
                yield "ONEOF_FIELD_REMOVED", path, f"lacks {their.name} of oneof {their.oneof}"
            elif their.label == "REQUIRED":
                yield "REQUIRED_FIELD_REMOVED", path, f"lacks the required {their.name}"
        elif their is None and our is not None:
            if our.label == "REQUIRED":
                yield "REQUIRED_FIELD_ADDED", path, f"requires {our.name}"
        elif our is not None and their is not None:
            yield from _in_field(path, our, their)
    moved = [
        each.name
        for number, each in ours.fields.items()
        if each.oneof is not None
        and number in theirs.fields
        and theirs.fields[number].oneof is None
    ]
    if len(moved) > 1:
        yield "MULTIPLE_FIELDS_MOVED_TO_ONEOF", f"#/{name}", f"has {', '.join(moved)} in a oneof"


def _in_field(path: str, our: _Field, their: _Field) -> Iterator[tuple[str, str, str]]:
    if our.type != their.type and not any(
        our.type in alike and their.type in alike for alike in _ALIKE
    ):
        kind = "FIELD_SCALAR_KIND_CHANGED" if _scalar(our.type) else "FIELD_NAMED_TYPE_CHANGED"
        yield kind, path, f"has {our.type} for {our.name}, not {their.type}"
    elif (our.label == "REPEATED") != (their.label == "REPEATED") and our.type not in (
        "string",
        "bytes",
    ):
        yield "FIELD_NUMERIC_LABEL_CHANGED", path, f"has {our.label or 'no label'} for {our.name}"
    if "REQUIRED" in (our.label, their.label) and our.label != their.label:
        kind = "REQUIRED_FIELD_ADDED" if our.label == "REQUIRED" else "REQUIRED_FIELD_REMOVED"
        yield kind, path, f"changed whether {our.name} is required"


def _scalar(type: str) -> bool:
    return type in ("float", "double") or any(type in alike for alike in _ALIKE)


def _without_comments(file: ast.File) -> ast.File:
    def strip(elements: list[Any]) -> list[Any]:
        kept = [each for each in elements if not isinstance(each, ast.Comment)]
        for each in kept:
            if hasattr(each, "elements"):
                each.elements = strip(each.elements)
        return kept

    # Parsed anew, because the tree is changed in place.
    fresh = _parse(Generator().generate(file))
    fresh.file_elements = strip(fresh.file_elements)
    return fresh


def _from_descriptor(text: str) -> str:
    """The text as it is, unless it is a descriptor in Base64."""
    try:
        data = base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        return text
    from tidelog.schemas.formats.protobuf_descriptor import text_of

    return text_of(data)
