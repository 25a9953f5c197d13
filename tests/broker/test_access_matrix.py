"""Nobody gets an answer that he may not have: every API, with no rule, with the rules it takes, and with a deny."""

import contextlib
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import pytest_asyncio
from access_cases import AUTHORISATION, CASES, QUOTA, RULE, SCRAM, Case, Need, codes, made, wrapped
from hot_path import batch, joined, settled

from tidelog.broker.authorizer import AclAuthorizer
from tidelog.broker.broker import Broker
from tidelog.broker.context import Services
from tidelog.broker.dispatch import Dispatcher, Handlers
from tidelog.broker.permissions import anybody, by_item
from tidelog.broker.settings import BrokerSettings
from tidelog.network.peer import Address, Peer, Principal
from tidelog.protocol.codec import encode
from tidelog.protocol.frame import decode_response, encode_request
from tidelog.protocol.messages.create_topics import CreateTopicsResponse
from tidelog.protocol.messages.envelope import DefaultPrincipalData
from tidelog.security.acls import Acl, Operation, PatternType, Permission, Resource
from tidelog.security.config import SecurityConfig

one_loop = pytest.mark.asyncio(loop_scope="module")

OPEN_TO_ALL = {
    "ApiVersions",
    "SaslHandshake",
    "SaslAuthenticate",
    "DescribeCluster",
    # Kafka asks for no rights either: a client tells of itself, and learns nothing but what is wanted of it.
    "GetTelemetrySubscriptions",
    "PushTelemetry",
}


