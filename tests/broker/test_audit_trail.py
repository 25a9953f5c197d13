"""The audit trail: what is told, that nothing forges or floods it, and that it is written in the end."""

import asyncio
import json
import os
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tidelog.aio import Admin, Consumer
from tidelog.broker.audit_trail import _MOST_QUEUED, AuditTrail, FileSink
from tidelog.broker.audited import _BY_API
from tidelog.broker.broker import Broker
from tidelog.broker.dispatch import Handlers
from tidelog.broker.handlers.envelope import _client
from tidelog.broker.settings import BrokerSettings
from tidelog.client.admin_security import Acl
from tidelog.client.connection import Connection
from tidelog.client.security import ClientSecurity
from tidelog.clock import SystemClock
from tidelog.errors import KafkaError, SaslAuthenticationFailed, SettingsError
from tidelog.metastore.memory import MemoryMetastore, MemoryStore
from tidelog.network.peer import Address, Peer, Principal
from tidelog.protocol.codec import encode
from tidelog.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tidelog.protocol.messages.envelope import DefaultPrincipalData, EnvelopeRequest
from tidelog.testing.manual_clock import ManualClock

sys.path.append(str(Path(__file__).parents[1] / "fuzz"))

from instances import random_instance

WAIT_S = 60


def peer(name: str = "alice") -> Peer:
    made = Peer(Address("10.0.0.7", 4711), Address("10.0.0.1", 9092), "SASL_SSL")
    made.principal = Principal("User", name)
    return made


class MemorySink:
    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.broken = False

    def reach(self, config: Any, ensure_topic: Any) -> None: ...

    async def write(self, lines: Sequence[bytes]) -> None:
        if self.broken:
            raise OSError(28, "no space left")
        self.lines += lines

    async def close(self) -> None: ...

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(each) for each in self.lines]


async def test_who_says_that_another_has_asked_it_is_told():
    sink = MemorySink()
    trail = AuditTrail(sink, 0, ManualClock())
    admin = DefaultPrincipalData(type="User", name="admin")
    request = EnvelopeRequest(
        request_principal=b"\0\0" + encode(admin, 0), client_host_address=b"\1\2\3\4"
    )
    trail.created_automatically(["forged"], _client(request, peer("mallory")))
    trail.created_automatically(["own"], peer("mallory"))
    await trail.close()
    forged, own = sink.events
    assert (forged["principal"], forged["address"]) == ("User:admin", "1.2.3.4")
    assert forged["handed_on_by"] == "User:mallory 10.0.0.7"
    assert "handed_on_by" not in own


async def test_a_line_cannot_be_forged():
    sink = MemorySink()
    trail = AuditTrail(sink, 3, ManualClock())
    trail.login_failed(peer(), "PLAIN", 'eve\n{"event":"login"}\x1b[31m', "wrong" * 1_000)
    await trail.close()
    (line,) = sink.lines
    assert b"\n" not in line
    assert b"\x1b" not in line
    assert len(line) < 2_000
    told = json.loads(line)
    assert told == {
        "time": "2023-11-14T22:13:20.000+00:00",
        "broker": 3,
        "event": "login",
        "principal": "User:alice",
        "address": "10.0.0.7",
        "outcome": "failed",
        "error": "SaslAuthenticationFailed",
        "detail": {
            "mechanism": "PLAIN",
            "listener": "SASL_SSL",
            "user": 'eve\n{"event":"login"}\x1b[31m',
            "reason": ("wrong" * 100) + "…",
        },
    }


async def test_what_does_not_fit_is_counted():
    sink = MemorySink()
    sink.broken = True
    trail = AuditTrail(sink, 0, ManualClock())
    for number in range(_MOST_QUEUED + 7):
        trail.login(peer(f"user-{number}"), "PLAIN")
    await trail.close()  # which cannot write, and does not wait for ever
    assert sink.lines == []
    sink.broken = False
    await trail.close()
    assert len(sink.lines) == _MOST_QUEUED + 1
    assert [each["count"] for each in sink.events if each["event"] == "lost"] == [7]


