"""What clients use is counted, whoever uses too much is told and held."""

import asyncio
import struct

import pytest
from hot_path import HotPath, batch, fetch_request, joined, produce_request, settled
from replicated import replica_fetch

from tidelog.broker.dispatch import Handlers, handles
from tidelog.broker.metering import Metering
from tidelog.broker.permissions import CLUSTER_ACTION, anybody, cluster
from tidelog.cluster.image import Broker, Image
from tidelog.network.answer import Deferred
from tidelog.network.peer import Address, Peer, Principal
from tidelog.protocol.frame import decode_response, encode_request
from tidelog.protocol.messages.api_versions import ApiVersionsRequest
from tidelog.protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from tidelog.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from tidelog.protocol.messages.fetch import FetchRequest
from tidelog.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.protocol.messages.produce import ProduceRequest
from tidelog.quotas.limits import DEFAULT, Entity, Limits

PRODUCER, CONSUMER, TIME = "producer_byte_rate", "consumer_byte_rate", "request_percentage"
MUTATIONS = "controller_mutation_rate"


class Line:
    """A peer whose connection notes for how long it is held."""

    def __init__(self, user: str = "alice") -> None:
        self.peer = Peer(Address("192.0.2.1", 5000), Address("127.0.0.1", 9092), "PLAINTEXT")
        self.peer.principal = Principal("User", user)
        self.peer.connection = self
        self.held: list[float] = []

    def hold(self, seconds: float) -> None:
        self.held.append(seconds)

    def finish(self) -> None:
        raise AssertionError


class Rig:
    """A hot path behind a meter."""

    def __init__(self, directory) -> None:
        self.hot = HotPath(directory)
        self.clock = self.hot.clock
        table = {each.api_key: each for each in self.hot.services.handlers}
        self.handlers = self.hot.services.handlers = Handlers(table)
        self.table = table
        self.dispatcher = type(self.hot.dispatcher)(self.hot.services)
        self.quotas = self.hot.services.quotas
        self.meter = Metering(self.dispatcher, self.quotas, self.handlers, self.clock)

    def limit(self, by_entity) -> None:
        self.quotas.follow(Limits(by_entity))
        self.meter.limits_changed()
        self.hot.services.meter = self.meter if self.meter.is_on else None

    def serve(self, line: Line, request, version: int, client_id: str | None = "app"):
        frame = memoryview(encode_request(request, version, 7, client_id))[4:]
        return self.meter.serve(line.peer, frame)

    async def ask(self, line: Line, request, version: int, client_id: str | None = "app"):
        answer = await settled(self.serve(line, request, version, client_id))
        return HotPath.decoded(type(request), version, answer)


@pytest.fixture
def rig(tmp_path) -> Rig:
    return Rig(tmp_path)


def size_of(request, version: int) -> int:
    return len(encode_request(request, version, 7, "app"))


def test_without_quotas_the_dispatcher_is_asked_itself(rig):
    assert rig.meter.serve == rig.dispatcher.serve
    assert rig.meter.serve_run == rig.dispatcher.serve_run
    assert rig.meter.watch is None
    rig.limit({Entity(client_id="app"): {TIME: 1}})
    assert rig.meter.serve != rig.dispatcher.serve
    assert rig.meter.watch is not None
    rig.limit({})
    assert rig.meter.serve == rig.dispatcher.serve


@pytest.mark.parametrize("version", range(3, 13))
async def test_a_producer_that_sends_too_much_is_told_and_held(rig, version):
    request = produce_request(batch(b"x" * 5000), acks=1)
    size = size_of(request, version)
    rig.limit({Entity(client_id="app"): {PRODUCER: 1000}})
    line, other = Line(), Line()
    answers = [await rig.ask(line, request, version) for _ in range(3)]
    assert [each.throttle_time_ms for each in answers] == [0, size * 2, size * 3]
    assert line.held == pytest.approx([size * 2 / 1000, size * 3 / 1000])
    assert [each.responses[0].partition_responses[0].base_offset for each in answers] == [0, 1, 2]
    answer = await rig.ask(other, request, version, "else")
    assert answer.throttle_time_ms == 0
    assert other.held == []


