"""Every message that kafka-python 3 knows too: names, types, versions, defaults and bytes agree."""

import importlib
import pkgutil
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import kafka.protocol
import pytest
from kafka.protocol.api_data import ApiData
from kafka.protocol.api_header import RequestHeader as TheirRequestHeader
from kafka.protocol.api_header import ResponseHeader as TheirResponseHeader
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.schemas import load_json

from tidelog.protocol.codec import decode, encode
from tidelog.protocol.headers import encode_request_header, response_header
from tidelog.protocol.messages import all_messages
from tidelog.protocol.schema import (
    ZERO_UUID,
    Field,
    Request,
    Struct,
    Versions,
    element_of,
    struct_of,
    wire_of,
)

# What we declare beyond the range that kafka-python's schemas call valid.  They describe a 4.x broker, which has
# dropped the oldest versions (KIP-896); the fields of those are still there, and clients of 2.x still speak them.
OLDER_THAN_THEIRS = {
    "AlterReplicaLogDirs": 0,
    "CreateAcls": 0,
    "CreateTopics": 0,
    "DeleteAcls": 0,
    "DeleteTopics": 0,
    "DescribeAcls": 0,
    "DescribeConfigs": 0,
    "DescribeLogDirs": 0,
    "Fetch": 0,
    "ListOffsets": 0,
    "OffsetCommit": 0,
    "OffsetFetch": 0,
    "OffsetForLeaderEpoch": 0,
    "Produce": 0,
    "WriteTxnMarkers": 0,
}


def _theirs() -> dict[str, Any]:
    for info in pkgutil.walk_packages(kafka.protocol.__path__, "kafka.protocol."):
        if ".old" not in info.name and "generate" not in info.name:
            importlib.import_module(info.name)

    def below(cls: type) -> Iterator[type]:
        for sub in cls.__subclasses__():
            yield sub
            yield from below(sub)

    return {
        cls.__name__: cls
        for root in (ApiMessage, ApiData)
        for cls in below(root)
        if getattr(cls, "_class_version", None) is None
    }


# Where kafka-python changes Kafka's schemas to suit itself: we keep Kafka's names, types and defaults.
PATCHED_NAMES = {
    "cluster_authorized_operations": "authorized_operations",
    "topic_authorized_operations": "authorized_operations",
}
PATCHED_DEFAULTS = {
    "ListOffsetsRequest.replica_id": "theirs is -1, a consumer; Kafka's schema has none",
    "DescribeClusterResponse.cluster_authorized_operations": "theirs is a set of bits",
    "MetadataResponse.cluster_authorized_operations": "theirs is a set of bits",
}
NOT_KAFKAS = {"StickyAssignorUserData"}  # a client's own, opaque to brokers

THEIRS = _theirs()
OURS = {cls.__name__: cls for cls in all_messages()}
SHARED = sorted(OURS.keys() & THEIRS.keys())


def test_we_know_every_message_they_know() -> None:
    assert THEIRS.keys() - OURS.keys() == NOT_KAFKAS


@pytest.mark.parametrize("name", SHARED)
def test_key_and_versions(name: str) -> None:
    ours, theirs = OURS[name], THEIRS[name]
    valid = Versions(*theirs.valid_versions)
    older = OLDER_THAN_THEIRS.get(name.removesuffix("Request").removesuffix("Response"))
    assert ours.versions == Versions(valid.first if older is None else older, valid.last)
    for version in range(ours.versions.first, ours.versions.last + 1):
        assert (version in ours.flexible) == theirs.flexible_version_q(version)
    if hasattr(theirs, "API_KEY"):
        assert ours.api_key == theirs.API_KEY


@pytest.mark.parametrize("name", SHARED)
def test_fields(name: str) -> None:
    json = load_json(name)  # without their patches
    common = {struct["name"]: struct["fields"] for struct in json.get("commonStructs", ())}
    _compare_fields(OURS[name], json["fields"], common, name)


