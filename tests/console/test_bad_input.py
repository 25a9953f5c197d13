"""Requests that nobody should send: each gets a clear answer, and changes nothing."""

import contextlib
import http.client
import json
from collections.abc import Callable

import pytest
from consoles import Console

from tidelog import Admin

MakeTopic = Callable[..., str]
JSON = {"Content-Type": "application/json"}
NEW = json.dumps({"name": "made-by-a-stranger"}).encode()


@pytest.fixture(autouse=True)
def nothing_was_made(admin: Admin):
    yield
    assert "made-by-a-stranger" not in admin.list_topics()


# ---------------------------------------------------------------------- other sites


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_cross_site_requests_are_refused(console: Console, headers):
    answer = console.raw("POST", "/api/v1/topics", NEW, {**JSON, **headers})
    assert (answer.status, answer.code) == (403, "cross_site")
    answer = console.raw("GET", "/api/v1/topics", headers=headers)
    assert (answer.status, answer.code) == (403, "cross_site")


@pytest.mark.parametrize("scheme", ["http", "https"])  # before a proxy it is https
def test_the_same_origin_is_welcome(console: Console, topic: MakeTopic, scheme):
    name = topic()
    origin = console.url.replace("http", scheme)
    headers = {**JSON, "Origin": origin, "Sec-Fetch-Site": "same-origin"}
    answer = console.raw("POST", f"/api/v1/topics/{name}/messages", b'{"value": "x"}', headers)
    assert answer.status == 201


@pytest.mark.parametrize(
    "kind",
    ["application/x-www-form-urlencoded", "text/plain", "multipart/form-data; boundary=x", None],
)
def test_what_a_form_can_send_is_refused(console: Console, kind):
    answer = console.raw("POST", "/api/v1/topics", NEW, {"Content-Type": kind} if kind else {})
    assert (answer.status, answer.code) == (415, "not_json")


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", ""]
)
def test_foreign_hosts_are_refused(console: Console, host):
    """A name of somebody else's that resolves to this machine: DNS rebinding."""
    answer = console.raw("GET", "/api/v1/topics", headers={"Host": host})
    assert (answer.status, answer.code) == (403, "host_refused")
    assert "--allow-host" in answer.message


@pytest.mark.parametrize("host", ["localhost:1", "127.0.0.1", "[::1]:8080", "LOCALHOST"])
def test_own_hosts_are_served(console: Console, host):
    assert console.raw("GET", "/api/v1/session", headers={"Host": host}).status == 200


@pytest.mark.parametrize(
    "path", ["/", "/main.js", "/api/v1/session", "/api/v1/nothing", "/nothing"]
)
def test_every_answer_refuses_frames_and_foreign_scripts(console: Console, path):
    headers = console.raw("GET", path).headers
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert "script-src 'self'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-frame-options"] == "DENY"
    assert headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in headers


def test_a_preflight_allows_nothing(console: Console):
    asked = {"Origin": "http://evil.example", "Access-Control-Request-Method": "DELETE"}
    answer = console.raw("OPTIONS", "/api/v1/topics", headers=asked)
    assert answer.status >= 400
    assert not any(name.startswith("access-control") for name in answer.headers)


def test_static_files_do_not_lead_out_of_their_folder(console: Console):
    for path in ("/../app.py", "/%2e%2e/app.py", "/..%2fapp.py", "/vendor/../../app.py"):
        answer = console.raw("GET", path)
        assert answer.status == 404, path


# ---------------------------------------------------------------------- too much


def test_a_message_of_ten_megabytes(console: Console, topic: MakeTopic):
    name = topic()
    answer = console.ask("POST", f"/topics/{name}/messages", {"value": "x" * 10_000_000})
    assert (answer.status, answer.code) == (413, "message_too_large")
    assert "max.message.bytes" in answer.message
    assert name in answer.message
    assert console.get(f"/topics/{name}/messages")["messages"] == []
    # The producer is still of use.
    assert console.ask("POST", f"/topics/{name}/messages", {"value": "small"}).status == 201


def test_a_body_that_is_larger_than_any_message(console: Console, topic: MakeTopic):
    name = topic()
    headers = {**JSON, "Content-Length": str(17 << 20)}
    # Nothing of it has to be sent.
    answer = console.raw("POST", f"/api/v1/topics/{name}/messages", headers=headers)
    assert (answer.status, answer.code) == (413, "too_large")


