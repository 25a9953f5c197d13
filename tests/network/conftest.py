"""A hub that answers what the test says, and raw clients on loopback."""

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator, Callable

import pytest

from tidelog.network.config import NetworkConfig
from tidelog.network.hub import Hub
from tidelog.network.listener import Listener, open_socket


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


class Client:
    """A plain stream to the hub."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def receive(self) -> bytes:
        (size,) = struct.unpack(">i", await self.reader.readexactly(4))
        return await self.reader.readexactly(size)

    async def ended(self) -> bool:
        """True once the broker has closed the connection."""
        try:
            return await self.reader.read(1) == b""
        except ConnectionError:
            return True

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()


class Rig:
    """A hub with one listener."""

    def __init__(self, hub: Hub, listener: Listener) -> None:
        self.hub = hub
        self.listener = listener
        self.clients: list[Client] = []

    async def connect(self, own_host: str = "127.0.0.1") -> Client:
        """A client at `own_host`, which has to be an address of this machine."""
        host, port = self.listener.address
        client = Client(*await asyncio.open_connection(host, port, local_addr=(own_host, 0)))
        self.clients.append(client)
        return client

    def raw(self) -> socket.socket:
        sock = socket.create_connection(self.listener.address)
        sock.setblocking(False)
        return sock

    async def breathe(self) -> None:
        """Let the loop do all that it can do now; loopback delivers at once."""
        for _ in range(50):
            await asyncio.sleep(0)

    async def settle(self, condition: Callable[[], bool]) -> None:
        """Let the loop run until `condition` holds."""
        async with asyncio.timeout(5):
            while not condition():  # noqa: ASYNC110  (there is no event for what the kernel does)
                await asyncio.sleep(0)


@pytest.fixture
async def rig_of() -> AsyncIterator[Callable[..., Rig]]:
    rigs: list[Rig] = []

    def make(serve, serve_run=None, **settings) -> Rig:
        config = NetworkConfig(**settings)
        hub = Hub(serve, config, asyncio.get_running_loop(), serve_run=serve_run)
        listener = Listener(open_socket("127.0.0.1", 0, config), "PLAINTEXT", hub)
        listener.start()
        rig = Rig(hub, listener)
        rigs.append(rig)
        return rig

    yield make
    for rig in rigs:
        for client in rig.clients:
            await client.close()
        rig.listener.close()
        rig.hub.abort()
