"""Protobuf: files that are taken and refused, and what may change."""

import base64

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from tidelog.schemas.errors import InvalidSchema
from tidelog.schemas.formats.protobuf import parse


def proto(body: str, head: str = "package p;") -> str:
    return f'syntax = "proto3"; {head} message M {{ {body} }}'


def kinds(reader: str, writer: str) -> list[str]:
    found = parse(reader).cannot_read(parse(writer), ("new", "old"))
    return [each.partition('"')[2].partition('"')[0] for each in found]


@pytest.mark.parametrize(
    ("reader", "writer"),
    [
        ("int32 a = 1; string b = 2;", "int32 a = 1;"),
        ("int32 a = 1;", "int32 a = 1; string b = 2;"),
        ("int64 a = 1;", "int32 a = 1;"),
        ("bytes a = 1;", "string a = 1;"),
        ("int32 renamed = 1;", "int32 a = 1;"),
        ("oneof k { int32 a = 1; }", "int32 a = 1;"),
        ("repeated string a = 1;", "string a = 1;"),
        ("map<string, int32> a = 1;", "map<string, int32> a = 1;"),
    ],
)
def test_what_may_change(reader: str, writer: str) -> None:
    assert kinds(proto(reader), proto(writer)) == []


@pytest.mark.parametrize(
    ("reader", "writer", "why"),
    [
        ("string a = 1;", "int32 a = 1;", "FIELD_SCALAR_KIND_CHANGED"),
        ("sint32 a = 1;", "int32 a = 1;", "FIELD_SCALAR_KIND_CHANGED"),
        ("Other a = 1; message Other {}", "int32 a = 1; message Other {}", "FIELD_NAMED_TYPE_CHANGED"),
        ("repeated int32 a = 1;", "int32 a = 1;", "FIELD_NUMERIC_LABEL_CHANGED"),
        ("", "message Inner {}", "MESSAGE_REMOVED"),
        ("oneof k { int32 a = 1; }", "oneof k { int32 a = 1; int32 b = 2; }", "ONEOF_FIELD_REMOVED"),
        ("oneof k { int32 a = 1; int32 b = 2; }", "int32 a = 1; int32 b = 2;", "MULTIPLE_FIELDS_MOVED_TO_ONEOF"),
    ],
)  # fmt: skip
def test_what_may_not(reader: str, writer: str, why: str) -> None:
    assert why in kinds(proto(reader), proto(writer))


def test_required_fields_and_packages() -> None:
    def old(body: str) -> str:
        return f'syntax = "proto2"; message M {{ {body} }}'

    assert kinds(old("required int32 a = 1;"), old("")) == ["REQUIRED_FIELD_ADDED"]
    assert kinds(old(""), old("required int32 a = 1;")) == ["REQUIRED_FIELD_REMOVED"]
    assert kinds(old("optional int32 a = 1;"), old("required int32 a = 1;")) == [
        "REQUIRED_FIELD_REMOVED"
    ]
    assert kinds(proto("", "package a;"), proto("", "package b;")) == ["PACKAGE_CHANGED"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ("message {", "line 1, column 9"),
        ("{}", "line 1"),
        ('syntax = "proto3"; import "x.proto";', "'x.proto' is not among the references"),
        (proto("int32 a = 1; int32 b = 1;"), "have the number 1"),
        (proto("int32 a = 0;"), "no field number"),
        (base64.b64encode(b"\xff\xff").decode(), "FileDescriptorProto"),
    ],
)
def test_what_is_refused(text: str, words: str) -> None:
    with pytest.raises(InvalidSchema) as refused:
        parse(text)
    assert words in str(refused.value)


def test_imports_are_references() -> None:
    text = 'syntax = "proto3"; import "a.proto"; import "google/protobuf/timestamp.proto"; message M { A a = 1; }'
    assert parse(text, [("a.proto", 'syntax = "proto3"; message A {}')]).canonical == text


def test_normalised_has_no_comments() -> None:
    assert parse(proto("// why\n int32 a = 1;")).normalized == parse(proto("int32 a=1;")).normalized


def test_a_descriptor() -> None:
    file = FileDescriptorProto(name="m.proto", package="p", syntax="proto3")
    message = file.message_type.add(name="M")
    message.field.add(name="a", number=1, type=5, label=1)
    message.field.add(name="b", number=2, type=9, label=3)
    entry = message.nested_type.add(name="MEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=9, label=1)
    entry.field.add(name="value", number=2, type=3, label=1)
    message.field.add(name="m", number=3, type=11, label=3, type_name=".p.M.MEntry")
    message.oneof_decl.add(name="k")
    message.field.add(name="c", number=4, type=8, label=1, oneof_index=0)
    message.enum_type.add(name="E").value.add(name="ZERO", number=0)
    message.field.add(name="e", number=5, type=14, label=1, type_name=".p.M.E")
    sent = base64.b64encode(file.SerializeToString()).decode()
    text = proto(
        "oneof k { bool c = 4; } int32 a = 1; repeated string b = 2; map<string, int64> m = 3; .p.M.E e = 5; enum E { ZERO = 0; }"
    )
    assert parse(sent).normalized == parse(text).normalized
