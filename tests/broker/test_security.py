"""A broker with logins and TLS on real sockets, and its users, rules and quotas, administered by our own client."""

import asyncio
import base64
import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from tidelog.aio import Admin, Producer
from tidelog.broker.broker import Broker
from tidelog.broker.settings import BrokerSettings
from tidelog.client.admin_security import Acl, AclFilter
from tidelog.client.security import ClientSecurity
from tidelog.client.settings import ClientSettings
from tidelog.errors import (
    InvalidRequest,
    KafkaError,
    NetworkException,
    ResourceNotFound,
    SaslAuthenticationFailed,
    SettingsError,
    StartError,
    UnsupportedSaslMechanism,
)
from tidelog.security.config import SecurityConfig

PLAIN_USERS = "admin:top-secret,bob:builder"


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    server = authority.issue_cert("localhost", "127.0.0.1")
    server.private_key_and_cert_chain_pem.write_to_path(directory / "server.pem")
    authority.cert_pem.write_to_path(directory / "ca.pem")
    alice = authority.issue_cert("alice@example.org", common_name="alice")
    alice.private_key_and_cert_chain_pem.write_to_path(directory / "alice.pem")
    return directory


class Secured:
    def __init__(self, broker: Broker, files: Path) -> None:
        self.broker = broker
        self._files = files

    def settings(
        self, user: str = "admin", password: str = "top-secret", **rest: Any
    ) -> dict[str, Any]:
        return {
            "bootstrap.servers": str(self.broker.addresses[0]),
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "ssl.ca.location": str(self._files / "ca.pem"),
            "sasl.username": user,
            "sasl.password": password,
            "socket.connection.setup.timeout.ms": 5_000,
        } | {name.replace("_", "."): value for name, value in rest.items()}


@contextlib.asynccontextmanager
async def running(directory: Path, files: Path, **settings: str) -> AsyncIterator[Secured]:
    given = {
        "listeners": "SASL_SSL://127.0.0.1:0",
        "log.dirs": str(directory),
        "ssl.keystore.certificate.chain": str(files / "server.pem"),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "sasl.plain.users": PLAIN_USERS,
        "connection.failed.authentication.delay.ms": "0",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.inter.broker.username": "admin",
        "sasl.inter.broker.password": "top-secret",
    }
    given |= {name.replace("_", "."): value for name, value in settings.items()}
    broker = Broker(BrokerSettings.load(given))
    await broker.start()
    try:
        yield Secured(broker, files)
    finally:
        await broker.stop()


@pytest.fixture
async def secured(tmp_path, files) -> AsyncIterator[Secured]:
    async with running(tmp_path, files) as made:
        yield made


async def send(settings: dict[str, Any]) -> int:
    async with Producer(settings) as producer:
        sent = await producer.send("events", b"v")
        return (await sent).offset


async def test_a_user_is_made_and_logs_in(secured):
    async with Admin(secured.settings()) as admin:
        await admin.set_scram_password("alice", "wonder", mechanism="SCRAM-SHA-256")
        await admin.set_scram_password("alice", "land", mechanism="SCRAM-SHA-512")
        described = await admin.describe_scram_users()
        assert {each.mechanism for each in described["alice"]} == {"SCRAM-SHA-256", "SCRAM-SHA-512"}
        alice = secured.settings("alice", "wonder", sasl_mechanism="SCRAM-SHA-256")
        assert await send(alice) == 0
        assert await send(secured.settings("alice", "land", sasl_mechanism="SCRAM-SHA-512")) == 1
        await admin.delete_scram_password("alice", mechanism="SCRAM-SHA-256")
        with pytest.raises(SaslAuthenticationFailed):
            await send(alice)
        with pytest.raises(ResourceNotFound):
            await admin.delete_scram_password("alice", mechanism="SCRAM-SHA-256")


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"password": "wrong"}, SaslAuthenticationFailed, "refused the login of admin with PLAIN"),
        ({"user": "nobody"}, SaslAuthenticationFailed, "the user or the password is wrong"),
        (
            {"sasl_mechanism": "OAUTHBEARER", "sasl_oauthbearer_token": "x"},
            UnsupportedSaslMechanism,
            "it offers: PLAIN, SCRAM",
        ),
        ({"ssl_ca_location": ""}, NetworkException, "certificate is not trusted"),
        ({"security_protocol": "PLAINTEXT"}, NetworkException, "did not answer as a broker does"),
        ({"password": ""}, SettingsError, "needs sasl.username and sasl.password"),
        ({"ssl_ca_location": "/nowhere"}, SettingsError, "/nowhere"),
    ],
)
async def test_a_login_that_fails_says_why(secured, change, error, message):
    settings = secured.settings(**change)
    with pytest.raises(error, match=message) as raised:
        await send(settings)
    assert "top-secret" not in str(raised.value)