async def test_a_failed_produce_is_told_too(rig):
    rig.limit({Entity("alice"): {PRODUCER: 1}})
    request = produce_request(batch(b"x" * 500), topic="nope")
    answer = await rig.ask(Line(), request, 12)
    assert answer.responses[0].partition_responses[0].error_code == 3
    assert answer.throttle_time_ms > 0


async def test_who_wants_no_answer_is_held_too(rig):
    rig.limit({Entity("alice"): {PRODUCER: 1}})
    line = Line()
    assert rig.serve(line, produce_request(batch(b"x" * 500), acks=0), 9) is None
    assert len(line.held) == 1


async def test_an_answer_that_comes_later_tells_what_is_left(rig):
    rig.limit({Entity("alice"): {PRODUCER: 100}})
    line, later = Line(), Deferred(pipelined=True)
    request = produce_request(batch(b"x" * 2000))
    size = size_of(request, 9)
    ready = rig.dispatcher.serve(line.peer, memoryview(encode_request(request, 9, 7, "app"))[4:])
    rig.meter._serving = type("Later", (), {"serve": lambda *_: later})()
    answer = rig.serve(line, request, 9)
    assert line.held == pytest.approx([size / 100])  # from when it was sent
    assert answer.pipelined
    rig.clock.advance(1_000)
    later.resolve(ready)
    told = HotPath.decoded(ProduceRequest, 9, await settled(answer))
    assert told.throttle_time_ms == pytest.approx(size * 10 - 1000, abs=1)


async def test_a_failure_later_stays_one(rig):
    rig.limit({Entity("alice"): {PRODUCER: 1}})
    later = Deferred()
    rig.meter._serving = type("Later", (), {"serve": lambda *_: later})()
    answer = rig.serve(Line(), produce_request(batch(b"x" * 2000)), 9)
    later.resolve(RuntimeError("boom"))
    with pytest.raises(RuntimeError, match="boom"):
        await settled(answer)


def test_requests_that_come_together_are_counted_together(rig):
    line = Line()
    rig.meter.serve(
        line.peer, memoryview(encode_request(produce_request(batch()), 9, 1, "app"))[4:]
    )
    frames = [encode_request(produce_request(batch(b"x" * 300)), 9, at, "app") for at in range(10)]
    rig.limit({Entity("alice"): {PRODUCER: 200}})
    buffer = memoryview(bytearray(b"".join(frames)))
    stop, answers = rig.meter.serve_run(line.peer, buffer, 0, len(buffer))
    assert stop == len(buffer)
    assert line.held == pytest.approx([len(buffer) / 200])
    assert rig.quotas.of("alice", "app").produce.used == len(buffer)
    told, pos = [], 0
    while pos < len(answers):
        (size,) = struct.unpack_from(">i", answers, pos)
        told.append(decode_response(ProduceRequest.response, answers[pos + 4 : pos + 4 + size], 9))
        pos += 4 + size
    assert [each[0] for each in told] == list(range(10))
    assert [each[1].throttle_time_ms for each in told] == [0] * 9 + [len(buffer) * 5]


def test_a_run_that_is_none_is_not_counted(rig):
    rig.limit({Entity("alice"): {PRODUCER: 1}})
    line = Line()
    buffer = memoryview(bytearray(encode_request(ApiVersionsRequest(), 3, 1, "app") * 2))
    assert rig.meter.serve_run(line.peer, buffer, 0, len(buffer)) == (0, None)
    assert line.held == []


# ---------------------------------------------------------------------- fetches


async def fill(rig: Rig, batches: int = 30, size: int = 1000) -> None:
    for _ in range(batches):
        await settled(rig.hot.serve(produce_request(batch(b"x" * size), acks=1), 9))


def records_of(response) -> int:
    """Bytes of records in an answer."""
    return sum(
        len(each.records or b"") for topic in response.responses for each in topic.partitions
    )


