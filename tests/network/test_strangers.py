"""Whoever has not logged in costs little, and holds nobody up who has."""

import asyncio
import logging
import socket
import struct

import pytest

from tidelog.network.config import NetworkConfig
from tidelog.network.hub import Hub
from tidelog.network.listener import Listener, open_socket
from tidelog.network.strangers import StrangersLog

LARGEST = 512 * 1024


class Door:
    """A listener that asks for a login, beside one that does not."""

    def __init__(self, **settings) -> None:
        config = NetworkConfig(**settings)
        self.hub = Hub(self._serve, config, asyncio.get_running_loop())
        self.guarded = Listener(
            open_socket("127.0.0.1", 0, config), "SASL", self.hub, largest=LARGEST
        )
        self.open = Listener(open_socket("127.0.0.1", 0, config), "PLAINTEXT", self.hub)
        self.guarded.start()
        self.open.start()
        self.sockets: list[socket.socket] = []

    def _serve(self, peer, frame):
        if bytes(frame[:5]) == b"login":
            peer.largest = None
        return struct.pack(">i", len(frame)) + bytes(frame)

    async def connect(self, listener: Listener, data: bytes = b"") -> socket.socket:
        sock = socket.create_connection(listener.address)
        sock.setblocking(False)
        self.sockets.append(sock)
        await asyncio.get_running_loop().sock_sendall(sock, data)
        return sock

    async def settle(self, condition) -> None:
        async with asyncio.timeout(10):
            while not condition():  # noqa: ASYNC110  (there is no event for what the kernel does)
                await asyncio.sleep(0)


@pytest.fixture
async def door():
    made = []

    def make(**settings) -> Door:
        made.append(Door(**settings))
        return made[-1]

    yield make
    for each in made:
        for sock in each.sockets:
            sock.close()
        each.guarded.close()
        each.open.close()
        each.hub.abort()


async def read(sock: socket.socket, size: int) -> bytes:
    async with asyncio.timeout(10):
        return await asyncio.get_running_loop().sock_recv(sock, size)


async def test_frames_that_strangers_announce_hold_nobody_up(door):
    """270 of them used to block every request above 16 KiB of those who had logged in."""
    rig = door(queued_max_request_bytes=8 << 20)
    announced = struct.pack(">i", LARGEST - 10) + b"x" * 10_000
    for _ in range(270):
        await rig.connect(rig.guarded, announced)
    await rig.settle(lambda: len(rig.hub.connections) == 270)
    await rig.settle(lambda: rig.hub.strangers_memory.used >= 270 * 10_000)
    assert rig.hub.strangers_memory.used <= 270 * (10_000 + 4), (
        "what has arrived, not what was announced"
    )
    assert rig.hub.memory.used == 0
    known = await rig.connect(rig.open, struct.pack(">i", 300_000))
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(known, b"y" * 300_000)
    answer = b""
    while len(answer) < 300_004:
        answer += await read(known, 400_000)


async def test_what_has_arrived_is_counted_and_not_what_was_announced(door):
    rig = door()
    for _ in range(20):
        await rig.connect(rig.open, struct.pack(">i", 90 << 20) + b"x" * 50_000)
    await rig.settle(lambda: rig.hub.memory.used >= 20 * 50_000)
    assert rig.hub.memory.used <= 20 * 50_004


async def test_who_does_not_log_in_is_closed_and_told_of_once(door, caplog):
    rig = door(login_timeout_ms=50)
    with caplog.at_level(logging.WARNING, "tidelog.network.strangers"):
        known = await rig.connect(rig.guarded, struct.pack(">i", 5) + b"login")
        assert await read(known, 100) == struct.pack(">i", 5) + b"login"
        others = [await rig.connect(rig.guarded) for _ in range(20)]
        for each in others:
            assert await read(each, 1) == b""
    assert len(caplog.messages) == 1
    assert "did not log in within 50 ms" in caplog.messages[0]
    await asyncio.get_running_loop().sock_sendall(known, struct.pack(">i", 1) + b"z")
    assert await read(known, 100) == struct.pack(">i", 1) + b"z"


async def test_an_address_has_only_so_many_strangers(door):
    rig = door(max_strangers_per_ip=3)
    for _ in range(5):
        known = await rig.connect(rig.guarded, struct.pack(">i", 5) + b"login")
        await read(known, 100)
    for _ in range(3):
        await rig.connect(rig.guarded)
    await rig.settle(lambda: len(rig.hub.connections) == 8)
    fourth = await rig.connect(rig.guarded)
    assert await read(fourth, 1) == b""
    assert rig.hub.refused == 1
    other = await rig.connect(rig.open, struct.pack(">i", 1) + b"z")
    assert await read(other, 100) == struct.pack(">i", 1) + b"z"


def test_lines_that_were_left_out_are_counted(caplog):
    now = 0.0
    log = StrangersLog(lambda: now)
    with caplog.at_level(logging.WARNING, "tidelog.network.strangers"):
        for _ in range(1000):
            log.tell(logging.WARNING, "1.2.3.4:5", "noise")
        now = 11.0
        log.tell(logging.WARNING, "1.2.3.4:5", "noise")
    assert len(caplog.messages) == 2
    assert "999 more" in caplog.messages[1]
