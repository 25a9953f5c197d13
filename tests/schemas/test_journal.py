"""The records of `_schemas`: Confluent's format to the byte, and a state that survives compaction."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.schemas.journal import (
    ClearSubjectKey,
    ConfigKey,
    DeleteSubjectKey,
    Entry,
    ModeKey,
    NoopKey,
    SchemaKey,
    UnreadableRecord,
    decode,
    encode,
)
from tidelog.schemas.model import Reference, Registered, Schema, SchemaId
from tidelog.schemas.state import State

# As Confluent's registry writes them (SchemaKey.java and its kin: the keys' order is fixed there).
GOLDEN: list[tuple[Entry, bytes, bytes | None]] = [
    (
        (ConfigKey(None), {"compatibilityLevel": "FULL"}),
        b'{"keytype":"CONFIG","magic":0}',
        b'{"compatibilityLevel":"FULL"}',
    ),
    (
        (ConfigKey("s"), {"compatibilityLevel": "NONE"}),
        b'{"keytype":"CONFIG","subject":"s","magic":0}',
        b'{"subject":"s","compatibilityLevel":"NONE"}',
    ),
    (
        (ModeKey("s"), "READONLY"),
        b'{"keytype":"MODE","subject":"s","magic":0}',
        b'{"subject":"s","mode":"READONLY"}',
    ),
    ((ModeKey(None), None), b'{"keytype":"MODE","magic":0}', None),
    (
        (DeleteSubjectKey("s"), 3),
        b'{"keytype":"DELETE_SUBJECT","subject":"s","magic":0}',
        b'{"subject":"s","version":3}',
    ),
    (
        (ClearSubjectKey("s"), ""),
        b'{"keytype":"CLEAR_SUBJECT","subject":"s","magic":0}',
        b'{"subject":"s"}',
    ),
    ((NoopKey(), 7), b'{"keytype":"NOOP","magic":0}', b'{"maxId":7}'),
    ((SchemaKey("s", 2), None), b'{"keytype":"SCHEMA","subject":"s","version":2,"magic":1}', None),
]


@pytest.mark.parametrize(("entry", "key", "value"), GOLDEN)
def test_records(entry: Entry, key: bytes, value: bytes | None) -> None:
    assert encode(entry) == (key, value)
    assert decode(key, value) == entry


def test_a_schema() -> None:
    schema = Schema('"int"', "AVRO", (Reference("n", "r", 1),), '{"a":1}')
    entry = (SchemaKey("s", 1), Registered("s", 1, SchemaId(5), schema, True))
    key, value = encode(entry)
    assert key == b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}'
    assert value is not None
    told = json.loads(value)
    assert told.pop("md5")
    assert told == {
        "subject": "s",
        "version": 1,
        "id": 5,
        "references": [{"name": "n", "subject": "r", "version": 1}],
        "metadata": {"a": 1},
        "schema": '"int"',
        "deleted": True,
    }
    assert decode(key, value) == entry


def test_what_older_and_newer_registries_wrote() -> None:
    # Before 5.5 there was no type; magic 0 was the first; newer ones add fields.
    key = b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":0}'
    value = b'{"subject":"s","version":1,"id":1,"schema":"\\"int\\"","deleted":false,"ts":5}'
    assert decode(key, value) == (
        SchemaKey("s", 1),
        Registered("s", 1, SchemaId(1), Schema('"int"')),
    )
    assert decode(b'{"keytype":"NOOP","magic":0}', None) == (NoopKey(), None)
    assert decode(b'{"keytype":"CONTEXT","tenant":"d","context":".x","magic":0}', b"{}") is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, None),
        (b"", b"{}"),
        (b"[]", None),
        (b"{}", None),
        (b"\xff", b"\xff"),
        (b'{"keytype":"SCHEMA"}', None),
        (b'{"keytype":"SCHEMA","subject":"s","version":1}', b"[]"),
        (b'{"keytype":"SCHEMA","subject":"s","version":1}', b'{"id":"x"}'),
        (b'{"keytype":"MODE"}', b"5"),
    ],
)
def test_records_that_nobody_wrote(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(UnreadableRecord):
        decode(key, value)


def compacted(records: list[tuple[bytes, bytes | None]]) -> list[tuple[bytes, bytes | None]]:
    """What the cleaner leaves in the end: the last record of each key, and no tombstones."""
    last = {key: index for index, (key, _) in enumerate(records)}
    return [
        record
        for index, record in enumerate(records)
        if last[record[0]] == index and record[1] is not None
    ]


def replayed(records: list[tuple[bytes, bytes | None]]) -> State:
    state = State()
    for record in records:
        entry = decode(*record)
        assert entry is not None
        state.replay(entry)
    return state


def picture(state: State) -> Any:
    """All that can be asked of a state."""
    subjects = state.subjects(deleted=True)
    return {
        "versions": {name: state.versions(name, deleted=True) for name in subjects},
        "configs": {name: state.config(name) for name in [None, *"abc"]},
        "modes": {name: state.mode(name) for name in [None, *"abc"]},
        "ids": {id: state.places(id, deleted=True) for id in range(1, state.max_id + 1)},
        "max_id": state.max_id,
    }


TEXTS = ['"int"', '"long"', '"string"', '{"type":"array","items":"int"}']
_subjects = st.sampled_from("abc")
_calls = st.lists(
    st.one_of(
        st.tuples(st.just("POST"), _subjects.map("/subjects/{}/versions".format), st.sampled_from(TEXTS)),
        st.tuples(st.just("DELETE"), st.builds("/subjects/{}{}".format, _subjects, st.sampled_from(["", "?permanent=true"])), st.none()),
        st.tuples(
            st.just("DELETE"),
            st.builds("/subjects/{}/versions/{}{}".format, _subjects, st.integers(1, 4), st.sampled_from(["", "?permanent=true"])),
            st.none(),
        ),
        st.tuples(st.just("PUT"), _subjects.map("/config/{}".format), st.sampled_from(["NONE", "FULL"])),
        st.tuples(st.sampled_from(["PUT", "DELETE"]), st.builds("/mode/{}".format, _subjects), st.sampled_from(["IMPORT", "READWRITE"])),
        st.tuples(st.just("DELETE"), _subjects.map("/config/{}".format), st.none()),
    ),
    max_size=30,
)  # fmt: skip


@given(_calls)
def test_compaction_loses_nothing(new_api: Any, calls: list[tuple[str, str, str | None]]) -> None:
    api = new_api()
    api("PUT", "/config", {"compatibility": "NONE"})
    owners: dict[int, str] = {}
    for method, path, argument in calls:
        key = {"POST": "schema", "PUT": "mode" if "mode" in path else "compatibility"}.get(method)
        answer = api(method, path, {key: argument} if key else None)
        if method == "POST" and answer[0] == 200:
            assert argument is not None
            assert owners.setdefault(answer[1]["id"], argument) == argument, "an id was given twice"
    records = api.registry.records
    wanted = picture(api.registry.state)
    assert picture(replayed(records)) == wanted
    assert picture(replayed(compacted(records))) == wanted
    # Compaction may also have got only so far.
    for cut in range(0, len(records), 3):
        assert picture(replayed(compacted(records[:cut]) + records[cut:])) == wanted
