"""`tidelog user`, `acl` and `quota` against a secured broker, and what the other commands do there."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent.parent))

from secured import SECRET, Files, as_file, as_user, secured_broker


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return Files(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def secured(tmp_path_factory, files):
    with secured_broker(tmp_path_factory.mktemp("secured"), files) as broker:
        yield broker
        assert SECRET not in broker.log()
        assert "Traceback" not in broker.log()


@pytest.fixture
def logged_in(secured, files, tidelog, tmp_path, monkeypatch):
    """Commands as a user: `logged_in("admin", "topic", "list")`."""
    monkeypatch.delenv("TIDELOG_BOOTSTRAP", raising=False)
    monkeypatch.delenv("TIDELOG_PASSWORD", raising=False)

    def call(user, *words, **rest):
        settings = as_user(secured.bootstrap, files)
        if user != "admin":
            settings = as_user(secured.bootstrap, files, user, f"pw-{user}", "SCRAM-SHA-512")
        given = as_file(tmp_path / f"{user}.properties", settings)
        return tidelog(*words, "--command-config", given, **rest)

    return call


@pytest.fixture
def made(logged_in, unique):
    """A user of our own."""

    def make(word="user"):
        name = unique(word)
        logged_in(
            "admin", "user", "add", name, "--password-file", "-", stdin=f"pw-{name}\n".encode()
        ).ok()
        return name

    return make


def test_a_user_is_added_listed_and_deleted(logged_in, made):
    name = made()
    rows = [
        each
        for each in logged_in("admin", "user", "list", "--json").ok().json
        if each["user"] == name
    ]
    assert {each["mechanism"] for each in rows} == {"SCRAM-SHA-256", "SCRAM-SHA-512"}
    assert name in logged_in("admin", "user", "list").ok().out
    logged_in(name, "topic", "list").ok()
    logged_in("admin", "user", "delete", name, "--mechanism", "scram-sha-512").ok()
    refused = logged_in(name, "topic", "list")
    assert refused.code == 1
    assert refused.err.count("\n") == 1
    assert "the user or the password is wrong" in refused.err
    assert f"pw-{name}" not in refused.err
    assert logged_in("admin", "user", "delete", name).ok().lines == [
        f"User {name} cannot log in with SCRAM-SHA-256 any more"
    ]
    again = logged_in("admin", "user", "delete", name)
    assert (again.code, again.err) == (
        1,
        f"tidelog: there is no user '{name}'; `tidelog user list`\n",
    )


def test_a_password_needs_somebody_to_give_it(logged_in, monkeypatch, tmp_path):
    ran = logged_in("admin", "user", "add", "x")
    assert (ran.code, "--password-file" in ran.err) == (2, True)
    ran = logged_in("admin", "user", "add", "x", "--password-file", tmp_path / "nowhere")
    assert (ran.code, "cannot be read" in ran.err) == (2, True)
    monkeypatch.setenv("TIDELOG_PASSWORD", "from-the-environment")
    assert "from-the-environment" not in logged_in("admin", "user", "add", "x").ok().out


def test_rules_let_people_in(logged_in, made, unique):
    alice, topic, group = made("alice"), unique("topic"), unique("group")
    logged_in("admin", "topic", "create", topic).ok()
    assert logged_in(alice, "topic", "list").ok().out.strip() in ("", "TOPIC")
    refused = logged_in(alice, "produce", topic, stdin=b"v\n")
    assert refused.code == 1
    assert refused.err.count("\n") == 1
    who = ("--principal", f"User:{alice}")
    rules = (
        logged_in("admin", "acl", "add", *who, "--producer", "--topic", topic, "--json").ok().json
    )
    assert {each["operation"] for each in rules} == {"write", "describe", "create"}
    logged_in(alice, "produce", topic, stdin=b"v\n").ok()
    assert logged_in(alice, "consume", topic, "--group", group).code == 1
    logged_in(
        "admin",
        "acl",
        "add",
        *who,
        "--consumer",
        "--topic",
        topic,
        "--group",
        group[:5],
        "--prefix",
    ).ok()
    assert logged_in(alice, "consume", topic, "--group", group).ok().out == "v\n"
    logged_in(
        "admin",
        "acl",
        "add",
        "--deny-principal",
        f"User:{alice}",
        "--operation",
        "Read",
        "--topic",
        topic,
    ).ok()
    assert logged_in(alice, "consume", topic).code == 1
    listed = logged_in("admin", "acl", "list", "--topic", topic).ok()
    assert "deny" in listed.out
    removed = logged_in("admin", "acl", "remove", *who, "--deny", "--json").ok().json
    assert [each["permission"] for each in removed] == ["deny"]
    logged_in("admin", "acl", "remove", *who, "--topic", topic).ok()
    assert logged_in(alice, "acl", "list").code == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("add", "--topic", "x"), "say who with --principal"),
        (("add", "--principal", "User:x"), "say for what"),
        (("add", "--principal", "x", "--topic", "x"), "must be written as User:name"),
        (
            ("add", "--principal", "User:x", "--topic", "x", "--operation", "look"),
            "look is none of",
        ),
        (
            ("add", "--principal", "User:x", "--consumer", "--topic", "x"),
            "--consumer needs --group",
        ),
        (("add", "--principal", "User:x", "--topic", "a b"), "a b"),
        (("remove",), "say which rules"),
        (
            ("add", "--principal", "User:x", "--topic", "x", "--resource-pattern-type", "wild"),
            "literal or prefixed",
        ),
    ],
)
def test_bad_rules(logged_in, words, message):
    before = logged_in("admin", "acl", "list").ok().out
    ran = logged_in("admin", "acl", *words)
    assert ran.code in (1, 2)
    assert message in ran.err
    assert ran.err.count("\n") == 1
    assert logged_in("admin", "acl", "list").ok().out == before


def test_quotas(logged_in, unique):
    user = unique("user")
    who = ("--user", user, "--default", "client-id")
    ran = logged_in(
        "admin", "quota", "set", *who, "producer_byte_rate=1000000", "consumer_byte_rate=5e5"
    )
    assert [line.split() for line in ran.ok().lines[1:]] == [
        [user, "<default>", "-", "consumer_byte_rate", "500000"],
        [user, "<default>", "-", "producer_byte_rate", "1e+06"],
    ]
    (found,) = logged_in("admin", "quota", "list", "--user", user, "--json").ok().json
    assert found["entity"] == {"user": user, "client-id": None}
    logged_in("admin", "quota", "remove", *who, "consumer_byte_rate").ok()
    logged_in("admin", "quota", "remove", *who).ok()
    gone = logged_in("admin", "quota", "remove", *who)
    assert (gone.code, "has no quota" in gone.err) == (1, True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("set", "producer_byte_rate=1"), "say whose"),
        (("set", "--user", "x", "speed=1"), "unknown quota 'speed'"),
        (("set", "--user", "x", "producer_byte_rate=fast"), "give a number"),
        (("set", "--user", "x", "--default", "user", "producer_byte_rate=1"), "exclude each other"),
        (("set", "--user", "x", "--ip", "1.2.3.4", "producer_byte_rate=1"), "cannot name a user"),
    ],
)
def test_bad_quotas(logged_in, words, message):
    ran = logged_in("admin", "quota", *words)
    assert ran.code in (1, 2)
    assert message in ran.err


def test_doctor_with_a_login_and_without(logged_in, tidelog, secured):
    ran = logged_in("admin", "doctor", "--json").ok()
    assert {each["subject"]: each["state"] for each in ran.json}["partitions"] == "ok"
    ran = tidelog("doctor", "-b", secured.bootstrap)
    assert ran.code == 1
    (line,) = [each for each in ran.lines if each.startswith("failed")]
    assert "security.protocol" in line


def test_settings_that_are_secret_are_not_told(logged_in):
    ran = logged_in("admin", "config", "describe", "--all").ok()
    assert SECRET not in ran.out
    rows = logged_in("admin", "config", "describe", "--all", "--json").ok().json
    secret = {each["name"]: each["value"] for each in rows if each["sensitive"]}
    assert {"sasl.plain.users", "sasl.inter.broker.password", "ssl.key.password"} <= set(secret)
    assert set(secret.values()) == {None}