async def test_what_could_not_be_written_is_tried_again(monkeypatch):
    monkeypatch.setattr("tidelog.broker.audit_trail._PAUSE_S", 0.001)
    sink = MemorySink()
    sink.broken = True
    trail = AuditTrail(sink, 0, ManualClock())
    running = asyncio.create_task(trail.run())
    trail.login(peer(), "PLAIN")
    await asyncio.sleep(0)
    sink.broken = False
    trail.login(peer("bob"), "PLAIN")
    async with asyncio.timeout(WAIT_S):
        await trail.settle()
    running.cancel()
    assert [each["principal"] for each in sink.events] == ["User:alice", "User:bob"]


async def test_those_who_come_again_and_again_do_not_crowd_out_the_rest():
    """A trail in a topic has a client of its own, which logs in again and again while it fails."""
    sink = MemorySink()
    trail = AuditTrail(sink, 0, ManualClock())
    for _ in range(_MOST_QUEUED):
        trail.login(peer("broker"), "PLAIN")
    trail.login(peer("bob"), "PLAIN")
    trail.login_failed(peer(), "PLAIN", "eve", "wrong")
    await trail.close()
    assert [each["principal"] for each in sink.events[-2:]] == ["User:bob", "User:alice"]
    assert len(sink.events) < 200


async def test_a_file_that_was_moved_away_is_begun_anew(tmp_path: Path):
    sink = FileSink(str(tmp_path / "trail"))
    await sink.write([b"one"])
    (tmp_path / "trail").rename(tmp_path / "old")
    await sink.write([b"two", b"three"])
    assert (tmp_path / "old").read_bytes() == b"one\n"
    assert (tmp_path / "trail").read_bytes() == b"two\nthree\n"
    assert (tmp_path / "trail").stat().st_mode & 0o777 == 0o600


def settings(directory: Path, trail: str, **more: str) -> BrokerSettings:
    return BrokerSettings.load(
        {
            "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
            "log.dirs": str(directory / "data"),
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.plain.users": "admin:top-secret,bob:builder",
            "authorizer.class.name": "acls",
            "super.users": "User:admin",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.inter.broker.username": "admin",
            "sasl.inter.broker.password": "top-secret",
            "connection.failed.authentication.delay.ms": "0",
            "audit.trail": trail,
            **more,
        }
    )


def login(broker: Broker, user: str = "admin", password: str = "top-secret") -> dict[str, Any]:
    return {
        "bootstrap.servers": str(broker.addresses[0]),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": password,
        "client.id": "test",
    }


async def change_everything(broker: Broker) -> None:
    async with Admin(login(broker)) as admin:
        await admin.create_topics({"orders": 2}, configs={"retention.ms": "1000"})
        await admin.alter_topic_configs("orders", {"retention.ms": "2000"})
        await admin.add_partitions("orders", 3)
        await admin.set_scram_password("carol", "hush-hush")
        await admin.create_acls([Acl("topic", "orders", "User:bob", "read")])
        await admin.alter_client_quotas({"user": "bob"}, {"producer_byte_rate": 1000.0})
    async with Admin(login(broker, "bob", "builder")) as admin:
        with pytest.raises(KafkaError):
            await admin.delete_topics(["orders"])
    async with Admin(login(broker, "bob", "guessed")) as admin:
        with pytest.raises(SaslAuthenticationFailed):
            await admin.list_topics()
    async with Admin(login(broker)) as admin:
        await admin.delete_topics(["orders"])


def check(events: list[dict[str, Any]]) -> None:
    told = [
        (each["event"], each["principal"], each.get("resource", ""), each["outcome"])
        for each in events
    ]
    for expected in (
        ("login", "User:admin", "", "done"),
        ("topic.create", "User:admin", "orders", "done"),
        ("settings.change", "User:admin", "topic:orders", "done"),
        ("topic.partitions", "User:admin", "orders", "done"),
        ("user.set", "User:admin", "carol", "done"),
        ("rule.add", "User:admin", "orders", "done"),
        ("quota.change", "User:admin", "user:bob", "done"),
        ("login", "User:bob", "", "done"),
        ("topic.delete", "User:bob", "orders", "failed"),
        ("login", "User:ANONYMOUS", "", "failed"),
        ("topic.delete", "User:admin", "orders", "done"),
    ):
        assert expected in told, expected
    assert all(each["address"] == "127.0.0.1" for each in events)
    failed = next(e for e in events if e["event"] == "login" and e["outcome"] == "failed")
    assert failed["detail"]["user"] == "bob"
    text = json.dumps(events)
    assert not any(secret in text for secret in ("hush-hush", "top-secret", "builder", "guessed"))