async def test_logins_are_counted(secured):
    security = secured.broker._security
    assert security is not None
    assert (security.logins.succeeded, security.logins.failed) == (0, 0)
    with pytest.raises(SaslAuthenticationFailed):
        await send(secured.settings(password="wrong"))
    assert (security.logins.succeeded, security.logins.failed >= 1) == (0, True)
    await send(secured.settings())
    assert security.logins.succeeded >= 1


async def test_a_stranger_sends_little(tmp_path, files):
    async with running(tmp_path, files, listeners="SASL_PLAINTEXT://127.0.0.1:0") as secured:
        reader, writer = await asyncio.open_connection(*secured.broker.addresses[0])
        writer.write((1 << 20).to_bytes(4, "big"))
        assert await reader.read() == b""
        writer.close()
        async with Producer(secured.settings(security_protocol="SASL_PLAINTEXT")) as producer:
            sent = await producer.send("events", bytes(900_000))  # who is known may send more
            assert (await sent).offset == 0


async def test_nothing_is_served_before_the_login(secured):
    plain = secured.settings(security_protocol="SSL")
    with pytest.raises(KafkaError):
        await send(plain)


async def test_sessions_end_and_are_renewed(tmp_path, files):
    async with (
        running(tmp_path, files, connections_max_reauth_ms="300") as secured,
        Producer(secured.settings()) as producer,
    ):
        for number in range(8):
            sent = await producer.send("events", b"v")
            assert (await sent).offset == number
            await asyncio.sleep(
                0.1
            )  # real time: the session is the broker's, and ends by its clock


def test_no_secret_is_printed():
    settings = ClientSettings(bootstrap_servers=("x:1",), sasl_password="hush")
    assert "hush" not in repr(settings)
    security = ClientSecurity("SASL_SSL", "PLAIN", "alice", password="hush", key_password="hush")
    assert "hush" not in repr(security)
    assert "hush" not in repr(SecurityConfig(plain_users=("a:hush",), broker_password="hush"))


async def test_a_client_with_a_certificate_needs_no_password(tmp_path, files):
    async with running(
        tmp_path,
        files,
        listeners="SSL://127.0.0.1:0",
        ssl_client_auth="required",
        ssl_truststore_certificates=str(files / "ca.pem"),
    ) as secured:
        settings = secured.settings(security_protocol="SSL")
        with pytest.raises(KafkaError):
            await send(settings)
        assert await send(settings | {"ssl.certificate.location": str(files / "alice.pem")}) == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"ssl_keystore_certificate_chain": ""}, "ssl.keystore.certificate.chain"),
        ({"ssl_keystore_certificate_chain": "/nowhere.pem"}, "/nowhere.pem"),
        ({"sasl_plain_users": "bob"}, "entry 1 must be written as name:password"),
        ({"sasl_enabled_mechanisms": "OAUTHBEARER"}, "sasl.oauthbearer.jwks.endpoint.url"),
        ({"ssl_principal_mapping_rules": "RULE:x"}, "RULE:x"),
    ],
)
async def test_a_start_with_half_of_the_settings_is_refused(tmp_path, files, settings, message):
    with pytest.raises(StartError, match=message):
        async with running(tmp_path, files, **settings):
            pass


async def test_rules_are_made_listed_and_deleted(secured):
    async with Admin(secured.settings()) as admin:
        one = Acl("topic", "orders", "User:alice", "read")
        two = Acl("topic", "ord", "User:alice", "write", pattern_type="prefixed")
        three = Acl("group", "*", "User:*", "all", permission="deny", host="10.0.0.1")
        await admin.create_acls([one, two, three])
        await admin.create_acls([one])  # once more is no error, and no second rule
        assert set(await admin.describe_acls()) == {one, two, three}
        matching = AclFilter(resource_type="topic", resource_name="orders", pattern_type="match")
        assert set(await admin.describe_acls(matching)) == {one, two}
        assert await admin.delete_acls(AclFilter(principal="User:alice")) == [one, two]
        assert await admin.describe_acls() == [three]


