"""Logging in at a secured broker through the console: everybody is who he is there, and secrets stay where they are."""

import json
import logging

import pytest
from consoles import Console, basic

from tidelog import Admin
from tidelog.client.admin_security import Acl
from tidelog.console import sessions
from tidelog.testing.local_broker import LocalBroker


@pytest.fixture(scope="module")
def prepared(secured_broker: LocalBroker) -> None:
    """A topic that alice may read, and one that she may not."""
    config = {
        "bootstrap.servers": secured_broker.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "admin",
        "sasl.password": "keep-it-secret",
    }
    with Admin(config) as admin:
        admin.create_topics(["open-book", "diary"])
        admin.create_acls(
            [
                Acl("topic", "open-book", "User:alice", "read"),
                Acl("topic", "open-book", "User:alice", "describe"),
            ]
        )


pytestmark = pytest.mark.usefixtures("prepared")


def test_without_a_login_nothing_is_shown(secured: Console):
    view = secured.get("/session")
    assert (view["needs_login"], view["user"]) == (True, None)
    for path in ("/overview", "/topics", "/groups", "/users", "/acls", "/brokers/0/settings"):
        answer = secured.ask("GET", path)
        assert (answer.status, answer.code) == (401, "login_required"), path
    answer = secured.ask("POST", "/topics", {"name": "stranger"})
    assert answer.code == "login_required"


def test_login_and_logout(secured: Console):
    answer = secured.login("admin", "keep-it-secret")
    assert answer.status == 200
    assert answer.body["user"] == "admin"
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert f"tidelog-console-{secured.port}=" in cookie
    names = [each["name"] for each in secured.get("/topics")]
    assert {"open-book", "diary"} <= set(names)
    secured.ask("DELETE", "/session")
    assert secured.ask("GET", "/topics").code == "login_required"


@pytest.mark.parametrize(
    ("user", "password"), [("admin", "not-the-one"), ("nobody", "x"), ("", ""), ("admin", "")]
)
def test_a_wrong_password(secured: Console, caplog, user, password):
    with caplog.at_level(logging.DEBUG):
        answer = secured.login(user, password)
    assert answer.status == 401
    assert "set-cookie" not in answer.headers
    assert not password or password not in json.dumps(answer.body)
    assert "keep-it-secret" not in caplog.text


def test_a_cookie_that_somebody_made_up(secured: Console):
    secured.cookie = f"tidelog-console-{secured.port}=guessed"
    assert secured.ask("GET", "/topics").code == "login_required"


def test_everybody_sees_what_the_broker_lets_him(secured: Console):
    secured.login("alice", "wonderland")
    assert [each["name"] for each in secured.get("/topics")] == ["open-book"]
    assert secured.get("/topics/open-book/messages")["messages"] == []
    for method, path, body in [
        ("GET", "/topics/diary/messages", None),
        ("POST", "/topics/open-book/messages", {"value": "x"}),
        ("POST", "/topics", {"name": "mine"}),
        ("GET", "/acls", None),
        ("GET", "/users", None),
        ("DELETE", "/topics/open-book?confirmed=open-book", None),
    ]:
        answer = secured.ask(method, path, body)
        assert answer.status == 403, (path, answer)
    assert secured.get("/overview")["brokers"][0]["size"] is None


def test_curl_with_a_password(secured: Console):
    answer = secured.raw("GET", "/api/v1/topics", headers=basic("alice", "wonderland"))
    assert [each["name"] for each in answer.body] == ["open-book"]
    answer = secured.raw("GET", "/api/v1/topics", headers=basic("alice", "wrong"))
    assert answer.status == 401
    assert (
        "www-authenticate" not in answer.headers
    )  # a browser must not ask, and then send it on its own
    answer = secured.raw("GET", "/api/v1/topics", headers={"Authorization": "Basic %%%"})
    assert answer.status == 401


def test_a_login_is_tried_with_several_mechanisms(secured_broker: LocalBroker):
    config = {
        "bootstrap.servers": secured_broker.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
    }
    with Console(config, mechanisms=["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"]) as console:
        assert console.login("alice", "not-the-one").status == 401
        assert console.login("bella", "through-the-glass").status == 401
        assert console.login("admin", "keep-it-secret").status == 200  # who has PLAIN
        body = {"password": "through-the-glass"}
        assert console.ask("PUT", "/users/bella", body).status == 200
        assert console.login("bella", "through-the-glass").status == 200  # who has SCRAM


def test_behind_a_proxy_with_tls_the_cookie_is_for_tls_alone(secured: Console):
    headers = {
        "Content-Type": "application/json",
        "Host": "localhost",
        "Origin": "https://localhost",
    }
    body = json.dumps({"user": "admin", "password": "keep-it-secret"}).encode()
    answer = secured.raw("POST", "/api/v1/session", body, headers)
    assert "; secure" in answer.headers["set-cookie"].lower()


def test_secrets_are_not_shown(secured: Console):
    secured.login("admin", "keep-it-secret")
    for path in ("/brokers/0/settings", "/users", "/session", "/overview"):
        text = json.dumps(secured.get(path))
        assert "keep-it-secret" not in text
        assert "wonderland" not in text


def test_an_idle_session_ends(secured: Console, monkeypatch):
    secured.login("admin", "keep-it-secret")
    assert secured.ask("GET", "/topics").status == 200
    monkeypatch.setattr(sessions, "IDLE_S", -1)
    assert secured.ask("GET", "/topics").code == "login_required"


def test_too_many_sessions_end_the_oldest(secured: Console, monkeypatch):
    secured.login("admin", "keep-it-secret")
    first = secured.cookie
    secured.cookie = None
    secured.login("alice", "wonderland")
    monkeypatch.setattr(sessions, "MOST", 1)
    assert secured.ask("GET", "/topics").status == 200
    secured.cookie = first
    assert secured.ask("GET", "/topics").code == "login_required"


def test_where_no_login_is_needed_there_is_none(console: Console):
    answer = console.login("admin", "x")
    assert (answer.status, answer.code) == (409, "no_login")
