"""Who gets an answer from a registry: the guard before it, logins, rules, and TLS."""

import asyncio
import base64
import json
import socket
import ssl
import sys
from pathlib import Path
from typing import Any

import pytest

from tidelog.cli.main import main
from tidelog.errors import SettingsError
from tidelog.schemas.access import DELETE, READ, REGISTER, Access, parse_rules
from tidelog.schemas.api import application
from tidelog.schemas.client import RegistryClient, _address
from tidelog.schemas.errors import RegistryError
from tidelog.schemas.local_registry import LocalRegistry
from tidelog.schemas.server import guarded

sys.path.append(str(Path(__file__).parent.parent))

from secured import ADMIN, SECRET, Files, as_user, secured_broker

JSON = (b"content-type", b"application/json")
HERE = (b"host", b"localhost:8081")


class Passwords:
    """In the place of a broker."""

    async def check(self, user: str, password: str) -> bool:
        return password == f"secret of {user}"


def ask(app: Any, method: str, target: str, *headers: Any, body: Any = None) -> tuple[int, Any]:
    path, _, query = target.partition("?")
    data = b"" if body is None else json.dumps(body).encode()
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": list(headers),
    }
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": data, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    return sent[0]["status"], json.loads(sent[1]["body"])


def login(user: str, password: str | None = None) -> tuple[bytes, bytes]:
    told = f"{user}:{password or f'secret of {user}'}".encode()
    return b"authorization", b"Basic " + base64.b64encode(told)


# ---------------------------------------------------------------------- the guard


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        ("GET", [HERE], 200),
        ("GET", [(b"host", b"127.0.0.1:8081")], 200),
        ("GET", [(b"host", b"registry.example.com")], 200),
        ("GET", [(b"host", b"evil.example.com")], 403),
        ("GET", [], 403),
        ("GET", [HERE, (b"origin", b"http://evil.example.com")], 403),
        ("GET", [HERE, (b"sec-fetch-site", b"cross-site")], 403),
        ("PUT", [HERE, JSON], 200),
        ("PUT", [HERE, (b"content-type", b"application/vnd.schemaregistry.v1+json")], 200),
        ("PUT", [HERE, (b"content-type", b"application/octet-stream")], 200),
        ("PUT", [HERE, (b"content-type", b"text/plain")], 415),
        ("PUT", [HERE, (b"content-type", b"application/x-www-form-urlencoded")], 415),
        ("PUT", [HERE], 415),
        ("PUT", [HERE, JSON, (b"origin", b"null")], 403),
        ("DELETE", [HERE, (b"origin", b"http://evil.example.com")], 403),
    ],
)
def test_a_browser_does_not_come_in_from_elsewhere(api, method, headers, status):
    app = guarded(application(api.registry), ["registry.example.com"])
    body = {"compatibility": "FULL"} if method == "PUT" else None
    found, told = ask(app, method, "/config", *headers, body=body)
    assert found == status
    if status != 200:
        assert told["error_code"] == status


# ---------------------------------------------------------------------- logins and rules


def test_without_a_login_nothing_is_told(api):
    app = application(api.registry, Access(Passwords()))
    for headers in ([], [login("alice", "wrong")], [(b"authorization", b"Bearer x")]):
        for target in ("/", "/subjects", "/schemas/ids/1", "/nonsense"):
            assert ask(app, "GET", target, *headers)[0] == 401
    assert ask(app, "GET", "/subjects", login("alice"))[0] == 200


RULES = """
# who     may what            with which subjects
alice     read,register       orders-*
bob       read                orders-value
root      *                   *
"""

TABLE = [
    ("GET", "/subjects/{}/versions", READ),
    ("GET", "/subjects/{}/versions/1", READ),
    ("GET", "/subjects/{}/versions/1/schema", READ),
    ("GET", "/subjects/{}/versions/1/referencedby", READ),
    ("POST", "/subjects/{}", READ),
    ("POST", "/compatibility/subjects/{}/versions", READ),
    ("POST", "/compatibility/subjects/{}/versions/latest", READ),
    ("GET", "/config/{}", READ),
    ("GET", "/mode/{}", READ),
    ("POST", "/subjects/{}/versions", REGISTER),
    ("PUT", "/config/{}", "configure"),
    ("DELETE", "/config/{}", "configure"),
    ("PUT", "/mode/{}", "configure"),
    ("DELETE", "/mode/{}", "configure"),
    ("DELETE", "/subjects/{}/versions/1", DELETE),
    ("DELETE", "/subjects/{}", DELETE),
]


@pytest.mark.parametrize(("method", "path", "operation"), TABLE)
def test_every_call_asks_for_its_operation(api, method, path, operation):
    """Also under the subject's other names: with the default context, with a part of it escaped."""
    api.register("orders-value", '"int"')
    access = Access(Passwords(), parse_rules(RULES.splitlines()))
    app = application(api.registry, access)
    body = {"schema": '"int"', "compatibility": "FULL", "mode": "READWRITE"}
    for user, allowed in (
        ("alice", operation in (READ, REGISTER)),
        ("bob", operation == READ),
        ("carol", False),
    ):
        for name in ("orders-value", ":.:orders-value", "orders%2Dvalue"):
            status, told = ask(app, method, path.format(name), login(user), body=body)
            assert (status != 403) is allowed, (user, name, told)
    for name in ("other", ":.:other", "%6Fther"):
        assert ask(app, method, path.format(name), login("alice"), body=body)[0] == 403
    assert ask(app, method, path.format("orders-value"), login("root"), body=body)[0] != 403