@pytest.mark.parametrize("name", SHARED)
def test_bytes(name: str, random_message: Callable[..., Any]) -> None:
    ours, theirs = OURS[name], THEIRS[name]
    for version in range(ours.versions.first, ours.versions.last + 1):
        for number in range(8):
            message = random_message(ours, version, number)
            raw = bytes(encode(message, version))
            twin = _twin(message, theirs, version)
            headless = {"header": False} if issubclass(theirs, ApiData) else {}
            assert raw == bytes(twin.encode(version=version, **headless)), (version, number)
            assert decode(ours, raw, 0, version) == (message, len(raw))


@pytest.mark.parametrize("name", SHARED)
def test_defaults(name: str) -> None:
    defaults = OURS[name]()
    for field, spec in OURS[name].__fields__.items():
        their = THEIRS[name].fields.get(field) or THEIRS[name].fields[PATCHED_NAMES[field]]
        if their.is_struct() or their.is_struct_array() or f"{name}.{field}" in PATCHED_DEFAULTS:
            continue
        assert getattr(defaults, field) == _their_default(their.default, spec), field


@pytest.mark.parametrize("client_id", ["", "kcat", None])
@pytest.mark.parametrize("name", sorted(n for n, c in OURS.items() if issubclass(c, Request)))
def test_headers(name: str, client_id: str | None) -> None:
    ours = OURS[name]
    for version in range(ours.versions.first, ours.versions.last + 1):
        flexible = version in ours.flexible
        theirs = TheirRequestHeader(
            request_api_key=ours.api_key,
            request_api_version=version,
            correlation_id=77,
            client_id=client_id,
        )
        out = bytearray()
        encode_request_header(out, ours, version, 77, client_id)
        assert bytes(out) == bytes(theirs.encode(flexible=flexible))
        answer = TheirResponseHeader(correlation_id=77)
        has_tags = flexible and name != "ApiVersionsRequest"
        assert response_header(ours.api_key, version, 77) == bytes(answer.encode(flexible=has_tags))


def _compare_fields(
    ours: type[Struct], theirs: list[dict[str, Any]], common: dict[str, Any], where: str
) -> None:
    assert len(ours.__fields__) == len(theirs), where
    for (name, spec), their in zip(ours.__fields__.items(), theirs, strict=True):
        at = f"{where}.{name}"
        assert name.replace("_", "") == their["name"].lower(), at
        assert spec.versions == Versions.parse(their["versions"]), at
        assert spec.tag == their.get("tag"), at
        nullable = Versions.parse(their.get("nullableVersions", "none"))
        in_both = range(max(spec.versions.first, 0), min(spec.versions.last, 40) + 1)
        assert [v in spec.nullable for v in in_both] == [v in nullable for v in in_both], at
        _compare_types(spec.hint, their["type"], their, common, at)


def _compare_types(hint: Any, type_: str, their: Any, common: dict[str, Any], at: str) -> None:
    element, struct, wire = element_of(hint), struct_of(hint), wire_of(hint)
    if element is not None:
        assert type_.startswith("[]"), at
        _compare_types(element, type_[2:], their, common, at)
    elif struct is not None:
        assert struct.__name__.endswith(type_), at
        _compare_fields(struct, their.get("fields") or common[type_], common, at)
    else:
        assert wire is not None
        assert wire.name == type_, at


def _twin(message: Struct, theirs: Any, version: int) -> Any:
    """Their object with our values; tagged fields only where they are not the default, as Kafka sends them."""
    values = {}
    for name, spec in type(message).__fields__.items():
        value = getattr(message, name)
        if version not in spec.versions or (spec.tag is not None and value == spec.make_default()):
            continue
        name = name if name in theirs.fields else PATCHED_NAMES[name]
        their = theirs.fields[name]
        if their.type_str == "bitfield":
            value = {bit for bit in range(32) if value >> bit & 1}
        elif struct_of(spec.hint) and value is not None:
            value = _twin(value, their.data_class, version)
        elif struct_of(element_of(spec.hint)) and value is not None:
            value = [_twin(item, their.data_class, version) for item in value]
        values[name] = value
    return theirs(version=version, **values)


def _their_default(default: Any, spec: Field) -> Any:
    if wire_of(spec.hint) and wire_of(spec.hint).name == "uuid":
        return ZERO_UUID if default in (None, 0) else uuid.UUID(str(default))
    return default