@pytest.mark.parametrize("version", [4, 7, 11, 12, 13, 17])
async def test_a_consumer_that_has_had_too_much_gets_nothing_for_a_while(rig, version):
    await fill(rig)
    rig.limit({Entity(client_id="app"): {CONSUMER: 2000}})
    line = Line()
    request = fetch_request(0, version=version)
    had = 0
    while True:
        response = await rig.ask(line, request, version)
        if not records_of(response):
            break
        assert response.throttle_time_ms == 0
        assert records_of(response) <= 2000  # a window's worth at a time
        had += records_of(response)
    assert 18_000 < had <= 20_000
    assert response.throttle_time_ms > 10_000
    assert response.responses == []
    assert response.error_code == 0
    assert line.held == [pytest.approx(response.throttle_time_ms / 1000, abs=0.002)]
    rig.clock.advance(response.throttle_time_ms)
    response = await rig.ask(line, request, version)
    assert records_of(response) > 0
    assert rig.quotas.of("alice", "app").fetch.used == had + records_of(response)


async def test_a_batch_larger_than_the_quota_comes_through(rig):
    await fill(rig, size=50_000)
    rig.limit({Entity(client_id="app"): {CONSUMER: 1}})
    line = Line()
    response = await rig.ask(line, fetch_request(0), 12)
    assert records_of(response) > 50_000
    assert response.throttle_time_ms == 25_000
    rig.clock.advance(25_000)
    response = await rig.ask(line, fetch_request(1), 12)
    assert records_of(response) == 0
    assert response.throttle_time_ms > 0
    rig.clock.advance(1_000 + response.throttle_time_ms)
    assert records_of(await rig.ask(line, fetch_request(1), 12)) > 50_000


async def test_a_fetch_without_data_costs_nothing(rig):
    rig.limit({Entity(client_id="app"): {CONSUMER: 1}})
    line = Line()
    answer = await rig.ask(line, fetch_request(0, max_wait_ms=0), 12)
    assert answer.throttle_time_ms == 0
    assert len(answer.responses) == 1
    assert line.held == []


async def test_a_fetch_that_waits_is_limited_when_it_wakes(rig):
    rig.limit({Entity(client_id="app"): {CONSUMER: 10}})
    line = Line()
    await fill(rig, 1)
    assert records_of(await rig.ask(line, fetch_request(0), 12)) > 1000
    rig.clock.advance(11_500)
    answer = rig.serve(line, fetch_request(1, max_wait_ms=500), 12)
    assert isinstance(answer, Deferred)
    await fill(rig, 1)
    await asyncio.sleep(0)
    response = HotPath.decoded(FetchRequest, 12, await settled(answer))
    assert response.responses == []
    assert response.throttle_time_ms == 25_000
    assert len(line.held) == 2


async def test_a_session_outlives_an_answer_without_data(rig):
    await fill(rig)
    sessions = rig.hot.services.fetch_sessions
    rig.limit({Entity(client_id="app"): {CONSUMER: 2000}})
    line = Line()
    first = await rig.ask(line, fetch_request(0, session_id=0, session_epoch=0), 12)
    epoch, offset, session = 1, first.responses[0].partitions[0], first.session_id
    assert session > 0
    assert offset.records
    while True:
        nothing = await rig.ask(
            line, fetch_request(None, session_id=session, session_epoch=epoch), 12
        )
        epoch += 1
        if nothing.throttle_time_ms:
            break
    assert nothing.session_id == session
    assert nothing.responses == []
    rig.clock.advance(nothing.throttle_time_ms)
    again = await rig.ask(line, fetch_request(None, session_id=session, session_epoch=epoch), 12)
    assert records_of(again) > 0
    # One that would begin now does not: it would be forgotten by the client, and kept here.
    assert rig.quotas.of("alice", "app").fetch.use(100_000, rig.clock.monotonic()) > 0
    count = len(sessions._sessions)
    refused = await rig.ask(line, fetch_request(0, session_id=0, session_epoch=0), 12)
    assert refused.session_id == 0
    assert refused.throttle_time_ms > 0
    assert len(sessions._sessions) == count