def test_every_route_that_names_a_subject_is_in_the_table():
    import tidelog.schemas.api as module

    source = Path(module.__file__).read_text()
    routes = [line.strip() for line in source.splitlines() if ', "/' in line and "api." in line]
    with_subject = [each for each in routes if "{}" in each and "/schemas/ids/" not in each]
    assert len(with_subject) == len(TABLE)
    assert not [each for each in with_subject if each.endswith("None),")]


def test_what_holds_for_all_subjects_is_for_those_who_may_everything(api):
    app = application(api.registry, Access(Passwords(), parse_rules(RULES.splitlines())))
    body = {"compatibility": "FULL"}
    assert ask(app, "PUT", "/config", login("alice"), body=body)[0] == 403
    assert ask(app, "PUT", "/config", login("root"), body=body)[0] == 200


def test_lists_and_ids_have_what_may_be_read(api):
    api.register("orders-value", '"int"')
    api.register("secret-value", '"long"')
    app = application(api.registry, Access(Passwords(), parse_rules(RULES.splitlines())))
    assert ask(app, "GET", "/subjects", login("alice"))[1] == ["orders-value"]
    assert [each["subject"] for each in ask(app, "GET", "/schemas", login("bob"))[1]] == [
        "orders-value"
    ]
    assert ask(app, "GET", "/subjects", login("carol"))[1] == []
    for target in ("/schemas/ids/2", "/schemas/ids/2/schema", "/schemas/ids/2/subjects"):
        assert ask(app, "GET", target, login("alice"))[0] == 404
        assert ask(app, "GET", target.replace("2", "1"), login("alice"))[0] == 200
    assert ask(app, "GET", "/schemas/ids/2/versions", login("root"))[0] == 200
    # A schema that refers to another tells what is in it.
    body = {
        "schema": '{"type": "record", "name": "R", "fields": []}',
        "references": [{"name": "x", "subject": "secret-value", "version": 1}],
    }
    assert ask(app, "POST", "/subjects/orders-x/versions", login("alice"), body=body)[0] == 403


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("alice read", "USER OPERATIONS SUBJECTS"),
        ("alice write orders", "'write' is not one of read, register, configure, delete"),
        ("alice read, orders", "'' is not one of"),
    ],
)
def test_a_bad_rule_is_named(line, told):
    with pytest.raises(SettingsError, match=told):
        parse_rules([line])


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--allow", "alice read *"], "add --login"),
        (["--login"], "security.protocol"),
        (["--tls-key", "x"], "need --tls-certificate"),
        (["--tls-certificate", "/nowhere.pem"], "cannot be used"),
        (["--login", "--rules", "/nowhere", "-X", "security.protocol=SASL_SSL"], "cannot be read"),
    ],
)
def test_options_that_do_not_go_together(capsys, options, told):
    assert main(["registry", "-b", "127.0.0.1:1", *options]) == 2
    assert told in capsys.readouterr().err


def test_a_password_in_an_address_is_not_repeated():
    with pytest.raises(SettingsError) as caught:
        _address("ftp://alice:hush-hush@host")
    assert "hush-hush" not in str(caught.value)


# ---------------------------------------------------------------------- all of it, at a broker


@pytest.mark.faults
def test_users_of_the_broker_over_tls(tmp_path: Path):
    files = Files(tmp_path)
    with secured_broker(tmp_path, files) as broker:
        options: list[str] = []
        for name, value in as_user(broker.bootstrap, files).items():
            options += ["-X", f"{name}={value}"] if name != "bootstrap.servers" else []
        options += ["--login", "--mechanism", "PLAIN", "--allow", f"{ADMIN} read,register *"]
        options += ["--tls-certificate", str(files.server), "--tls-roots", str(files.roots)]
        with LocalRegistry(broker.bootstrap, arguments=options) as registry:
            url = f"https://127.0.0.1:{registry.port}"
            with RegistryClient(url, auth=(ADMIN, SECRET), roots=str(files.roots)) as client:
                id = client.register("orders-value", '"int"')
                assert client.schema(id).text == '"int"'
                with pytest.raises(RegistryError, match="may not delete"):
                    client.delete_subject("orders-value")
            wrong = url.replace("//", f"//{ADMIN}:wrong@")
            with (
                RegistryClient(wrong, roots=str(files.roots)) as client,
                pytest.raises(RegistryError, match="does not know this user"),
            ):
                client.schema(id)
            with pytest.raises(ssl.SSLCertVerificationError):
                ssl.create_default_context().wrap_socket(
                    socket.create_connection(("127.0.0.1", registry.port)),
                    server_hostname="localhost",
                )
        assert SECRET not in registry.log()
