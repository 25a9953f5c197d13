"""What a fault does to a request, without a network."""

import asyncio
import random
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.cluster.image import Image
from tidelog.errors import FetchSessionIdNotFound, NotLeaderOrFollower, ProtocolError
from tidelog.network.answer import Deferred
from tidelog.protocol.frame import decode_response, encode_request
from tidelog.protocol.messages import MODULES
from tidelog.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ReplicaState,
)
from tidelog.protocol.messages.heartbeat import HeartbeatRequest
from tidelog.protocol.messages.produce import ProduceRequest
from tidelog.testing.fault_table import FaultTable
from tidelog.testing.faults import OWN_CLIENT_ID, Spec, api_key_of, code_of

PRODUCE, FETCH = 0, 1
SERVICES = SimpleNamespace(image=Image)


class Dispatcher:
    """Answers everything, and counts."""

    def __init__(self):
        self.served = []
        self.runs = 0
        self.answer = b"served"

    def serve(self, peer, frame):
        self.served.append(bytes(frame))
        return self.answer

    def serve_run(self, peer, buffer, pos, end):
        self.runs += 1
        return end, b"run"


@pytest.fixture
def inner():
    return Dispatcher()


@pytest.fixture
def table(inner):
    made = FaultTable()
    assert made.stand_before(inner, SERVICES) is made
    return made


def fault(kind="fail", api_key=PRODUCE, **rest):
    return Spec(kind=kind, api_keys=(api_key,), code=NotLeaderOrFollower.code, **rest)


def frame_of(request, version, client_id="me"):
    return memoryview(encode_request(request, version, 7, client_id))[4:]


def fetch(**rest):
    topics = [FetchTopic(topic="a", partitions=[FetchPartition(partition=0)])]
    return FetchRequest(**{"topics": topics, **rest})


async def test_without_faults_everything_passes(table, inner):
    assert table.serve(None, frame_of(HeartbeatRequest(), 4)) == b"served"
    assert table.serve_run(None, memoryview(b"xx"), 0, 2) == (2, b"run")
    number = table.arm(fault(api_key=FETCH))
    assert table.serve_run(None, memoryview(b"xx"), 0, 2) == (2, b"run")
    table.arm(fault(times=None))
    assert table.serve_run(None, memoryview(b"xx"), 0, 2) == (0, None)
    table.clear()
    assert table.serve_run(None, memoryview(b"xx"), 0, 2) == (2, b"run")
    with pytest.raises(LookupError, match="has ended"):
        table.struck(number)


async def test_a_fetch_that_leaves_its_partitions_out_has_to_begin_again(table, inner):
    number = table.arm(fault(api_key=FETCH))
    answer = table.serve(None, frame_of(FetchRequest(session_id=5, session_epoch=3), 12))
    _, response = decode_response(FetchResponse, answer[4:], 12)
    assert (response.error_code, table.struck(number)) == (FetchSessionIdNotFound.code, 0)
    answer = table.serve(None, frame_of(fetch(session_id=5, session_epoch=0), 12))
    _, response = decode_response(FetchResponse, answer[4:], 12)
    assert response.responses[0].partitions[0].error_code == NotLeaderOrFollower.code
    assert (table.struck(number), inner.served) == (1, [])


async def test_followers_and_the_fixture_are_spared(table, inner):
    number = table.arm(fault(api_key=FETCH, times=None))
    table.serve(None, frame_of(fetch(replica_id=2), 12))
    table.serve(None, frame_of(fetch(replica_state=ReplicaState(replica_id=1)), 15))
    table.serve(None, frame_of(fetch(), 12, OWN_CLIENT_ID))
    assert (len(inner.served), table.struck(number)) == (3, 0)


async def test_without_acks_the_connection_is_the_only_way_to_tell(table):
    table.arm(fault())
    with pytest.raises(ProtocolError, match="acks=0"):
        table.serve(None, frame_of(ProduceRequest(acks=0), 9))


async def test_an_answer_is_lost_when_it_is_there(table, inner):
    inner.answer = Deferred(pipelined=True)
    table.arm(fault("lose"))
    waiting = asyncio.ensure_future(table.serve(None, frame_of(ProduceRequest(acks=1), 9)))
    await asyncio.sleep(0)
    assert inner.served
    assert not waiting.done()
    inner.answer.resolve(b"done")
    with pytest.raises(ProtocolError, match="loses the answer"):
        await waiting


async def test_what_is_held_outlives_the_networks_buffer(table, inner):
    number = table.arm(fault("hold", times=None))
    buffer = bytearray(frame_of(ProduceRequest(acks=1), 9))
    waiting = asyncio.ensure_future(table.serve(None, memoryview(buffer)))
    await asyncio.sleep(0)
    sent, buffer[:] = bytes(buffer), bytes(len(buffer))
    assert inner.served == []
    table.disarm(number)
    assert await waiting == b"served"
    assert inner.served == [sent]
    assert table.serve(None, frame_of(ProduceRequest(acks=1), 9)) == b"served"


@given(st.sampled_from(sorted(MODULES)), st.binary(max_size=60), st.randoms())
def test_garbage_is_a_protocol_error_and_nothing_else(api_key, rest, choose: random.Random):
    async def serve():
        table = FaultTable()
        table.stand_before(Dispatcher(), SERVICES)
        table.arm(fault(api_key=api_key, topic=choose.choice([None, "a"]), times=None))
        frame = api_key.to_bytes(2, "big") + bytes([0, choose.randrange(14)]) + rest
        try:
            answer = table.serve(None, memoryview(frame))
        except ProtocolError:
            return
        if asyncio.iscoroutine(answer):
            answer.close()

    asyncio.run(serve())


def test_names():
    assert api_key_of("offset_commit") == api_key_of("OffsetCommit") == 8
    assert code_of("NOT_LEADER_OR_FOLLOWER") == code_of(NotLeaderOrFollower("now")) == code_of(6)
