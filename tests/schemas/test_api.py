"""The REST API, call by call: what it answers, and with which code it refuses."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

INT, LONG, STRING = '"int"', '"long"', '"string"'


def record(*fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": list(fields)}


A = record({"name": "a", "type": "int"})
AB = record({"name": "a", "type": "int"}, {"name": "b", "type": "int", "default": 0})
AC = record({"name": "a", "type": "int"}, {"name": "c", "type": "int"})


def error(answer: tuple[int, Any]) -> tuple[int, int]:
    status, body = answer
    assert set(body) == {"error_code", "message"}
    assert body["message"]
    return status, body["error_code"]


def text(schema: Any) -> str:
    return json.dumps(schema, separators=(",", ":"))


# Registering and finding.


def test_register_gives_ids_in_turn_and_the_same_for_the_same(api):
    assert api.register("s", A) == (200, {"id": 1})
    assert api.register("s", AB) == (200, {"id": 2})
    assert api.register("s", A) == (200, {"id": 1})
    assert api.register("other", AB) == (200, {"id": 2})
    assert api("GET", "/subjects/s/versions") == (200, [1, 2])
    assert api("GET", "/subjects") == (200, ["other", "s"])


def test_a_version_has_the_fields_it_should_and_no_more(api):
    api.register("s", A)
    assert api("GET", "/subjects/s/versions/1") == (
        200,
        {"subject": "s", "version": 1, "id": 1, "schema": text(A)},
    )
    assert api("GET", "/subjects/s/versions/latest") == api("GET", "/subjects/s/versions/1")
    assert api("GET", "/subjects/s/versions/-1") == api("GET", "/subjects/s/versions/1")
    assert api("GET", "/schemas/ids/1") == (200, {"schema": text(A)})
    assert api("GET", "/schemas/ids/1?fetchMaxId=true") == (200, {"schema": text(A), "maxId": 1})
    assert api("GET", "/schemas/ids/1/schema") == (200, A)
    assert api("GET", "/subjects/s/versions/1/schema") == (200, A)
    assert api("GET", "/schemas/ids/1/subjects") == (200, ["s"])
    assert api("GET", "/schemas/ids/1/versions") == (200, [{"subject": "s", "version": 1}])
    assert api("GET", "/schemas/types") == (200, ["JSON", "PROTOBUF", "AVRO"])
    assert api("GET", "/") == (200, {})
    assert api("GET", "/contexts") == (200, ["."])


def test_other_types_say_so(api):
    api.register("j", '{"type": "object"}', schemaType="JSON")
    api.register("p", 'syntax = "proto3"; message M { int32 a = 1; }', schemaType="PROTOBUF")
    assert api("GET", "/schemas/ids/1")[1]["schemaType"] == "JSON"
    assert api("GET", "/subjects/p/versions/1")[1]["schemaType"] == "PROTOBUF"
    assert [each["subject"] for each in api("GET", "/schemas")[1]] == ["j", "p"]


def test_look_up(api):
    api.register("s", A)
    pretty = json.dumps(A, indent=2)
    assert api("POST", "/subjects/s", {"schema": pretty}) == api("GET", "/subjects/s/versions/1")
    assert error(api("POST", "/subjects/none", {"schema": INT})) == (404, 40401)
    assert error(api("POST", "/subjects/s", {"schema": INT})) == (404, 40403)
    assert error(api("POST", "/subjects/s", {"schema": "nonsense"})) == (422, 42201)


def test_subjects_may_have_any_name(api):
    for name, path in (("a/b", "a%2Fb"), ("ü ?", "%C3%BC%20%3F"), ("a:b", "a:b")):
        assert api.register(path, INT)[0] == 200
        assert name in api("GET", "/subjects")[1]
        assert api("GET", f"/subjects/{path}/versions") == (200, [1])
    assert api("GET", "/subjects?subjectPrefix=a") == (200, ["a/b", "a:b"])
    assert api("GET", "/subjects?subjectPrefix=:*:")[1] == api("GET", "/subjects")[1]
    assert api("GET", "/subjects/:.:a%2Fb/versions") == (200, [1]), "the default context"


@pytest.mark.parametrize("path", ["%00", "a%0Ab", ":.ctx:s", "__GLOBAL", "%ED%A0%80%00"])
def test_names_that_are_none(api, path):
    assert error(api.register(path, INT)) == (422, 42208)


def test_metadata_and_rules_are_kept(api):
    extra = {"metadata": {"properties": {"owner": "x"}}, "ruleSet": {"domainRules": []}}
    api.register("s", A, **extra)
    found = api("GET", "/subjects/s/versions/1")[1]
    assert (found["metadata"], found["ruleSet"]) == (extra["metadata"], extra["ruleSet"])
    assert api.register("s", A, **{**extra, "metadata": {}}) == (200, {"id": 2})


def test_normalize(api):
    one, other = ('{"type":"int","b":1,"a":2}', '{"type":"int","a":2,"b":1}')
    assert api("POST", "/subjects/s/versions?normalize=true", {"schema": one})[1] == {"id": 1}
    assert api("POST", "/subjects/s/versions?normalize=true", {"schema": other})[1] == {"id": 1}
    assert api.register("plain", one)[1] != api.register("plain", other)[1]
    api("PUT", "/config/set", {"normalize": True})
    assert api.register("set", one) == api.register("set", other) == (200, {"id": 1})


# What is refused.


def test_what_is_not_there(api):
    api.register("s", A)
    assert error(api("GET", "/subjects/none/versions")) == (404, 40401)
    assert error(api("GET", "/subjects/none/versions/1")) == (404, 40401)
    assert error(api("GET", "/subjects/s/versions/2")) == (404, 40402)
    assert error(api("GET", "/schemas/ids/9")) == (404, 40403)
    assert error(api("GET", "/schemas/ids/9/subjects")) == (404, 40403)
    assert error(api("GET", "/config/s")) == (404, 40408)
    assert error(api("GET", "/mode/s")) == (404, 40409)
    assert error(api("GET", "/nothing")) == (404, 404)
    assert error(api("GET", "/schemas/ids/x")) == (404, 404)
    assert error(api("PATCH", "/subjects")) == (405, 405)


@pytest.mark.parametrize("version", ["0", "-2", "x", "1.5", "2147483648", "99999999999999", "١"])
def test_versions_that_are_none(api, version):
    from urllib.parse import quote

    api.register("s", A)
    assert error(api("GET", f"/subjects/s/versions/{quote(version)}")) == (422, 42202)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, 42201),
        ({"schema": None}, 42201),
        ({"schema": ""}, 42201),
        ({"schema": 5}, 42201),
        ({"schema": {"type": "int"}}, 42201),
        ({"schema": "{"}, 42201),
        ({"schema": INT, "schemaType": "XML"}, 42201),
        ({"schema": INT, "schemaType": ["AVRO"]}, 42201),
        ({"schema": "[]", "schemaType": "JSON"}, 42201),
        ({"schema": "message {", "schemaType": "PROTOBUF"}, 42201),
        ({"schema": INT, "references": 5}, 422),
        ({"schema": INT, "references": [{}]}, 422),
        ({"schema": INT, "references": [{"name": "x", "subject": "none", "version": 1}]}, 42201),
        ({"schema": INT, "version": "x"}, 422),
        ({"schema": INT, "id": 2**40}, 422),
        ({"schema": INT, "id": 5}, 42205),
        ({"schema": INT, "version": 5}, 42201),
        ([], 422),
        ("x", 422),
    ],
)
def test_bodies_that_cannot_be_used(api, body, code):
    assert error(api("POST", "/subjects/s/versions", body)) == (422, code)
    assert api.registry.records == []


def test_bodies_that_are_no_json(api):
    for body in (b"", b"{", b"\xff\xfe", b"[" * 100_000):
        status, answer = api.raw("POST", "/subjects/s/versions", body)
        assert (status, json.loads(answer)["error_code"]) == (422, 422)
    status, _ = api.raw("POST", "/subjects/s/versions", b" " * 9_000_000)
    assert status == 413


def test_content_types(api):
    api.raw("GET", "/subjects")
    assert api.headers[b"content-type"] == b"application/vnd.schemaregistry.v1+json"
    api.raw("GET", "/subjects", headers=[(b"accept", b"text/html, application/json;q=0.9")])
    assert api.headers[b"content-type"] == b"application/json"
    assert api.raw("HEAD", "/subjects") == (200, b"")


# Compatibility.


def test_an_incompatible_schema_is_refused(api):
    api.register("s", A)
    assert error(api.register("s", AC)) == (409, 409)
    assert api.register("s", AB)[0] == 200
    assert api("GET", "/subjects/s/versions") == (200, [1, 2])


@pytest.mark.parametrize(
    ("level", "allowed"),
    [("NONE", [AC, INT]), ("BACKWARD", [AB]), ("FORWARD", [AB, AC]), ("FULL", [AB])],
)
def test_levels(api, level, allowed):
    assert api("PUT", "/config/s", {"compatibility": level.lower()}) == (
        200,
        {"compatibility": level},
    )
    api.register("s", A)
    for schema in (AB, AC, INT):
        given = {"schema": schema if isinstance(schema, str) else json.dumps(schema)}
        answer = api("POST", "/compatibility/subjects/s/versions/latest", given)
        assert answer == (200, {"is_compatible": schema in allowed or level == "NONE"})


def test_transitive_levels_look_at_all_versions(api):
    fields = [{"name": "a", "type": "int"}]
    api("PUT", "/config/s", {"compatibility": "NONE"})
    api.register("s", AC)  # has a field c of type int
    api.register("s", A)
    change = {"schema": json.dumps(record(*fields, {"name": "c", "type": "string", "default": ""}))}
    api("PUT", "/config/s", {"compatibility": "BACKWARD"})
    assert api("POST", "/compatibility/subjects/s/versions", change)[1]["is_compatible"]
    api("PUT", "/config/s", {"compatibility": "BACKWARD_TRANSITIVE"})
    answer = api("POST", "/compatibility/subjects/s/versions?verbose=true", change)[1]
    assert not answer["is_compatible"]
    assert "{oldSchemaVersion: 1}" in answer["messages"]
    assert "{compatibility: 'BACKWARD_TRANSITIVE'}" in answer["messages"]
    one = api("POST", "/compatibility/subjects/s/versions/2?verbose=true", change)
    assert one == (200, {"is_compatible": True, "messages": []})


def test_checks_of_what_is_not_there(api):
    assert api("POST", "/compatibility/subjects/s/versions/latest", {"schema": INT})[1] == {"is_compatible": True}  # fmt: skip
    assert api("POST", "/compatibility/subjects/s/versions", {"schema": INT})[1] == {"is_compatible": True}  # fmt: skip
    assert error(api("POST", "/compatibility/subjects/s/versions/1", {"schema": INT})) == (
        404,
        40402,
    )
    assert error(api("POST", "/compatibility/subjects/s/versions", {"schema": "x"})) == (422, 42201)
    verbose = api("POST", "/compatibility/subjects/s/versions?verbose=true", {"schema": "x"})[1]
    assert not verbose["is_compatible"]
    assert verbose["messages"]


def test_one_type_cannot_follow_another(api):
    api.register("s", A)
    assert error(api.register("s", '{"type": "object"}', schemaType="JSON")) == (409, 409)


def test_configs(api):
    assert api("GET", "/config") == (200, {"compatibilityLevel": "BACKWARD"})
    assert api("PUT", "/config", {"compatibility": "FULL"}) == (200, {"compatibility": "FULL"})
    assert api("GET", "/config") == (200, {"compatibilityLevel": "FULL"})
    assert api("GET", "/config/s?defaultToGlobal=true") == (200, {"compatibilityLevel": "FULL"})
    assert api("PUT", "/config/s", {"compatibility": "NONE"})[0] == 200
    assert api("GET", "/config/s") == (200, {"compatibilityLevel": "NONE"})
    assert api("DELETE", "/config/s") == (200, {"compatibilityLevel": "NONE"})
    assert error(api("DELETE", "/config/s")) == (404, 40401)
    assert api("DELETE", "/config") == (200, {"compatibilityLevel": "FULL"})
    assert api("GET", "/config") == (200, {"compatibilityLevel": "BACKWARD"})
    assert error(api("PUT", "/config", {"compatibility": "SIDEWAYS"})) == (422, 42203)
    assert error(api("PUT", "/config", {"compatibility": 5})) == (422, 42203)


# Modes.


def test_modes(api):
    api.register("s", A)
    assert api("GET", "/mode") == (200, {"mode": "READWRITE"})
    assert api("PUT", "/mode/s", {"mode": "READONLY"}) == (200, {"mode": "READONLY"})
    assert error(api.register("s", AB)) == (422, 42205)
    assert api.register("s", A) == (200, {"id": 1}), "what is there needs no write"
    assert error(api("DELETE", "/subjects/s")) == (422, 42205)
    assert error(api("PUT", "/config/s", {"compatibility": "NONE"})) == (422, 42205)
    assert api.register("t", A)[0] == 200
    assert api("GET", "/mode/t?defaultToGlobal=true") == (200, {"mode": "READWRITE"})
    assert api("DELETE", "/mode/s") == (200, {"mode": "READONLY"})
    assert error(api("DELETE", "/mode/s")) == (404, 40401)
    assert api.register("s", AB)[0] == 200
    assert error(api("PUT", "/mode", {"mode": "SIDEWAYS"})) == (422, 42204)
    assert error(api("PUT", "/mode", {})) == (422, 42204)


def test_import(api):
    api.register("s", A)
    assert error(api("PUT", "/mode", {"mode": "IMPORT"})) == (422, 42205)
    assert api("PUT", "/mode/new", {"mode": "IMPORT"}) == (200, {"mode": "IMPORT"})
    assert error(api.register("new", INT)) == (422, 42205)
    assert api.register("new", INT, id=77, version=5) == (200, {"id": 77})
    assert api("GET", "/subjects/new/versions") == (200, [5])
    assert error(api.register("new", LONG, id=77)) == (422, 42205)
    assert api("PUT", "/mode?force=true", {"mode": "IMPORT"})[0] == 200
    api("DELETE", "/mode")
    api("DELETE", "/mode/new")
    assert api.register("later", STRING) == (200, {"id": 78})


# References.


def test_references(api):
    inner = {"type": "record", "name": "Inner", "namespace": "x", "fields": []}
    outer = record({"name": "i", "type": "x.Inner"})
    references = [{"name": "x.Inner", "subject": "inner", "version": 1}]
    assert error(api.register("outer", outer, references=references)) == (422, 42201)
    api.register("inner", inner)
    assert error(api.register("outer", outer)) == (422, 42201)
    assert api.register("outer", outer, references=references) == (200, {"id": 2})
    assert api("GET", "/schemas/ids/2")[1]["references"] == references
    assert api("GET", "/subjects/inner/versions/1/referencedby") == (200, [2])
    assert api("GET", "/subjects/outer/versions/1/referencedby") == (200, [])
    assert error(api("DELETE", "/subjects/inner/versions/1")) == (422, 42206)
    assert error(api("DELETE", "/subjects/inner")) == (422, 42206)
    api("DELETE", "/subjects/outer")
    assert api("DELETE", "/subjects/inner") == (200, [1])
    assert error(api("DELETE", "/subjects/inner?permanent=true")) == (422, 42206)
    api("DELETE", "/subjects/outer?permanent=true")
    assert api("DELETE", "/subjects/inner?permanent=true") == (200, [1])


# Deleting.


def test_delete_a_version(api):
    api.register("s", A)
    api.register("s", AB)
    assert error(api("DELETE", "/subjects/s/versions/1?permanent=true")) == (404, 40407)
    assert api("DELETE", "/subjects/s/versions/latest") == (200, 2)
    assert api("GET", "/subjects/s/versions") == (200, [1])
    assert api("GET", "/subjects/s/versions?deleted=true") == (200, [1, 2])
    assert api("GET", "/subjects/s/versions?deletedOnly=true") == (200, [2])
    assert error(api("GET", "/subjects/s/versions/2")) == (404, 40402)
    assert api("GET", "/subjects/s/versions/2?deleted=true")[0] == 200
    assert api("GET", "/schemas/ids/2")[0] == 200, "data with this id can still be read"
    assert api("GET", "/schemas/ids/2/subjects") == (200, [])
    assert api("GET", "/schemas/ids/2/subjects?deleted=true") == (200, ["s"])
    assert error(api("DELETE", "/subjects/s/versions/2")) == (404, 40406)
    assert api("DELETE", "/subjects/s/versions/2?permanent=true") == (200, 2)
    assert error(api("GET", "/schemas/ids/2")) == (404, 40403)
    assert error(api("DELETE", "/subjects/s/versions/2?permanent=true")) == (404, 40402)
    assert error(api("DELETE", "/subjects/none/versions/1")) == (404, 40401)


def test_delete_a_subject(api):
    api.register("s", A)
    api.register("s", AB)
    api("PUT", "/config/s", {"compatibility": "NONE"})
    assert error(api("DELETE", "/subjects/none")) == (404, 40401)
    assert error(api("DELETE", "/subjects/s?permanent=true")) == (404, 40405)
    assert api("DELETE", "/subjects/s") == (200, [1, 2])
    assert error(api("DELETE", "/subjects/s")) == (404, 40404)
    assert api("GET", "/subjects") == (200, [])
    assert api("GET", "/subjects?deleted=true") == (200, ["s"])
    assert api("GET", "/subjects?deletedOnly=true") == (200, ["s"])
    assert error(api("GET", "/subjects/s/versions")) == (404, 40401)
    assert api("DELETE", "/subjects/s?permanent=true") == (200, [1, 2])
    assert error(api("GET", "/config/s")) == (404, 40408)


def test_what_was_deleted_comes_back_with_its_id(api):
    api.register("s", A)
    api.register("s", AB)
    api("DELETE", "/subjects/s")
    assert api.register("s", A) == (200, {"id": 1})
    assert api("GET", "/subjects/s/versions") == (200, [3])
    assert api("GET", "/subjects/s/versions?deleted=true") == (200, [2, 3])


def test_an_id_is_never_given_twice(api):
    api.register("s", A)
    api.register("s", AB)
    api("DELETE", "/subjects/s")
    api("DELETE", "/subjects/s?permanent=true")
    assert api.register("s", AB) == (200, {"id": 3})


def test_pages(api):
    for each in "abcde":
        api.register(each, INT)
    assert api("GET", "/subjects?offset=1&limit=2") == (200, ["b", "c"])
    assert api("GET", "/subjects?limit=-1&offset=4") == (200, ["e"])
    assert error(api("GET", "/subjects?limit=x")) == (422, 422)


# Garbage.

_anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
_bodies = st.fixed_dictionaries(
    {},
    optional={
        "schema": _anything | st.sampled_from([INT, text(A), "{}", '{"$ref":"#"}', "message M {}"]),
        "schemaType": st.sampled_from(["AVRO", "JSON", "PROTOBUF"]) | _anything,
        "references": _anything,
        "version": _anything,
        "id": _anything,
        "metadata": _anything,
        "compatibility": _anything,
        "normalize": _anything,
        "mode": _anything,
    },
)
_paths = st.sampled_from(
    [
        "/subjects/{}/versions", "/subjects/{}", "/subjects/{}/versions/{}", "/config/{}", "/mode/{}", "/config", "/mode",
        "/compatibility/subjects/{}/versions/{}", "/compatibility/subjects/{}/versions", "/schemas/ids/{}", "/schemas",
        "/subjects", "/schemas/ids/{}/versions", "/subjects/{}/versions/{}/referencedby", "/{}", "/{}/{}",
    ]
)  # fmt: skip
_segments = st.sampled_from(["s", "latest", "1", "-1", "0", "%00", "%", "%ff", "a%2Fb"]) | st.text(
    st.characters(codec="ascii", exclude_characters="?#/"), max_size=6
)
_queries = st.sampled_from(
    ["", "?deleted=true", "?permanent=true", "?verbose=true&normalize=true", "?offset=x", "?limit=-5", "?force=true&%&=&&"]
)  # fmt: skip


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["GET", "POST", "PUT", "DELETE", "HEAD", "PATCH"]),
            _paths, _segments, _segments, _queries, _bodies | _anything,
        ),
        max_size=6,
    )
)  # fmt: skip
def test_garbage_never_fails(new_api, calls):
    api = new_api()
    for method, path, one, other, query, body in calls:
        target = path.replace("{}", one, 1).replace("{}", other, 1) + query
        status, answer = api.raw(method, target, json.dumps(body).encode())
        assert status < 500, (method, target, body, answer)
        if method != "HEAD" and status >= 400:
            assert set(json.loads(answer)) == {"error_code", "message"}
