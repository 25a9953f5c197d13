"""Foreign clients against a secured broker: logins over TLS, certificates, access rules, renewals."""

import asyncio
import socket
import ssl
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parent.parent))

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, Producer
from kafka import KafkaConsumer, KafkaProducer
from secured import SECRET, Files, as_user, broker_settings, secured_broker

from tidelog import Admin
from tidelog import Producer as OurProducer
from tidelog.client.admin_security import Acl
from tidelog.errors import NetworkException
from tidelog.testing.local_broker import LocalBroker

pytestmark = pytest.mark.compat

TOPIC, GROUPS = "orders", "readers"
PATIENCE_S = 90.0
VALUES = [b"one", b"two", b"three"]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, files: Files) -> Iterator[LocalBroker]:
    """One for all: logins on its first listener, certificates on its second."""
    made = secured_broker(
        tmp_path_factory.mktemp("secured"),
        files,
        ssl_client_auth="requested",
        ssl_principal_mapping_rules="RULE:^.*CN=([^,]+).*$/$1/,DEFAULT",
    )
    made.arguments += ["--listen", "SSL://127.0.0.1:0"]
    with made as broker:
        with Admin(as_user(broker.bootstrap, files)) as admin:
            admin.set_scram_password("alice", "wonderland", mechanism="SCRAM-SHA-512")
            admin.set_scram_password("alice", "wonderland", mechanism="SCRAM-SHA-256")
            admin.create_topics([TOPIC, "hidden"])
            who = "User:alice"
            admin.create_acls(
                [
                    Acl("topic", TOPIC, who, "read"),
                    Acl("topic", TOPIC, who, "write"),
                    Acl("group", GROUPS, who, "read", pattern_type="prefixed"),
                ]
            )
        yield broker
        assert SECRET not in broker.log()
        assert "wonderland" not in broker.log()
        assert "Traceback" not in broker.log(), broker.log()


@pytest.fixture(scope="module")
def alice(files: Files) -> Path:
    return files.issue("alice", "alice@example.org", common_name="alice")


def second_address(broker: LocalBroker) -> str:
    return (broker.directory / "ready").read_text().splitlines()[1]


# ---------------------------------------------------------------------- the clients

Settings = dict[str, Any]
"""As librdkafka calls them; the others are told in their words."""