def test_a_body_that_does_not_say_how_long_it_is(console: Console, topic: MakeTopic):
    name = topic()
    connection = http.client.HTTPConnection("127.0.0.1", console.port, timeout=60)
    parts = (b"x" * (1 << 20) for _ in range(17))
    with contextlib.closing(connection):
        try:
            connection.request(
                "POST", f"/api/v1/topics/{name}/messages", parts, JSON, encode_chunked=True
            )
            with connection.getresponse() as response:
                assert response.status == 413
                assert json.loads(response.read())["error"]["code"] == "too_large"
        except (BrokenPipeError, ConnectionResetError):
            pass  # it was cut off before all was sent
    assert console.get(f"/topics/{name}/messages")["messages"] == []


@pytest.mark.parametrize(
    "query",
    [
        {"limit": 501},
        {"limit": 0},
        {"shown_bytes": 1 << 30},
        {"partition": -1},
        {"partition": 1 << 40},
        {"q": "x" * 1001},
        {"where": ["key=a"] * 11},
    ],
)
def test_questions_are_bounded(console: Console, topic: MakeTopic, query):
    answer = console.ask("GET", f"/topics/{topic()}/messages", **query)
    assert (answer.status, answer.code) == (422, "invalid")
    assert next(iter(query)) in answer.message


# ---------------------------------------------------------------------- what is not there, or makes no sense


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/topics/nope", None),
        ("GET", "/topics/nope/messages", None),
        ("GET", "/topics/nope/tail", None),
        ("GET", "/topics/nope/export", None),
        ("GET", "/topics/nope/settings", None),
        ("POST", "/topics/nope/messages", {"value": "x"}),
        ("POST", "/topics/nope/partitions", {"total": 9}),
        ("PATCH", "/topics/nope/settings", {"changes": {"retention.ms": "1"}}),
        ("DELETE", "/topics/nope?confirmed=nope", None),
        ("GET", "/groups/nope", None),
        ("POST", "/groups/nope/reset", {"to": "start", "topic": "nope"}),
        ("DELETE", "/groups/nope?confirmed=nope", None),
        ("GET", "/schemas/nope", None),
        ("GET", "/brokers/9/settings", None),
        ("DELETE", "/users/nope?confirmed=nope", None),
        ("GET", "/nothing/of/the/kind", None),
    ],
)
def test_what_does_not_exist(console: Console, admin: Admin, method, path, body):
    answer = console.ask(method, path, body)
    assert answer.status == 404, answer
    assert answer.message
    assert "nope" not in admin.list_topics()


@pytest.mark.parametrize(
    ("method", "path", "body", "said"),
    [
        ("POST", "/topics", {"name": "a b"}, "name"),
        ("POST", "/topics", {"name": ".."}, ".."),
        ("POST", "/topics", {"name": "a", "partitions": 0}, "partitions"),
        ("POST", "/topics", {"name": "made-by-a-stranger", "replication_factor": 9}, "replication"),
        ("POST", "/topics", {"name": "made-by-a-stranger", "settings": {"nope": "1"}}, "nope"),
        ("POST", "/topics", {}, "name"),
        ("POST", "/topics", [], "body"),
        ("POST", "/quotas", {"entity": {"user": "a"}, "limits": {"nope": 1}}, "nope"),
        ("POST", "/quotas", {"entity": {"nope": "a"}, "limits": {"producer_byte_rate": 1}}, "nope"),
        (
            "POST",
            "/quotas",
            {"entity": {"user": "a"}, "limits": {"producer_byte_rate": -1}},
            "limits",
        ),
        (
            "POST",
            "/acls",
            {
                "resource_type": "topic",
                "resource_name": "a",
                "pattern_type": "regex",
                "principal": "User:a",
                "operation": "read",
            },
            "pattern_type",
        ),
        (
            "POST",
            "/acls",
            {
                "resource_type": "topic",
                "resource_name": "a",
                "principal": "no-kind",
                "operation": "read",
            },
            "no-kind",
        ),
        ("PATCH", "/brokers/0/settings", {"changes": {"nope": "1"}}, "nope"),
        ("PATCH", "/brokers/0/settings", {"changes": {}}, "changes"),
        ("PUT", "/users/a", {"password": ""}, "password"),
        ("POST", "/schemas/a-value", {"text": "{not avro"}, "avro"),
    ],
)
def test_what_makes_no_sense(console: Console, method, path, body, said):
    answer = console.ask(method, path, body)
    assert answer.status in (400, 404, 409, 422), answer
    assert said.lower() in answer.message.lower()


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"from_": "yesterday"}, "yesterday"),
        ({"before": "1"}, "before"),
        ({"where": "nonsense"}, "nonsense"),
        ({"where": "value~(a+)+$"}, "patterns"),
        ({"where": "nope=1"}, "nope"),
    ],
)
def test_places_and_tests_that_are_none(console: Console, topic: MakeTopic, query, said):
    for what in ("messages", "export"):
        answer = console.ask("GET", f"/topics/{topic()}/{what}", **query)
        assert (answer.status, answer.code) == (400, "bad_request")
        assert said in answer.message


