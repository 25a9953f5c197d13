"""Frames in, answers out, in order; and what stops a connection."""

import asyncio
import logging
import struct

import pytest

from tidelog.errors import ProtocolError
from tidelog.network.answer import Deferred
from tidelog.network.connection import Connection
from tidelog.network.flow import FRAGMENT_BYTES, PIPELINED_MAX, RECEIVE_BYTES


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def echo(peer, frame):
    return bytearray(framed(bytes(frame)))


async def test_a_frame_is_answered(rig_of):
    client = await rig_of(echo).connect()
    await client.send(framed(b"hello"))
    assert await client.receive() == b"hello"


async def test_a_frame_may_come_byte_by_byte(rig_of):
    rig = rig_of(echo)
    client = await rig.connect()
    for byte in framed(b"slow"):
        await client.send(bytes([byte]))
        await asyncio.sleep(0)
    assert await client.receive() == b"slow"


@pytest.mark.parametrize(
    "size", [0, 1, 5000, FRAGMENT_BYTES - 4, FRAGMENT_BYTES, RECEIVE_BYTES - 4, 3 * RECEIVE_BYTES]
)
async def test_frames_of_any_size_between_small_ones(rig_of, size):
    client = await rig_of(echo).connect()
    body = (
        bytes(i % 251 for i in range(size)) if size < 10_000 else bytes(range(256)) * (size // 256)
    )
    bodies = [b"before", body, b"after", body, b"last"]

    async def receive_all():
        return [await client.receive() for _ in bodies]

    received = asyncio.ensure_future(receive_all())
    await client.send(b"".join(map(framed, bodies)))
    assert await received == bodies


async def test_pipelined_requests_are_answered_in_order_although_they_finish_in_reverse(rig_of):
    waiting: list[tuple[Deferred, bytes]] = []

    def serve(peer, frame):
        deferred = Deferred(pipelined=True)
        waiting.append((deferred, bytes(frame)))
        return deferred

    rig = rig_of(serve)
    client = await rig.connect()
    await client.send(b"".join(framed(b"%d" % n) for n in range(10)))
    await rig.settle(lambda: len(waiting) == 10)
    for deferred, body in reversed(waiting):
        deferred.resolve(framed(body))
    assert [await client.receive() for _ in range(10)] == [b"%d" % n for n in range(10)]


async def test_no_more_than_so_many_requests_wait_for_answers(rig_of):
    waiting: list[Deferred] = []

    def serve(peer, frame):
        waiting.append(Deferred(pipelined=True))
        return waiting[-1]

    rig = rig_of(serve)
    client = await rig.connect()
    total = PIPELINED_MAX + 10
    await client.send(framed(b"x") * total)
    await rig.settle(lambda: len(waiting) == PIPELINED_MAX)
    await client.send(framed(b"y"))
    await rig.breathe()
    assert len(waiting) == PIPELINED_MAX
    for answered in range(total + 1):
        await rig.settle(lambda answered=answered: len(waiting) > answered)
        waiting[answered].resolve(framed(b"%d" % answered))
    assert [await client.receive() for _ in range(total + 1)] == [
        b"%d" % n for n in range(total + 1)
    ]


async def test_an_awaited_answer_holds_up_later_requests(rig_of):
    served: list[bytes] = []
    gate = asyncio.Event()

    async def slow(body):
        await gate.wait()
        return framed(body)

    def serve(peer, frame):
        served.append(bytes(frame))
        return slow(bytes(frame)) if frame[:4] == b"slow" else bytearray(framed(bytes(frame)))

    rig = rig_of(serve)
    client = await rig.connect()
    await client.send(framed(b"one") + framed(b"slow") + framed(b"two"))
    assert await client.receive() == b"one"
    await client.send(framed(b"three"))
    await rig.breathe()
    assert served == [b"one", b"slow"]
    gate.set()
    assert [await client.receive() for _ in range(3)] == [b"slow", b"two", b"three"]


async def test_a_request_without_an_answer(rig_of):
    client = await rig_of(
        lambda peer, frame: None if frame[:1] == b"0" else echo(peer, frame)
    ).connect()
    await client.send(framed(b"0") + framed(b"1") + framed(b"0") + framed(b"2"))
    assert [await client.receive(), await client.receive()] == [b"1", b"2"]


@pytest.mark.parametrize("size", [-1, -(1 << 31), 1001, (1 << 31) - 1])
async def test_a_length_out_of_range_closes_with_one_line(rig_of, caplog, size):
    rig = rig_of(echo, request_max_bytes=1000)
    client = await rig.connect()
    with caplog.at_level(logging.INFO, "tidelog"):
        await client.send(framed(b"good") + struct.pack(">i", size))
        assert await client.receive() == b"good"
        assert await client.ended()
    assert len(caplog.records) == 1
    assert "socket.request.max.bytes" in caplog.text
    assert not rig.hub.connections


async def test_garbage_closes_with_one_line_after_the_answers_before_it(rig_of, caplog):
    def serve(peer, frame):
        if frame[:3] == b"bad":
            raise ProtocolError("nonsense")
        return echo(peer, frame)

    client = await rig_of(serve).connect()
    await client.send(framed(b"good") + framed(b"bad") + framed(b"never"))
    assert await client.receive() == b"good"
    assert await client.ended()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "nonsense" in caplog.text
    assert "127.0.0.1" in caplog.text


@pytest.mark.parametrize("late", [False, True])
async def test_a_failure_of_ours_closes_and_logs_the_cause(rig_of, caplog, late):
    async def fail():
        raise RuntimeError("our fault")

    def serve(peer, frame):
        if late:
            return fail()
        raise RuntimeError("our fault")

    client = await rig_of(serve).connect()
    await client.send(framed(b"x"))
    assert await client.ended()
    assert "our fault" in caplog.text


async def test_a_peer_that_does_not_read_is_not_read_from(rig_of):
    served = 0

    def serve(peer, frame):
        nonlocal served
        served += 1
        return bytearray(framed(bytes(200_000)))

    rig = rig_of(serve, send_buffer_bytes=65536)
    sock = rig.raw()
    loop = asyncio.get_running_loop()
    try:
        await loop.sock_sendall(sock, framed(b"x") * 500)
        before = -1
        while before != served:
            before = served
            await rig.breathe()
        assert 0 < served < 500, "only what the socket takes is served"
        received = 0
        while received < 500 * 200_004:
            received += len(await loop.sock_recv(sock, 1 << 20))
        assert served == 500
    finally:
        sock.close()


async def test_a_peer_that_stops_sending_still_gets_its_answers(rig_of):
    gate = asyncio.Event()

    async def slow(body):
        await gate.wait()
        return framed(body)

    rig = rig_of(lambda peer, frame: slow(bytes(frame)))
    client = await rig.connect()
    await client.send(framed(b"last words"))
    client.writer.write_eof()
    await rig.breathe()
    gate.set()
    assert await client.receive() == b"last words"
    assert await client.ended()
    await rig.settle(lambda: not rig.hub.connections)


async def test_memory_for_unfinished_requests_is_bounded(rig_of):
    rig = rig_of(echo, queued_max_request_bytes=1_000_000)
    first, second, small = await rig.connect(), await rig.connect(), await rig.connect()
    body = bytes(1_500_000)
    await first.send(framed(body)[:1_200_000])
    await rig.settle(lambda: rig.hub.memory.full)
    held = rig.hub.memory.used
    await small.send(framed(b"not held up"))
    assert await small.receive() == b"not held up"
    second.writer.write(framed(body))
    answers = [asyncio.ensure_future(each.receive()) for each in (first, second)]
    await rig.breathe()
    assert rig.hub.memory.used < held + 3_000_000
    assert not answers[1].done(), "it waits until the first is through"
    await first.send(framed(body)[1_200_000:])
    assert await asyncio.gather(*answers) == [body, body]
    await rig.settle(lambda: rig.hub.memory.used == 0)


async def test_promises_of_large_requests_hold_up_nobody(rig_of):
    rig = rig_of(echo, queued_max_request_bytes=1_000_000)
    for _ in range(5):
        await (await rig.connect()).send(struct.pack(">i", 90 << 20) + bytes(70_000))
    other = await rig.connect()
    for size in (10, 100_000):
        await other.send(framed(bytes(size)))
        if size < 1000:
            assert await other.receive() == bytes(size)


async def test_many_begun_requests_cost_what_they_have_sent(rig_of):
    """Each may take room beforehand only while there is plenty of it."""
    rig = rig_of(echo, queued_max_request_bytes=8_000_000)
    clients = [await rig.connect() for _ in range(60)]
    for client in clients:
        await client.send(struct.pack(">i", 50_000_000) + bytes(1000))
    await rig.settle(lambda: len(rig.hub.memory._holders) == 60)
    assert rig.hub.memory.used < 8_000_000
    other = await rig.connect()
    await other.send(framed(b"small"))
    assert await other.receive() == b"small"


async def test_a_forged_length_costs_no_memory(rig_of):
    rig = rig_of(echo)
    client = await rig.connect()
    await client.send(struct.pack(">i", 90 << 20) + bytes(100))
    await rig.settle(lambda: rig.hub.memory.used > 0)
    (connection,) = rig.hub.connections
    assert len(connection._held) <= 2 << 20
    await client.close()
    rig.clients.clear()
    await rig.settle(lambda: not rig.hub.connections)
    assert rig.hub.memory.used == 0


async def test_drain_answers_what_is_in_flight_then_closes(rig_of):
    gate = asyncio.Event()

    async def slow(body):
        await gate.wait()
        return framed(body)

    rig = rig_of(lambda peer, frame: slow(bytes(frame)))
    busy, idle = await rig.connect(), await rig.connect()
    await busy.send(framed(b"in flight") + framed(b"too late"))
    await rig.settle(lambda: any(not each.idle for each in rig.hub.connections))
    draining = asyncio.ensure_future(rig.hub.drain(5))
    assert await idle.ended()
    gate.set()
    assert await busy.receive() == b"in flight"
    assert await busy.ended()
    await draining


async def test_drain_cuts_what_does_not_end(rig_of):
    async def never():
        await asyncio.get_running_loop().create_future()

    rig = rig_of(lambda peer, frame: never())
    client = await rig.connect()
    await client.send(framed(b"x"))
    await rig.settle(lambda: any(not each.idle for each in rig.hub.connections))
    await rig.hub.drain(0.01)
    assert await client.ended()


async def test_idle_connections_are_closed_by_the_sweep(rig_of):
    rig = rig_of(echo)
    client = await rig.connect()
    await client.send(framed(b"x"))
    await client.receive()
    for _ in range(20):
        rig.hub.sweep()
    assert rig.hub.connections
    rig.hub.sweep()
    assert not rig.hub.connections
    assert await client.ended()


async def test_frames_that_come_together_may_be_served_together(rig_of):
    served = []

    def serve(peer, frame):
        served.append(bytes(frame))
        return framed(bytes(frame))

    def serve_run(peer, buffer, pos, end):
        stop = bytes(buffer[:end]).rfind(framed(b"alone"))
        if stop <= pos:
            return pos, None
        served.append(bytes(buffer[pos:stop]))
        return stop, bytes(buffer[pos:stop])

    client = await rig_of(serve, serve_run).connect()
    run = framed(b"a") + framed(b"b") + framed(b"c")
    await client.send(run + framed(b"alone") + framed(b"after") + framed(b"last"))
    assert [await client.receive() for _ in range(6)] == [
        b"a",
        b"b",
        b"c",
        b"alone",
        b"after",
        b"last",
    ]
    assert served == [run, b"alone", b"after", b"last"]


async def test_a_single_frame_is_no_run(rig_of):
    def serve_run(peer, buffer, pos, end):
        raise AssertionError

    client = await rig_of(echo, serve_run).connect()
    await client.send(framed(b"one"))
    assert await client.receive() == b"one"


async def test_the_answers_of_a_run_wait_for_their_turn(rig_of):
    waiting = []

    def serve(peer, frame):
        waiting.append(Deferred(pipelined=True))
        return waiting[-1]

    def serve_run(peer, buffer, pos, end):
        if bytes(buffer[pos + 4 : pos + 5]) == b"r":
            return end, bytes(buffer[pos:end])
        return pos, None

    rig = rig_of(serve, serve_run)
    client = await rig.connect()
    await client.send(framed(b"slow"))
    await rig.settle(lambda: len(waiting) == 1)
    await client.send(framed(b"r1") + framed(b"r2"))
    await rig.breathe()
    waiting[0].resolve(framed(b"slow"))
    assert [await client.receive() for _ in range(3)] == [b"slow", b"r1", b"r2"]


async def test_all_that_have_sent_something_are_served_before_the_first_is_answered(
    rig_of, monkeypatch
):
    seen = []

    def serve(peer, frame):
        seen.append("served")
        return framed(bytes(frame))

    sent = Connection.send_now

    def send_now(connection):
        seen.append("sent")
        sent(connection)

    monkeypatch.setattr(Connection, "send_now", send_now)
    rig = rig_of(serve)
    socks = [rig.raw() for _ in range(3)]
    await rig.settle(lambda: len(rig.hub.connections) == 3)
    for sock in socks:
        sock.send(framed(b"x"))
    await rig.settle(lambda: len(seen) == 6)
    for sock in socks:
        assert sock.recv(100) == framed(b"x")
        sock.close()
    assert seen == ["served"] * 3 + ["sent"] * 3


async def test_a_connection_that_finishes_before_its_answer_is_sent_sends_it(rig_of):
    def serve(peer, frame):
        for connection in list(rig.hub.connections):
            rig.hub.loop.call_soon(connection.finish)  # before the answer's turn
        return framed(bytes(frame))

    rig = rig_of(serve)
    client = await rig.connect()
    await client.send(framed(b"last"))
    assert await client.receive() == b"last"
    assert await client.ended()


async def test_a_peer_that_is_hung_up_on_gets_its_answer_first(rig_of):
    def serve(peer, frame):
        peer.hang_up()
        return framed(bytes(frame))

    rig = rig_of(serve)
    client = await rig.connect()
    await client.send(framed(b"1") + framed(b"2"))
    assert await client.receive() == b"1"
    assert await client.ended()


async def test_a_peer_that_is_hung_up_on_without_an_answer(rig_of):
    def serve(peer, frame):
        peer.hang_up()

    rig = rig_of(serve)
    client = await rig.connect()
    await client.send(framed(b"1"))
    assert await client.ended()


async def test_a_peer_that_is_held_back_waits_for_its_next_answer(rig_of):
    served: list[bytes] = []
    peers: list[object] = []

    def serve(peer, frame):
        peers.append(peer)
        served.append(bytes(frame))
        if len(served) == 1:
            peer.hold(3600)
        return framed(bytes(frame))

    rig = rig_of(serve)
    client = await rig.connect()
    await client.send(framed(b"1") + framed(b"2"))
    assert await client.receive() == b"1"
    await client.send(framed(b"3"))
    await rig.breathe()
    assert served == [b"1"]
    peers[0].hold(0)
    assert [await client.receive() for _ in range(2)] == [b"2", b"3"]


async def test_what_is_done_for_a_peer_can_be_watched(rig_of):
    watched: list[tuple[object, str]] = []

    def watch(peer, work, *arguments):
        watched.append((peer, work.__name__))
        return work(*arguments)

    rig = rig_of(lambda peer, frame: framed(bytes(frame)))
    client = await rig.connect()
    await client.send(framed(b"1"))
    assert await client.receive() == b"1"
    assert watched == []
    rig.hub.watch = watch
    await client.send(framed(b"2"))
    assert await client.receive() == b"2"
    (connection,) = rig.hub.connections
    assert watched == [(connection.peer, "_receive"), (connection.peer, "_send_some")]


async def test_a_run_that_wants_no_answer_gets_none(rig_of):
    def serve_run(peer, buffer, pos, end):
        if bytes(buffer[pos + 4 : pos + 5]) == b"r":
            return pos + 2 * len(framed(b"r1")), None
        return pos, None

    client = await rig_of(echo, serve_run).connect()
    await client.send(framed(b"r1") + framed(b"r2") + framed(b"after"))
    assert await client.receive() == b"after"