async def test_followers_are_not_limited(rig):
    await fill(rig)
    rig.limit({Entity(client_id=DEFAULT): {CONSUMER: 1, TIME: 0.0001}})
    line = Line()
    rig.hot.services.image = lambda: Image(brokers={2: Broker(2, 12, (), None)})
    answer = await rig.ask(line, replica_fetch(2, 0, max_wait_ms=0), 17)
    assert answer.throttle_time_ms == 0
    assert line.held == []
    assert line.peer.is_broker


@pytest.mark.parametrize(
    ("replica_id", "epoch"),
    [(2, 11), (2, -1), (3, 12), (1, 11)],
    ids=["old", "none", "other", "us"],
)
async def test_who_only_says_that_it_follows_is_limited_all_the_same(rig, replica_id, epoch):
    await fill(rig)
    rig.limit({Entity(client_id=DEFAULT): {TIME: 0.0001}})
    known = {each: Broker(each, 10 + each, (), None) for each in (1, 2)}
    rig.hot.services.image = lambda: Image(brokers=known)
    line = Line()
    await rig.ask(line, replica_fetch(replica_id, 0, broker_epoch=epoch, max_wait_ms=0), 17)
    assert not line.peer.is_broker


# ---------------------------------------------------------------------- time


def slow(rig: Rig, request, response, ms: float, **facts) -> None:
    """A handler that takes its time."""

    @handles(request, str(request.versions), **{"allow": anybody, **facts})
    def handler(_, ctx):
        rig.clock.advance(ms)
        return response()

    rig.table[handler.api_key] = handler


@pytest.mark.parametrize("version", [0, 1, 4])
async def test_time_is_counted_whatever_is_asked_for(rig, version):
    slow(rig, HeartbeatRequest, HeartbeatResponse, 60)
    rig.limit({Entity("alice"): {TIME: 1}})
    line = Line()
    first = await rig.ask(line, HeartbeatRequest(), version)
    assert first.throttle_time_ms == 0
    assert line.held == []  # 60 ms are 1 % of six seconds
    second = await rig.ask(line, HeartbeatRequest(), version)
    assert line.held == [1.0]
    assert second.throttle_time_ms == (1000 if version else 0)  # version 0 has no place for it


async def test_time_spent_in_steps_is_added_up_and_waiting_is_free(rig):
    gates = [asyncio.Event(), asyncio.Event()]

    @handles(HeartbeatRequest, "0-4", allow=anybody)
    async def handler(_, ctx):
        for gate in gates:
            rig.clock.advance(70)
            await gate.wait()
        return HeartbeatResponse()

    rig.table[handler.api_key] = handler
    rig.limit({Entity("alice"): {TIME: 1}})
    line = Line()
    task = asyncio.ensure_future(rig.serve(line, HeartbeatRequest(), 4))
    for gate in gates:
        await asyncio.sleep(0)
        rig.clock.advance(5_000)
        gate.set()
    told = HotPath.decoded(HeartbeatRequest, 4, await task)
    assert rig.quotas.of("alice", "app").request.used == pytest.approx(14)
    assert told.throttle_time_ms == 1000
    assert line.held == [1.0]


async def test_a_step_that_is_cancelled_ends(rig):
    ended = []

    @handles(HeartbeatRequest, "0-4", allow=anybody)
    async def handler(_, ctx):
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    rig.table[handler.api_key] = handler
    rig.limit({Entity("alice"): {TIME: 1}})
    task = asyncio.ensure_future(rig.serve(Line(), HeartbeatRequest(), 4))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == [True]


async def test_what_the_network_does_for_a_client_is_its_time_too(rig):
    rig.limit({Entity("alice"): {TIME: 1}})
    line = Line()
    assert rig.meter.timed(line.peer, lambda: rig.clock.advance(500)) is None  # nobody yet
    await rig.ask(line, ApiVersionsRequest(), 3)
    rig.meter.timed(line.peer, rig.clock.advance, 500)
    assert rig.quotas.of("alice", "app").request.used == pytest.approx(50)