def test_values_that_do_not_fit_their_format(console: Console, topic: MakeTopic):
    name = topic()
    for format, text in [("json", "{"), ("hex", "xyz"), ("base64", "%%%"), ("avro", "{}")]:
        body = {"value": text, "value_format": format}
        answer = console.ask("POST", f"/topics/{name}/messages", body)
        assert 400 <= answer.status < 500, answer
    assert console.get(f"/topics/{name}/messages")["messages"] == []


def test_a_body_that_is_no_json(console: Console):
    for body in (b"{", b"\xff\xfe", b"[" * 100_000, b""):
        answer = console.raw("POST", "/api/v1/topics", body, JSON)
        assert answer.status in (400, 422), body[:10]
        assert answer.message


def test_what_was_wrong_does_not_come_back_if_it_may_be_a_password(console: Console):
    body = {"password": {"hunter": "2"}, "mechanism": "SCRAM-SHA-512"}
    answer = console.ask("PUT", "/users/a", body)
    assert answer.status == 422
    assert "hunter" not in answer.message


def test_nothing_can_be_changed_where_it_is_read_only(read_only: Console, topic: MakeTopic):
    name = topic()
    cases = [
        ("POST", "/topics", {"name": "made-by-a-stranger"}),
        ("DELETE", f"/topics/{name}?confirmed={name}", None),
        ("PATCH", f"/topics/{name}/settings", {"changes": {"retention.ms": "1"}}),
        ("POST", f"/topics/{name}/partitions", {"total": 9}),
        ("POST", f"/topics/{name}/messages", {"value": "x"}),
        ("POST", "/groups/g/reset", {"to": "start", "topic": name}),
        ("DELETE", "/groups/g?confirmed=g", None),
        ("POST", "/quotas", {"entity": {"user": "a"}, "limits": {"producer_byte_rate": 1}}),
        ("PUT", "/users/a", {"password": "x"}),
        ("DELETE", "/users/a?confirmed=a", None),
        ("PATCH", "/brokers/0/settings", {"changes": {"a": "1"}}),
        ("PATCH", "/brokers/settings", {"changes": {"a": "1"}}),
        ("POST", "/schemas/a", {"text": "{}"}),
        ("PUT", "/schemas/a/compatibility", {"level": "NONE"}),
        ("DELETE", "/schemas/a?confirmed=a", None),
    ]
    for method, path, body in cases:
        answer = read_only.ask(method, path, body)
        assert (answer.status, answer.code) == (403, "read_only"), path
    assert read_only.get(f"/topics/{name}/messages")["messages"] == []
    assert read_only.get("/session")["read_only"] is True


def test_every_route_that_writes_knows_read_only(read_only: Console):
    """Those that the list above does not have."""
    paths = read_only.raw("GET", "/api/v1/openapi.json").body["paths"]
    for path, methods in paths.items():
        for method in set(methods) - {"get"}:
            if path.endswith("/session"):
                continue
            target = path.replace("{broker}", "0").replace("{", "").replace("}", "")
            answer = read_only.raw(method.upper(), f"{target}?confirmed=x", b"{}", JSON)
            assert answer.status == 403, (method, path)