class World:
    """A broker whose rules and clients are made up, so that each case has its own."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self.raw = b""
        """The last answer."""
        self._access = SimpleNamespace(acls=frozenset[Acl]())
        config = SecurityConfig(super_users="User:admin")
        services.authorizer = AclAuthorizer(
            lambda: SimpleNamespace(access=self._access),  # type: ignore[arg-type,return-value]
            lambda: config,
        )
        self._dispatcher = Dispatcher(services)
        self._by_name = {each.name: each for each in services.handlers}

    def rule(self, allowed: Iterable[Need], denied: Iterable[Need] = ()) -> None:
        """What mallory may and may not do."""
        told = [(each, Permission.ALLOW) for each in allowed]
        told += [(each, Permission.DENY) for each in denied]
        self._access = SimpleNamespace(
            acls=frozenset(
                Acl(where.type, where.name, PatternType.LITERAL, "User:mallory", "*", what, how)
                for (what, where), how in told
            )
        )

    async def ask(
        self, api: str, body: dict[str, Any], version: int | None = None, user: str = "mallory"
    ) -> Any:
        handler = self._by_name[api]
        version = handler.versions.last if version is None else version
        peer = Peer(Address("127.0.0.1", 5), Address("127.0.0.1", 9092), "PLAINTEXT")
        peer.principal = Principal("User", user)
        frame = encode_request(made(handler.request, body), version, 7, "c")
        self.raw = joined(await settled(self._dispatcher.serve(peer, memoryview(frame)[4:])))
        return decode_response(handler.request.response, self.raw[4:], version)[1]

    async def answer(self, case: Case) -> tuple[set[int], str]:
        answer = await self.ask(case.api, case.body, case.version)
        return codes(answer), repr(answer) + self.raw.decode("latin-1")


@contextlib.asynccontextmanager
async def made_world(directory: Path) -> AsyncIterator[World]:
    caught: list[Services] = []

    def intercept(serving: Any, services: Services) -> Any:
        caught.append(services)
        return serving

    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": str(directory),
        "node.id": "1",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
        "group.initial.rebalance.delay.ms": "0",
    }
    broker = Broker(BrokerSettings.load(settings), intercept=intercept)
    await broker.start()
    try:
        world = World(caught[0])
        await furnish(world)
        yield world
    finally:
        await broker.stop()


async def furnish(world: World) -> None:
    """What the cases are about."""

    async def ask(api: str, **body: Any) -> None:
        assert not codes(await world.ask(api, body, user="admin")), api

    topic = {"name": "orders", "num_partitions": 1, "replication_factor": 1}
    await ask("CreateTopics", topics=[topic])
    records = [{"index": 0, "records": bytes(batch(b"a secret order"))}]
    data = [{"name": "orders", "partition_data": records}]
    await ask("Produce", acks=-1, timeout_ms=5000, topic_data=data)
    await ask("FindCoordinator", key_type=0, coordinator_keys=["readers"])
    await ask("FindCoordinator", key_type=1, coordinator_keys=["payments"])
    partition = {"partition_index": 0, "committed_offset": 1}
    await ask(
        "OffsetCommit",
        group_id="readers",
        generation_id_or_member_epoch=-1,
        topics=[{"name": "orders", "partitions": [partition]}],
    )
    await ask("InitProducerId", transactional_id="payments", transaction_timeout_ms=60_000)
    await ask("CreateAcls", creations=[RULE | {"principal": "User:witness"}])
    await ask("AlterClientQuotas", entries=[QUOTA])
    await ask("AlterUserScramCredentials", upsertions=[SCRAM | {"name": "witness"}])


@pytest.fixture(scope="module")
def directory(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("access")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(directory) -> AsyncIterator[World]:
    async with made_world(directory) as found:
        yield found


def expect_refusal(case: Case, found: set[int], text: str) -> None:
    if case.refused:
        assert found & AUTHORISATION, found
        assert found <= AUTHORISATION | case.also, "something else is told about what is hidden"
    else:
        assert not found
    assert not case.shows or case.shows not in text


@pytest.mark.parametrize("case", CASES, ids=str)
@one_loop
async def test_who_is_allowed(world, case):
    world.rule(())
    found, text = await world.answer(case)
    expect_refusal(case, found, text)
    assert not case.refused or case.refused in found

    for missing in case.needs:
        world.rule([each for each in case.needs if each != missing])
        expect_refusal(case, *await world.answer(case))
        world.rule(case.needs, denied=[missing])
        expect_refusal(case, *await world.answer(case))

    world.rule(case.needs)
    found, text = await world.answer(case)
    assert not found & AUTHORISATION, "with its rules it is allowed"
    assert case.shows in text


def test_every_api_has_a_case():
    known = {each.name for each in Handlers()}
    assert {case.api for case in CASES} | OPEN_TO_ALL == known


def test_an_error_of_the_whole_has_a_place_in_the_response():
    for handler in Handlers():
        if handler.allow not in (anybody, by_item):
            assert "error_code" in handler.request.response.__fields__, handler.name
        assert (handler.allow is anybody) == (handler.name in OPEN_TO_ALL), handler.name


@one_loop
async def test_operations_are_told_truthfully(world):
    orders = Resource.topic("orders")
    asked = {
        "topics": [{"name": "orders"}],
        "include_topic_authorized_operations": True,
    }
    world.rule([(Operation.READ, orders)])
    answer = await world.ask("Metadata", asked)
    bits = answer.topics[0].topic_authorized_operations
    assert bits == 1 << Operation.READ | 1 << Operation.DESCRIBE
    about_cluster = {"include_cluster_authorized_operations": True}
    assert (await world.ask("DescribeCluster", about_cluster)).cluster_authorized_operations == 0
    described = await world.ask("DescribeCluster", about_cluster, user="admin")
    assert described.cluster_authorized_operations & 1 << Operation.ALTER


@one_loop
async def test_a_topic_by_id_is_unknown_to_who_may_not_know_it(world):
    topic_id = world.services.image().topics["orders"].id
    world.rule(())
    answer = await world.ask("Metadata", {"topics": [{"name": None, "topic_id": topic_id}]})
    assert (answer.topics[0].error_code, answer.topics[0].name) == (100, None)
    deleted = await world.ask("DeleteTopics", {"topics": [{"name": None, "topic_id": topic_id}]})
    assert (deleted.responses[0].error_code, deleted.responses[0].name) == (29, None)
    assert "orders" in world.services.image().topics


@one_loop
async def test_what_a_broker_hands_on_is_asked_for_its_client(world):
    """The broker may do everything, its client may not."""
    world.rule(())
    client = DefaultPrincipalData(type="User", name="mallory")
    body = {
        "request_data": wrapped("smuggled"),
        "request_principal": b"\0\0" + bytes(encode(client, 0)),
        "client_host_address": bytes([127, 0, 0, 1]),
    }
    answer = await world.ask("Envelope", body, user="admin")
    assert answer.error_code == 0
    _, inner = decode_response(CreateTopicsResponse, answer.response_data, 7)
    assert inner.topics[0].error_code == 29
    assert "smuggled" not in world.services.image().topics


@one_loop
async def test_refused_and_allowed_topics_in_one_request(world):
    """Each gets its own answer, and what is allowed is done."""
    one, two = Resource.topic("orders"), Resource.topic("not-mine")
    await world.ask(
        "CreateTopics",
        {"topics": [{"name": "not-mine", "num_partitions": 1, "replication_factor": 1}]},
        user="admin",
    )
    world.rule([(Operation.WRITE, one), (Operation.READ, one)], denied=[(Operation.WRITE, two)])
    records = [{"index": 0, "records": bytes(batch(b"v"))}]
    data = [{"name": each.name, "partition_data": records} for each in (two, one)]
    answer = await world.ask("Produce", {"acks": -1, "timeout_ms": 5000, "topic_data": data})
    told = {each.name: each.partition_responses[0].error_code for each in answer.responses}
    assert told == {"not-mine": 29, "orders": 0}
    assert world.services.partitions.get("not-mine", 0).log.log_end_offset == 0
    parts = [{"partition": 0, "partition_max_bytes": 1000}]
    wanted = [{"topic": each.name, "partitions": parts} for each in (two, one)]
    body = {"max_wait_ms": 0, "max_bytes": 10_000, "topics": wanted}
    fetched = await world.ask("Fetch", body, 12)
    told = {each.topic: each.partitions[0].error_code for each in fetched.responses}
    assert told == {"not-mine": 29, "orders": 0}


@one_loop
async def test_who_is_no_follower_begins_no_session_and_moves_nothing(world):
    world.rule([(Operation.READ, Resource.topic("orders"))])
    parts = [{"partition": 0, "partition_max_bytes": 1000, "fetch_offset": 1}]
    body = {
        "replica_id": 1,
        "max_wait_ms": 0,
        "max_bytes": 10_000,
        "session_epoch": 0,
        "topics": [{"topic": "orders", "partitions": parts}],
    }
    answer = await world.ask("Fetch", body, 12)
    assert answer.session_id == 0
    assert codes(answer) == {29}


@one_loop
async def test_a_session_is_asked_again_with_every_fetch(world):
    orders = Resource.topic("orders")
    world.rule([(Operation.READ, orders)])
    parts = [{"partition": 0, "partition_max_bytes": 1000}]
    body = {
        "max_wait_ms": 0,
        "max_bytes": 10_000,
        "session_epoch": 0,
        "topics": [{"topic": "orders", "partitions": parts}],
    }
    first = await world.ask("Fetch", body, 12)
    assert first.session_id
    world.rule(())
    again = {"max_bytes": 10_000, "session_id": first.session_id, "session_epoch": 1}
    answer = await world.ask("Fetch", again, 12)
    assert codes(answer) == {29}
    assert b"secret order" not in world.raw


@one_loop
async def test_a_pattern_does_not_tell_of_hidden_topics(world):
    seekers, orders = Resource.group("seekers"), Resource.topic("orders")
    body = {
        "group_id": "seekers",
        "member_id": "m",
        "member_epoch": 0,
        "rebalance_timeout_ms": 1000,
        "subscribed_topic_regex": "ord.*",
        "topic_partitions": [],
    }
    world.rule([(Operation.READ, seekers)])
    answer = await world.ask("ConsumerGroupHeartbeat", body)
    assert (answer.error_code, answer.assignment.topic_partitions) == (0, [])
    world.rule([(Operation.READ, seekers), (Operation.DESCRIBE, orders)])
    answer = await world.ask("ConsumerGroupHeartbeat", body)
    told = [each.topic_id for each in answer.assignment.topic_partitions]
    assert told == [world.services.image().topics["orders"].id]