def with_confluent(settings: Settings, group: str) -> list[bytes]:
    producer = Producer(settings)
    failed: list[object] = []
    for value in VALUES:
        producer.produce(TOPIC, value, on_delivery=lambda error, _: error and failed.append(error))
    assert producer.flush(PATIENCE_S) == 0
    assert not failed, failed
    consumer = Consumer({**settings, "group.id": group, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([TOPIC])
        found: list[bytes] = []
        until = time.monotonic() + PATIENCE_S
        while len(found) < len(VALUES) and time.monotonic() < until:
            message = consumer.poll(1.0)
            if message is not None:
                assert message.error() is None, message.error()
                found.append(message.value())
        return found
    finally:
        consumer.close()


def with_kafka_python(settings: Settings, group: str) -> list[bytes]:
    given = _python_names(settings)
    for name, value in (
        ("ssl_cafile", "ssl.ca.location"),
        ("ssl_certfile", "ssl.certificate.location"),
        ("ssl_keyfile", "ssl.key.location"),
    ):
        if value in settings:
            given[name] = settings[value]
    producer = KafkaProducer(**given)
    for value in VALUES:
        producer.send(TOPIC, value).get(PATIENCE_S)
    producer.close()
    consumer = KafkaConsumer(
        TOPIC,
        group_id=group,
        auto_offset_reset="earliest",
        consumer_timeout_ms=int(PATIENCE_S * 1000),
        **given,
    )
    try:
        return [each.value for _, each in zip(VALUES, consumer, strict=False)]
    finally:
        consumer.close()


def with_aiokafka(settings: Settings, group: str) -> list[bytes]:
    given = _python_names(settings)
    context = ssl.create_default_context(cafile=settings["ssl.ca.location"])
    if "ssl.certificate.location" in settings:
        context.load_cert_chain(settings["ssl.certificate.location"])
    given["ssl_context"] = context

    async def go() -> list[bytes]:
        async with AIOKafkaProducer(**given) as producer:
            for value in VALUES:
                await producer.send_and_wait(TOPIC, value)
        async with AIOKafkaConsumer(
            TOPIC, group_id=group, auto_offset_reset="earliest", **given
        ) as consumer:
            return [(await consumer.getone()).value for _ in VALUES]

    return asyncio.run(asyncio.wait_for(go(), PATIENCE_S))


def _python_names(settings: Settings) -> Settings:
    given = {
        "bootstrap_servers": settings["bootstrap.servers"],
        "security_protocol": settings["security.protocol"],
    }
    if "sasl.username" in settings:
        given["sasl_mechanism"] = settings["sasl.mechanism"]
        given["sasl_plain_username"] = settings["sasl.username"]
        given["sasl_plain_password"] = settings["sasl.password"]
    return given


CLIENTS = [with_confluent, with_kafka_python, with_aiokafka]
Client = Callable[[Settings, str], list[bytes]]


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_login_over_tls(
    broker: LocalBroker, files: Files, client: Client, mechanism: str, unique: Callable[[str], str]
) -> None:
    settings = as_user(broker.bootstrap, files, "alice", "wonderland", mechanism)
    assert len(client(settings, unique(GROUPS))) == len(VALUES)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_certificate_is_enough(
    broker: LocalBroker, files: Files, alice: Path, client: Client, unique: Callable[[str], str]
) -> None:
    settings = {
        "bootstrap.servers": second_address(broker),
        "security.protocol": "SSL",
        "ssl.ca.location": str(files.roots),
        "ssl.certificate.location": str(alice),
        "ssl.key.location": str(alice),
    }
    assert len(client(settings, unique(GROUPS))) == len(VALUES)


def test_what_is_not_allowed_is_refused_by_its_name(broker: LocalBroker, files: Files) -> None:
    settings = as_user(broker.bootstrap, files, "alice", "wonderland", "SCRAM-SHA-512")
    errors: list[KafkaError] = []
    producer = Producer(settings)
    producer.produce("hidden", b"v", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(PATIENCE_S) == 0
    assert [each.code() for each in errors] == [KafkaError.TOPIC_AUTHORIZATION_FAILED]
    assert "hidden" not in producer.list_topics(timeout=PATIENCE_S).topics


def test_a_wrong_password_is_one_clear_line(broker: LocalBroker, files: Files) -> None:
    told: list[KafkaError] = []
    settings = as_user(broker.bootstrap, files, "alice", "looking-glass", "SCRAM-SHA-512")
    producer = Producer({**settings, "error_cb": told.append})
    until = time.monotonic() + PATIENCE_S
    while not told and time.monotonic() < until:
        producer.poll(0.2)
    assert told[0].code() == KafkaError._AUTHENTICATION
    lines = [each for each in broker.log().splitlines() if "a login from" in each]
    assert lines
    assert "looking-glass" not in broker.log()


# ---------------------------------------------------------------------- renewals


def test_certificates_are_renewed_without_a_restart(broker: LocalBroker, files: Files) -> None:
    def served() -> bytes:
        context = ssl.create_default_context(cafile=str(files.roots))
        with (
            socket.create_connection((broker.host, broker.port), timeout=PATIENCE_S) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as secure,
        ):
            found = secure.getpeercert(binary_form=True)
            assert found is not None
            return found

    before = served()
    files.issue("server", "localhost", "127.0.0.1")
    renewed = served()
    assert renewed != before
    good = files.server.read_text()
    files.server.write_text("no certificate")
    assert served() == renewed
    assert "the old certificate stays in use" in broker.log()
    files.server.write_text(good)


def test_sessions_are_renewed_by_librdkafka(tmp_path: Path, files: Files) -> None:
    with secured_broker(tmp_path, files, connections_max_reauth_ms="4000") as broker:
        settings = as_user(broker.bootstrap, files)
        producer = Producer({**settings, "linger.ms": 0})
        failed: list[object] = []
        sent, until = (
            0,
            time.monotonic() + 10.0,
        )  # three sessions; librdkafka renews them when a tenth is left
        while time.monotonic() < until:
            producer.produce(
                "events", b"v", on_delivery=lambda error, _: error and failed.append(error)
            )
            sent += 1
            assert producer.flush(PATIENCE_S) == 0
        assert not failed, failed
        assert sent > 10
        assert "did not log in again" not in broker.log()


def test_an_expired_certificate_is_one_clear_line(tmp_path: Path) -> None:
    files = Files(tmp_path)
    files.issue("server", "localhost", "127.0.0.1", expired=True)
    with secured_broker(tmp_path, files) as broker:
        settings = as_user(broker.bootstrap, files)
        with (
            pytest.raises(NetworkException, match="certificate has expired") as raised,
            OurProducer({**settings, "socket.connection.setup.timeout.ms": "5000"}) as producer,
        ):
            producer.send("events", b"v").result()
        assert "\n" not in str(raised.value)


# ---------------------------------------------------------------------- a cluster


def test_three_brokers_that_log_in_to_each_other(tmp_path: Path, files: Files) -> None:
    settings = broker_settings(
        files,
        default_replication_factor="3",
        min_insync_replicas="2",
        offsets_topic_replication_factor="3",
    )
    made = [
        LocalBroker(
            tmp_path / str(number),
            settings=settings,
            protocol="SASL_SSL",
            arguments=["--broker-id", str(number), "--metastore", f"sqlite:{tmp_path}/cluster"],
        )
        for number in range(3)
    ]
    try:
        for each in made:
            each.start()
        where = ",".join(each.bootstrap for each in made)
        with Admin(as_user(where, files)) as admin:
            admin.set_scram_password("bob", "builder")
            rules = [Acl("topic", "*", "User:bob", what) for what in ("create", "write", "read")]
            admin.create_acls([*rules, Acl("group", "*", "User:bob", "read")])
        settings = as_user(where, files, "bob", "builder", "SCRAM-SHA-512")
        assert len(with_confluent(settings, "all")) == len(VALUES)
        with Admin(as_user(where, files)) as admin:
            (partition,) = admin.describe_topics([TOPIC])[TOPIC].partitions
            assert len(partition.replicas) == len(partition.isr) == 3
        made[partition.leader].kill()
        assert len(with_confluent(settings, "after-a-death")) == len(VALUES)
        for each in made:
            assert "Traceback" not in each.log(), each.log()
            assert SECRET not in each.log()
    finally:
        for each in made:
            each.close()
