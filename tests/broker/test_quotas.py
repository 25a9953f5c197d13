"""Quotas on a whole broker, seen from sockets: who is held, and who is let go again."""

import contextlib
import select
import socket
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from hot_path import batch, produce_request

from tidelog import Admin
from tidelog.broker.settings import BrokerSettings
from tidelog.errors import InvalidRequest, SettingsError
from tidelog.protocol.frame import decode_response, encode_request
from tidelog.protocol.messages.api_versions import ApiVersionsRequest
from tidelog.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from tidelog.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tidelog.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tidelog.protocol.messages.heartbeat import HeartbeatRequest
from tidelog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.testing.thread_broker import ThreadBroker

PRODUCER, CONSUMER, TIME = "producer_byte_rate", "consumer_byte_rate", "request_percentage"
MUTATIONS, CONNECTIONS = "controller_mutation_rate", "connection_creation_rate"
THROTTLING_QUOTA_EXCEEDED, LEADER_NOT_AVAILABLE, TOPIC_ALREADY_EXISTS = 89, 5, 36
PATIENCE_S = 60


class Wire:
    """A client that takes no notice of throttle times."""

    def __init__(self, broker: ThreadBroker, client_id: str = "old") -> None:
        self._sock = socket.create_connection(("127.0.0.1", broker.port), PATIENCE_S)
        self._client_id = client_id
        self._asked: list[tuple[Any, int]] = []

    def send(self, request: Any, version: int) -> None:
        self._asked.append((request, version))
        self._sock.sendall(encode_request(request, version, 1, self._client_id))

    def receive(self) -> Any:
        request, version = self._asked.pop(0)
        (size,) = struct.unpack(">i", self._read(4))
        return decode_response(request.response, self._read(size), version)[1]

    def ask(self, request: Any, version: int) -> Any:
        self.send(request, version)
        return self.receive()

    def is_silent(self, broker: ThreadBroker) -> bool:
        """Whether nothing has come although the broker has had its turn."""
        with contextlib.closing(Wire(broker, "bystander")) as other:
            for _ in range(5):
                other.ask(ApiVersionsRequest(), 3)
        return not select.select([self._sock], [], [], 0)[0]

    def close(self) -> None:
        self._sock.close()

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            got = self._sock.recv(size - len(data))
            if not got:
                raise ConnectionError("the broker closed the connection")
            data += got
        return data


@pytest.fixture
def broker() -> Iterator[ThreadBroker]:
    with ThreadBroker({"num.partitions": "1"}) as made:
        made.call("create_topic", topic="events", partitions=2, configs={}, again=False)
        yield made


@pytest.fixture
def admin(broker: ThreadBroker) -> Iterator[Admin]:
    with Admin({"bootstrap.servers": broker.bootstrap}) as made:
        yield made


def much(version_bytes: int = 50_000) -> Any:
    return produce_request(batch(b"x" * version_bytes), acks=1)


@pytest.mark.parametrize("version", [3, 9])
def test_a_client_that_ignores_throttle_times_is_held(broker, admin, version):
    admin.alter_client_quotas({"client-id": "old"}, {PRODUCER: 200})
    with contextlib.closing(Wire(broker)) as wire:
        for _ in range(3):
            wire.send(much(), version)
        told = wire.receive()
        assert told.throttle_time_ms == 25_000
        assert wire.is_silent(broker)
        broker.call("advance", seconds=26)
        assert wire.receive().throttle_time_ms == 25_000
        assert wire.is_silent(broker)
        broker.call("advance", seconds=26)
        wire.receive()


@pytest.mark.parametrize("change", [{PRODUCER: None}, {PRODUCER: 1e9}])
def test_who_is_held_by_a_quota_that_is_changed_may_go_on_at_once(broker, admin, change):
    admin.alter_client_quotas({"client-id": "old"}, {PRODUCER: 1})
    with contextlib.closing(Wire(broker)) as wire:
        assert wire.ask(much(), 9).throttle_time_ms == 25_000
        wire.send(much(), 9)
        assert wire.is_silent(broker)
        admin.alter_client_quotas({"client-id": "somebody"}, {PRODUCER: 1})
        assert wire.is_silent(broker)
        admin.alter_client_quotas({"client-id": "old"}, change)
        assert wire.receive().throttle_time_ms == 0


def test_a_quota_takes_effect_on_connections_that_are_open_already(broker, admin):
    with contextlib.closing(Wire(broker)) as wire:
        assert wire.ask(much(), 9).throttle_time_ms == 0
        admin.alter_client_quotas({"client-id": "old"}, {PRODUCER: 1000})
        assert wire.ask(much(), 9).throttle_time_ms == 25_000


