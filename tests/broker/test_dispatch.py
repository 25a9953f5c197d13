"""From a frame to a handler, and what becomes of what the handler raises."""

import asyncio
import contextlib
import struct

import pytest
from hot_path import PEER, HotPath, settled
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.broker.dispatch import Dispatcher, Handlers, handles
from tidelog.broker.permissions import anybody
from tidelog.errors import IllegalGeneration, ProtocolError
from tidelog.protocol.frame import decode_response, encode_request
from tidelog.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)


def dispatcher_of(hot, handler):
    hot.services.handlers = Handlers({handler.api_key: handler})
    return Dispatcher(hot.services)


async def heartbeat(dispatcher, version=4):
    frame = encode_request(HeartbeatRequest(group_id="g"), version, 5, "me")
    answer = await settled(dispatcher.serve(PEER, memoryview(frame)[4:]))
    return decode_response(HeartbeatResponse, answer[4:], version)


@pytest.mark.parametrize("version", [0, 3, 4])
async def test_a_coroutine_or_a_function_answers(hot, version):
    seen = []

    @handles(HeartbeatRequest, "0-4", allow=anybody)
    async def later(request, ctx):
        await asyncio.sleep(0)
        seen.append((request.group_id, ctx.client_id, ctx.api_version, str(ctx.principal)))
        return HeartbeatResponse(throttle_time_ms=9)

    @handles(HeartbeatRequest, "0-4", allow=anybody)
    def now(request, ctx):
        seen.append((request.group_id, ctx.client_id, ctx.api_version, str(ctx.principal)))
        return HeartbeatResponse(throttle_time_ms=9)

    for handler in (later, now):
        correlation_id, response = await heartbeat(dispatcher_of(hot, handler), version)
        assert (correlation_id, response.throttle_time_ms) == (5, 9 if version else 0)
    assert seen == [("g", "me", version, "User:ANONYMOUS")] * 2


@pytest.mark.parametrize(("error", "code"), [(IllegalGeneration(), 22), (RuntimeError("ours"), -1)])
@pytest.mark.parametrize("wait", [True, False])
async def test_what_is_raised_is_answered(hot, caplog, error, code, wait):
    async def run_later(request, ctx):
        raise error

    def run_now(request, ctx):
        raise error

    handler = handles(HeartbeatRequest, "0-4", allow=anybody)(run_later if wait else run_now)
    _, response = await heartbeat(dispatcher_of(hot, handler))
    assert response.error_code == code
    assert ("ours" in caplog.text) == (code == -1)


async def test_an_error_is_told_for_each_item_where_the_answer_has_no_place_at_its_top(hot):
    @handles(ListOffsetsRequest, "1-10", allow=anybody)
    def broken(request, ctx):
        raise IllegalGeneration

    topic = ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=3)])
    frame = encode_request(ListOffsetsRequest(topics=[topic]), 5, 1, None)
    answer = dispatcher_of(hot, broken).serve(PEER, memoryview(frame)[4:])
    _, response = decode_response(ListOffsetsRequest.response, bytes(answer)[4:], 5)
    [told] = response.topics
    assert (told.name, told.partitions[0].partition_index) == ("t", 3)
    assert told.partitions[0].error_code == IllegalGeneration.code


async def test_an_error_that_cannot_be_told_closes_the_connection(hot):
    @handles(ListOffsetsRequest, "1-10", allow=anybody)
    def broken(request, ctx):
        raise IllegalGeneration

    frame = encode_request(ListOffsetsRequest(), 5, 1, None)
    with pytest.raises(ProtocolError, match="ListOffsets v5"):
        dispatcher_of(hot, broken).serve(PEER, memoryview(frame)[4:])


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\x00\x12\x00\x00",
        struct.pack(">hhih", 18, 0, 1, 100),
        struct.pack(">hhih", 18, 0, 1, 2) + b"\xff\xfe",
        struct.pack(">hhih", 18, 3, 1, -1) + b"\x05",
        struct.pack(">hhih", 0, 9, 1, -1),
        struct.pack(">hhih", 0, 9, 1, -1) + b"\x00" + b"\xff" * 40,
        struct.pack(">hhih", 1, 12, 1, 30000) + b"\x00" * 40,
    ],
)
async def test_garbage_is_a_protocol_error(hot, frame):
    with pytest.raises(ProtocolError):
        await settled(hot.dispatcher.serve(PEER, memoryview(bytearray(frame))))


@settings(max_examples=150, deadline=None)
@given(
    key=st.sampled_from([0, 1, 2, 18]),
    version=st.integers(-1, 18),
    client=st.integers(-2, 8),
    rest=st.binary(max_size=120),
)
def test_no_frame_does_more_than_close_its_connection(tmp_path_factory, key, version, client, rest):
    async def run():
        hot = HotPath(tmp_path_factory.mktemp("fuzz"), partitions=0)
        frame = struct.pack(">hhih", key, version, 1, client) + rest
        with contextlib.suppress(ProtocolError):
            hot.dispatcher.serve(PEER, memoryview(bytearray(frame)))
        hot.services.waiting.close()

    asyncio.run(run())


def test_handlers_are_found_by_their_files():
    keys = [handler.api_key for handler in Handlers()]
    assert {0, 1, 2, 18} <= set(keys)
    assert keys == sorted(set(keys))


def test_a_handler_comes_alone_and_the_rest_one_by_one():
    handlers = Handlers()
    assert handlers.get(12).name == "Heartbeat"
    assert handlers.get(12) is handlers.get(12)
    assert handlers.get(4) is None  # LeaderAndIsr: nobody serves it
    steps = 0
    while handlers.load_next():
        steps += 1
    assert steps + 2 == len(list(handlers))
