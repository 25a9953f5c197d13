"""Every message and version that kio knows too: it reads our bytes, finds our values, and writes them back alike.

kio has one class a version and turns some numbers into richer types; `_plain` turns them back.
"""

import dataclasses
import datetime
import enum
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kio.index import load_entity_schema
from kio.schema.index import schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from tidelog.protocol.codec import encode
from tidelog.protocol.messages import all_messages
from tidelog.protocol.schema import ZERO_UUID, Message, Struct, element_of, struct_of

# APIs of Kafka that we do not declare, and why.
OUT_OF_SCOPE = {
    "quorum among controllers: our metadata is in a metastore": {
        "add_raft_voter", "begin_quorum_epoch", "controller_registration",
        "end_quorum_epoch", "fetch_snapshot", "remove_raft_voter", "update_raft_voter", "vote",
    },
    "share groups": {
        "alter_share_group_offsets", "delete_share_group_offsets", "delete_share_group_state",
        "describe_share_group_offsets", "initialize_share_group_state", "read_share_group_state",
        "read_share_group_state_summary", "share_acknowledge", "share_fetch", "share_group_describe",
        "share_group_heartbeat", "write_share_group_state",
    },
    "streams groups": {"streams_group_describe", "streams_group_heartbeat"},
    "headers and records, not messages": {
        "control_record_type_schema", "end_txn_marker", "k_raft_version_record",
        "leader_change_message", "request_header", "response_header", "snapshot_footer_record",
        "snapshot_header_record", "voters_record",
    },
}  # fmt: skip

KINDS = {
    EntityType.request: "Request",
    EntityType.response: "Response",
    EntityType.data: "",
}
OURS = {cls.__name__: cls for cls in all_messages()}


def _shared() -> Iterator[tuple[str, str, EntityType, list[int]]]:
    for api, versions in schema_name_map.items():
        kinds = {kind for by_kind in versions.values() for kind in by_kind if kind in KINDS}
        for kind in sorted(kinds, key=str):
            name = api.title().replace("_", "") + KINDS[kind]
            if name in OURS:
                yield name, api, kind, sorted(v for v, by in versions.items() if kind in by)


SHARED = list(_shared())


def test_what_we_lack_is_lacking_on_purpose() -> None:
    shared = {api for _, api, _, _ in SHARED}
    assert set(schema_name_map) - shared == set().union(*OUT_OF_SCOPE.values())


@pytest.mark.parametrize(("name", "api", "kind", "versions"), SHARED, ids=[s[0] for s in SHARED])
def test_kio_agrees(
    name: str, api: str, kind: EntityType, versions: list[int], random_message: Callable[..., Any]
) -> None:
    ours = OURS[name]
    # kio starts at what a 4.x broker accepts (KIP-896); we start earlier, for older clients.
    assert ours.versions.first <= versions[0]
    assert ours.versions.last == versions[-1]
    for version in versions:
        assert version in ours.versions
        theirs = load_entity_schema(api, version, kind)
        assert theirs.__flexible__ == (version in ours.flexible)
        _compare_names(ours, theirs, version)
        for number in range(4):
            _compare_values(random_message(ours, version, number), theirs, version)
        _compare_values(ours(), theirs, version)


def _compare_names(ours: type[Struct], theirs: Any, version: int) -> None:
    carried = {n: s for n, s in ours.__fields__.items() if version in s.versions}
    fields = dataclasses.fields(theirs)
    assert [_their_name(n) for n in carried] == [_their_name(f.name) for f in fields]
    for spec, field in zip(carried.values(), fields, strict=True):
        assert field.metadata.get("tag") == spec.tag
        nested = struct_of(spec.hint) or struct_of(element_of(spec.hint))
        if nested is not None:
            assert nested.__name__.endswith(_nested_in(field.type).__name__)


def _compare_values(message: Message, theirs: Any, version: int) -> None:
    raw = bytes(encode(message, version))
    read, size = entity_reader(theirs)(raw, 0)
    assert size == len(raw)
    _compare(message, read, version)
    written = _Sink()
    entity_writer(theirs)(written, read)
    assert bytes(written) == raw


class _Sink(bytearray):
    def write(self, data: bytes) -> int:
        self.extend(data)
        return len(data)


def _compare(ours: Struct, theirs: Any, version: int) -> None:
    fields = dataclasses.fields(theirs)
    carried = [n for n, s in ours.__fields__.items() if version in s.versions]
    for name, field in zip(carried, fields, strict=True):
        value, their = getattr(ours, name), getattr(theirs, field.name)
        if isinstance(value, list):
            assert len(value) == len(their), name
            for item, their_item in zip(value, their, strict=True):
                if isinstance(item, Struct):
                    _compare(item, their_item, version)
                else:
                    assert item == _plain(item, their_item), name
        elif isinstance(value, Struct):
            _compare(value, their, version)
        else:
            assert value == _plain(value, their), name


def _plain(ours: Any, their: Any) -> Any:
    """Their value as the wire has it."""
    if their is None and isinstance(ours, uuid.UUID):
        return ZERO_UUID
    if their is None and isinstance(ours, int):
        return -1  # of a time
    if isinstance(their, enum.Enum):
        return their.value
    if isinstance(their, datetime.timedelta):
        return round(their / datetime.timedelta(milliseconds=1))
    if isinstance(their, datetime.datetime):
        return round(their.timestamp() * 1000)
    return their


def _their_name(name: str) -> str:
    """kio drops the unit from times that it turns into timedeltas, and spells numbers in its own way."""
    return name.removesuffix("_ms").replace("_", "")


def _nested_in(hint: Any) -> Any:
    if dataclasses.is_dataclass(hint):
        return hint
    for arg in getattr(hint, "__args__", ()):
        found = _nested_in(arg)
        if found is not None:
            return found
    return None