def test_quotas_hold_after_a_restart_and_debts_are_forgotten(broker, admin):
    admin.alter_client_quotas({"client-id": "old"}, {PRODUCER: 10_000})
    with contextlib.closing(Wire(broker)) as wire:
        assert wire.ask(much(90_000), 9).throttle_time_ms == 0
        assert wire.ask(much(900_000), 9).throttle_time_ms > 0
    broker.restart()
    with contextlib.closing(Wire(broker)) as wire:
        assert wire.ask(much(90_000), 9).throttle_time_ms == 0
        assert wire.ask(much(900_000), 9).throttle_time_ms > 0


def test_time_is_limited_for_every_request(broker, admin):
    admin.alter_client_quotas({"client-id": "old"}, {TIME: 0.000_001})
    with contextlib.closing(Wire(broker)) as wire, contextlib.closing(Wire(broker, "new")) as new:
        told = [wire.ask(HeartbeatRequest(group_id="g"), 4).throttle_time_ms]
        assert told == [1000]
        wire.send(HeartbeatRequest(group_id="g"), 4)
        assert wire.is_silent(broker)
        assert new.ask(HeartbeatRequest(group_id="g"), 4).throttle_time_ms == 0
        broker.call("advance", seconds=2)
        assert wire.receive().throttle_time_ms == 1000


# ---------------------------------------------------------------------- changes of metadata


def creation(*names: str, partitions: int = 20, validate_only: bool = False) -> Any:
    topics = [
        CreatableTopic(name=name, num_partitions=partitions, replication_factor=1) for name in names
    ]
    return CreateTopicsRequest(topics=topics, timeout_ms=30_000, validate_only=validate_only)


def test_who_changes_too_much_is_refused(broker, admin):
    admin.alter_client_quotas({"client-id": "old"}, {MUTATIONS: 1})
    with contextlib.closing(Wire(broker)) as wire:
        assert wire.ask(creation("x", partitions=500, validate_only=True), 6).throttle_time_ms == 0
        made = wire.ask(creation("a", "b"), 6)
        assert [each.error_code for each in made.topics] == [0, THROTTLING_QUOTA_EXCEEDED]
        assert "controller_mutation_rate=1" in made.topics[1].error_message
        assert made.throttle_time_ms == 9_000  # eleven are free
        wire.send(creation("b", partitions=1), 6)
        assert wire.is_silent(broker)
        broker.call("advance", seconds=10)
        assert wire.receive().topics[0].error_code == 0


def test_a_client_that_does_not_know_the_error_gets_its_topics_and_is_held(broker, admin):
    admin.alter_client_quotas({"client-id": "old"}, {MUTATIONS: 1})
    with contextlib.closing(Wire(broker)) as wire:
        made = wire.ask(creation("a", "b"), 5)
        assert [each.error_code for each in made.topics] == [0, 0]
        assert made.throttle_time_ms == 25_000
        wire.send(creation("c"), 5)
        assert wire.is_silent(broker)


def test_what_fails_is_not_paid_for(broker, admin):
    admin.alter_client_quotas({"client-id": "old"}, {MUTATIONS: 1})
    with contextlib.closing(Wire(broker)) as wire:
        for _ in range(3):
            made = wire.ask(creation("events"), 6)
            assert made.topics[0].error_code == TOPIC_ALREADY_EXISTS
            assert made.throttle_time_ms == 0


def test_partitions_are_paid_for_when_they_are_added_and_when_they_go(broker, admin):
    broker.call("create_topic", topic="large", partitions=30, configs={}, again=False)
    admin.alter_client_quotas({"client-id": "old"}, {MUTATIONS: 1})
    more = [CreatePartitionsTopic(name="events", count=32, assignments=None)]
    with contextlib.closing(Wire(broker)) as wire:
        grown = wire.ask(CreatePartitionsRequest(topics=more, timeout_ms=30_000), 3)
        assert grown.results[0].error_code == 0
        assert grown.throttle_time_ms == 19_000
    gone = DeleteTopicsRequest(topics=[DeleteTopicState(name="large")], timeout_ms=30_000)
    with contextlib.closing(Wire(broker)) as wire:
        refused = wire.ask(gone, 6)
        assert refused.responses[0].error_code == THROTTLING_QUOTA_EXCEEDED
        assert refused.throttle_time_ms > 0
    again = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name="events", count=33, assignments=None)], timeout_ms=30_000
    )
    with contextlib.closing(Wire(broker)) as wire:
        assert wire.ask(again, 3).results[0].error_code == THROTTLING_QUOTA_EXCEEDED
    broker.call("advance", seconds=20)
    with contextlib.closing(Wire(broker)) as wire:
        answer = wire.ask(gone, 6)
        assert answer.responses[0].error_code == 0
        assert answer.throttle_time_ms > 10_000


