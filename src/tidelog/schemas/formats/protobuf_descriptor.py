"""A FileDescriptorProto as the text of a `.proto` file: what confluent-kafka's Protobuf serializer registers.

Messages, enums, oneofs, maps and imports; options, extensions and services are left out.  Needs the package `protobuf`.
"""

from collections.abc import Iterator
from typing import Any

from tidelog.schemas.errors import InvalidSchema

_LABELS = {2: "required ", 3: "repeated "}
_TYPES = {
    1: "double",
    2: "float",
    3: "int64",
    4: "uint64",
    5: "int32",
    6: "fixed64",
    7: "fixed32",
    8: "bool",
    9: "string",
    12: "bytes",
    13: "uint32",
    15: "sfixed32",
    16: "sfixed64",
    17: "sint32",
    18: "sint64",
}


def text_of(data: bytes) -> str:
    """The file that the descriptor stands for."""
    try:
        from google.protobuf.descriptor_pb2 import FileDescriptorProto
        from google.protobuf.message import DecodeError
    except ImportError:
        raise InvalidSchema(
            "a Protobuf schema in binary needs the package protobuf at the registry; send it as text"
        ) from None
    file = FileDescriptorProto()
    try:
        file.ParseFromString(data)
    except DecodeError:
        raise InvalidSchema("neither a .proto file nor a FileDescriptorProto in Base64") from None
    return "\n".join(_file(file)) + "\n"


def _file(file: Any) -> Iterator[str]:
    yield f'syntax = "{file.syntax or "proto2"}";'
    if file.package:
        yield f"package {file.package};"
    for index, each in enumerate(file.dependency):
        yield f'import {"public " if index in file.public_dependency else ""}"{each}";'
    for each in file.enum_type:
        yield from _enum(each, "")
    for each in file.message_type:
        yield from _message(each, file.syntax == "proto3", "")


def _message(message: Any, is_proto3: bool, indent: str) -> Iterator[str]:
    yield f"{indent}message {message.name} {{"
    inner = indent + "  "
    entries = {each.name: each for each in message.nested_type if each.options.map_entry}
    for index, oneof in enumerate(message.oneof_decl):
        members = [
            each
            for each in message.field
            if each.HasField("oneof_index") and each.oneof_index == index
        ]
        if members and not members[0].proto3_optional:
            yield f"{inner}oneof {oneof.name} {{"
            for each in members:
                yield f"{inner}  {_type(each)} {each.name} = {each.number};"
            yield f"{inner}}}"
    for each in message.field:
        if not each.HasField("oneof_index") or each.proto3_optional:
            yield f"{inner}{_field(each, entries, is_proto3)} {each.name} = {each.number};"
    for each in message.enum_type:
        yield from _enum(each, inner)
    for each in message.nested_type:
        if not each.options.map_entry:
            yield from _message(each, is_proto3, inner)
    yield f"{indent}}}"


def _field(field: Any, entries: dict[str, Any], is_proto3: bool) -> str:
    entry = entries.get(field.type_name.rpartition(".")[2])
    if entry is not None and field.label == 3:
        return f"map<{_type(entry.field[0])}, {_type(entry.field[1])}>"
    optional = field.proto3_optional or (not is_proto3 and field.label == 1)
    return ("optional " if optional else _LABELS.get(field.label, "")) + _type(field)


def _type(field: Any) -> str:
    return _TYPES.get(field.type) or str(field.type_name)


def _enum(enum: Any, indent: str) -> Iterator[str]:
    yield f"{indent}enum {enum.name} {{"
    for each in enum.value:
        yield f"{indent}  {each.name} = {each.number};"
    yield f"{indent}}}"