@pytest.mark.parametrize("facts", [{"allow": cluster(CLUSTER_ACTION)}, {"before_login": True}])
async def test_brokers_and_logins_are_not_limited(rig, facts):
    slow(rig, BrokerHeartbeatRequest, BrokerHeartbeatResponse, 60_000, **facts)
    rig.limit({Entity("alice"): {TIME: 1}})
    line = Line()
    assert (await rig.ask(line, BrokerHeartbeatRequest(), 0)).throttle_time_ms == 0
    assert line.held == []


async def test_an_api_versions_of_the_future_is_answered_as_ever(rig):
    rig.limit({Entity("alice"): {PRODUCER: 1, TIME: 0.000001}})
    frame = memoryview(encode_request(ApiVersionsRequest(), 3, 7, "app"))[4:].tobytes()
    answer = rig.meter.serve(Line().peer, memoryview(struct.pack(">hh", 18, 99) + frame[4:]))
    assert HotPath.decoded(ApiVersionsRequest, 0, joined(answer)).error_code == 35


# ---------------------------------------------------------------------- changes of metadata


async def test_who_changes_too_much_is_held_by_the_broker_it_asked(rig):
    @handles(CreateTopicsRequest, "2-7", allow=anybody)
    async def handler(_, ctx):
        return CreateTopicsResponse(throttle_time_ms=1500)  # perhaps from the controller elsewhere

    rig.table[handler.api_key] = handler
    rig.limit({Entity("alice"): {MUTATIONS: 1}})
    line = Line()
    assert (await rig.ask(line, CreateTopicsRequest(), 6)).throttle_time_ms == 1500
    assert line.held == [1.5]
    assert (await rig.ask(line, ApiVersionsRequest(), 3)).throttle_time_ms == 0


# ---------------------------------------------------------------------- quotas that change


async def test_a_quota_that_is_removed_lets_go_of_who_was_held(rig):
    rig.limit({Entity("alice"): {PRODUCER: 1}})
    alice, bob = Line(), Line("bob")
    request = produce_request(batch(b"x" * 2000))
    await rig.ask(alice, request, 9)
    assert len(alice.held) == 1
    rig.limit({Entity("alice"): {PRODUCER: 1}, Entity("bob"): {PRODUCER: 1}})
    await rig.ask(bob, request, 9)
    assert len(alice.held) == 1  # it is still held: nothing has changed for it
    rig.limit({Entity("bob"): {PRODUCER: 1}})
    assert alice.held[1:] == [0]
    rig.limit({Entity("bob"): {PRODUCER: 2}})
    assert bob.held[1:] == [0]
    rig.limit({})
    assert [len(alice.held), len(bob.held)] == [2, 2]


async def test_who_logs_in_as_somebody_else_has_other_limits(rig):
    rig.limit({Entity("bob"): {PRODUCER: 1}})
    line = Line()
    request = produce_request(batch(b"x" * 2000))
    await rig.ask(line, request, 9)
    assert line.held == []
    line.peer.principal = Principal("User", "bob")
    await rig.ask(line, request, 9)
    assert len(line.held) == 1


@pytest.mark.parametrize("client_id", [None, "", "ümläut"])
async def test_any_client_id(rig, client_id):
    rig.limit({Entity(client_id=DEFAULT): {PRODUCER: 1}})
    line = Line()
    await rig.ask(line, produce_request(batch(b"x" * 2000)), 9, client_id)
    assert len(line.held) == 1
    rig.meter.sweep()


def test_bad_headers_are_the_dispatchers_business(rig):
    rig.limit({Entity(client_id=DEFAULT): {PRODUCER: 1}})
    for frame in (b"", b"\0\0\0", b"\0\x12\0\x03\0\0\0\7\x7f\xff"):
        with pytest.raises(Exception, match=r"bytes|early|fit"):
            rig.meter.serve(Line().peer, memoryview(frame))