async def test_logins_and_changes_are_in_the_file(tmp_path: Path):
    path = tmp_path / "trail.jsonl"
    broker = Broker(settings(tmp_path, f"file:{path}"))
    await broker.start()
    try:
        await change_everything(broker)
    finally:
        await broker.stop()
    check([json.loads(each) for each in path.read_text().splitlines()])


async def test_or_in_a_topic(tmp_path: Path):
    broker = Broker(settings(tmp_path, "topic:audit"))
    await broker.start()
    try:
        await change_everything(broker)
        assert broker._security is not None
        async with asyncio.timeout(WAIT_S):
            await broker._security.settle_trail()
        events = []
        options = {"auto.offset.reset": "earliest", "group.id": "auditors"}
        async with (
            asyncio.timeout(WAIT_S),
            Consumer(login(broker) | options, topics=["audit"]) as consumer,
        ):
            async for message in consumer:
                events.append(json.loads(message.value))
                if events[-1]["event"] == "topic.delete" and events[-1]["outcome"] == "done":
                    break
    finally:
        await broker.stop()
    check(events)


async def test_what_another_broker_handed_on_is_told_once_with_the_clients_name(tmp_path: Path):
    store = MemoryStore()
    brokers = []
    for number in (0, 1):
        more = {"broker.id": str(number), "log.dirs": str(tmp_path / f"data-{number}")}
        given = settings(tmp_path, f"file:{tmp_path}/trail-{number}", **more)
        metastore = MemoryMetastore(store, SystemClock())
        brokers.append(Broker(given, metastore=metastore))
    await asyncio.gather(*(each.start() for each in brokers))
    try:
        assert store.leader is not None
        other = brokers[1 - store.leader.member]
        bob = ClientSecurity("SASL_PLAINTEXT", mechanism="PLAIN", user="bob", password="builder")
        host, port = other.addresses[0]
        connection = await Connection.open(
            host, port, client_id="test", timeout_s=WAIT_S, security=bob
        )
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name="orders")])
        await connection.ask(request, timeout_s=WAIT_S)
        connection.close()
    finally:
        await asyncio.gather(*(each.stop() for each in brokers))
    events = [
        json.loads(line)
        for number in (0, 1)
        for line in (tmp_path / f"trail-{number}").read_text().splitlines()
    ]
    told = [each for each in events if each["event"] == "topic.delete"]
    assert [(each["principal"], each["address"], each["outcome"]) for each in told] == [
        ("User:bob", "127.0.0.1", "failed")
    ]


@pytest.mark.parametrize("api_key", sorted(_BY_API))
async def test_whatever_is_answered_can_be_told(api_key: int):
    """Also an error for everything that was asked for, and requests that make no sense."""
    handler = Handlers().get(api_key)
    assert handler is not None
    sink = MemorySink()
    trail = AuditTrail(sink, 0, ManualClock())
    choose = random.Random(api_key)
    trail.changed(api_key, handler.request(), handler.request.response(), peer())
    for version in range(handler.versions.first, handler.versions.last + 1):
        for _ in range(20):
            request = random_instance(choose, handler.request, version)
            answer = random_instance(choose, handler.request.response, version)
            trail.changed(api_key, request, answer, peer())
    await trail.close()
    assert sink.events
    assert all(each["event"] for each in sink.events)


@pytest.mark.parametrize("where", ["/var/log/audit", "file:", "topic:", "topic:no good", "kafka:x"])
def test_a_place_that_is_none(where: str):
    with pytest.raises(SettingsError, match="file:PATH or topic:NAME"):
        BrokerSettings.load({"audit.trail": where})


async def test_a_disk_that_is_full_does_not_stop_the_broker(tmp_path: Path):
    broker = Broker(settings(tmp_path, f"file:{tmp_path}/nowhere/trail"))
    await broker.start()
    try:
        async with Admin(login(broker)) as admin:
            await admin.create_topics(["orders"])
        os.mkdir(tmp_path / "nowhere")  # it is mended
    finally:
        await broker.stop()
    assert "topic.create" in (tmp_path / "nowhere/trail").read_text()