def test_topics_that_are_made_by_asking_for_them_are_paid_for_too(broker, admin):
    admin.alter_client_quotas({"client-id": "old"}, {MUTATIONS: 0.1})

    def asked(wire: Wire, *names: str) -> list[int]:
        topics = [MetadataRequestTopic(name=name) for name in names]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=True)
        return [each.error_code for each in wire.ask(request, 9).topics]

    with contextlib.closing(Wire(broker)) as wire:
        assert asked(wire, "one", "two") == [0, 0]
        assert asked(wire, "three", "one") == [LEADER_NOT_AVAILABLE, 0]
        broker.call("advance", seconds=30)
        assert asked(wire, "three") == [0]


# ---------------------------------------------------------------------- connections


def test_an_address_that_connects_too_often_is_refused(broker, admin):
    admin.alter_client_quotas({"ip": "127.0.0.1"}, {CONNECTIONS: 0.01})
    admin.alter_client_quotas({"ip": None}, {CONNECTIONS: 1000})
    with contextlib.ExitStack() as stack:
        first, refused = (stack.enter_context(contextlib.closing(Wire(broker))) for _ in range(2))
        first.ask(ApiVersionsRequest(), 3)
        with pytest.raises(ConnectionError):
            refused.ask(ApiVersionsRequest(), 3)
        first.ask(ApiVersionsRequest(), 3)  # who is connected stays so
        broker.call("advance", seconds=300)
        stack.enter_context(contextlib.closing(Wire(broker))).ask(ApiVersionsRequest(), 3)
        admin.alter_client_quotas({"ip": "127.0.0.1"}, {CONNECTIONS: None})
        for _ in range(30):
            stack.enter_context(contextlib.closing(Wire(broker))).ask(ApiVersionsRequest(), 3)


@pytest.mark.parametrize("prefix", ["", "listener.name.plaintext."])
def test_connections_above_the_brokers_rate_wait(prefix):
    name = f"{prefix}max.connection.creation.rate"
    windows = {"quota.window.num": "2", "quota.window.size.seconds": "60"}
    with ThreadBroker({name: "1", **windows}) as broker, contextlib.ExitStack() as stack:
        lines = [stack.enter_context(contextlib.closing(Wire(broker))) for _ in range(63)]
        for each in lines[:60]:  # what a window allows
            each.ask(ApiVersionsRequest(), 0)
        lines[-1].send(ApiVersionsRequest(), 0)
        broker.call("leaders", topic="x")  # the broker has had its turn
        assert not select.select([lines[-1]._sock], [], [], 0)[0]
        for _ in range(3):
            broker.call("advance", seconds=100)
        assert lines[-1].receive().error_code == 0


# ---------------------------------------------------------------------- what cannot be asked for


@pytest.mark.parametrize(
    ("entity", "change", "message"),
    [
        ({"user": "a"}, {"speed": 1}, "unknown quota 'speed'; these are known: consumer_byte_rate"),
        ({"ip": "10.0.0.1"}, {PRODUCER: 1}, "unknown quota 'producer_byte_rate'"),
        ({"ip": "10.0.0.1", "user": "a"}, {CONNECTIONS: 1}, "cannot name a user"),
        ({"user": "a"}, {PRODUCER: 0}, "must be a number above 0"),
        ({"user": "a"}, {PRODUCER: float("nan")}, "must be a number above 0"),
        ({"group": "a"}, {PRODUCER: 1}, "'group' is none of them"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_changed(admin, entity, change, message):
    with pytest.raises(InvalidRequest, match=message):
        admin.alter_client_quotas(entity, change)
    assert admin.describe_client_quotas() == []


def test_settings_of_one_listener_are_checked():
    name = "listener.name.plaintext.max.connection.creation.rate"
    with pytest.raises(SettingsError, match=f"{name}='0' must be at least 1"):
        BrokerSettings.load({name: "0"})
    assert BrokerSettings.load({name: "5"}).connection_rates() == {"PLAINTEXT": 5}
    assert BrokerSettings.load({name: "5"}).unused == ()