@pytest.mark.parametrize(
    ("acl", "message"),
    [
        (Acl("topic", "a b", "User:x", "read"), "a b"),
        (Acl("topic", "a", "x", "read"), "User:name"),
        (Acl("topic", "a", "User:x", "read", host="h"), "'h' must be an address"),
        (Acl("cluster", "mine", "User:x", "alter"), "kafka-cluster"),
        (Acl("group", "g", "User:x", "write"), "WRITE is not done to a group"),
        (Acl("topic", "a", "User:x", "read", pattern_type="match"), "pattern type"),
    ],
)
async def test_bad_rules_change_nothing(secured, acl, message):
    async with Admin(secured.settings()) as admin:
        with pytest.raises(KafkaError, match=message):
            await admin.create_acls([acl])
        assert await admin.describe_acls() == []


async def test_quotas_are_set_found_and_removed(secured):
    async with Admin(secured.settings()) as admin:
        await admin.alter_client_quotas(
            {"user": "alice", "client-id": None}, {"producer_byte_rate": 1e6}
        )
        await admin.alter_client_quotas({"ip": "10.0.0.1"}, {"connection_creation_rate": 5})
        found = await admin.describe_client_quotas()
        assert len(found) == 2
        with pytest.raises(InvalidRequest, match="unknown quota 'speed'"):
            await admin.alter_client_quotas({"user": "alice"}, {"speed": 1})
        await admin.alter_client_quotas({"ip": "10.0.0.1"}, {"connection_creation_rate": None})
        assert len(await admin.describe_client_quotas()) == 1


async def test_users_rules_and_quotas_survive_a_restart(tmp_path, files):
    acl = Acl("topic", "orders", "User:alice", "read")
    async with running(tmp_path, files) as secured, Admin(secured.settings()) as admin:
        await admin.set_scram_password("alice", "wonder", mechanism="SCRAM-SHA-256")
        await admin.create_acls([acl])
        await admin.alter_client_quotas({"user": "alice"}, {"producer_byte_rate": 1e6})
    async with running(tmp_path, files) as secured:
        alice = secured.settings("alice", "wonder", sasl_mechanism="SCRAM-SHA-256")
        async with Admin(alice) as admin:
            assert await admin.describe_acls() == [acl]
            assert len(await admin.describe_client_quotas()) == 1


async def challenge(broker: Broker, user: str) -> tuple[int, bytes, bytes]:
    """What a stranger is shown of a user: the salt's length, the salt, the iterations."""
    assert broker._security is not None
    exchange = broker._security._exchange("SCRAM-SHA-512")
    answer, _ = exchange.respond(b"n,,n=%s,r=c" % user.encode())
    _, salt, iterations = answer.split(b",")
    return len(base64.b64decode(salt[2:])), salt, iterations


async def test_a_user_cannot_be_told_from_one_that_does_not_exist(tmp_path, files):
    async with running(tmp_path, files) as made:
        before = await challenge(made.broker, "nobody")
        async with Admin(made.settings()) as admin:
            await admin.set_scram_password("alice", "secret")
        alice, nobody = (
            await challenge(made.broker, "alice"),
            await challenge(made.broker, "nobody"),
        )
        assert (alice[0], alice[2]) == (nobody[0], nobody[2]) == (before[0], before[2])
    async with running(tmp_path, files) as made:  # a stranger who comes again after a restart
        assert await challenge(made.broker, "nobody") == nobody
        assert await challenge(made.broker, "alice") == alice


async def test_what_a_broker_writes_is_for_its_owner_alone(tmp_path, files):
    directory = tmp_path / "data"
    before = os.umask(0o022)
    try:
        async with running(directory, files) as made, Producer(made.settings()) as producer:
            await producer.send("orders", b"secret")
            await producer.flush()
            found = [directory, *directory.rglob("*")]
            assert len(found) > 10
            open_to_others = {
                str(each.relative_to(directory)): oct(each.stat().st_mode)
                for each in found
                if each.stat().st_mode & 0o077
            }
    finally:
        os.umask(before)
    assert open_to_others == {}
