"""The simulated network, with an echo server on the real listener and connections of the broker."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

from tidelog.network.config import NetworkConfig
from tidelog.network.hub import Hub
from tidelog.network.listener import Listener
from tidelog.testing.simulation.loop import Process, SimLoop
from tidelog.testing.simulation.network import SimNetwork


class World:
    """A server that answers every frame with itself, and clients to ask it."""

    def __init__(self) -> None:
        self.loop = SimLoop(7)
        self.network = SimNetwork(self.loop)
        self.server = Process("server")
        self.served: list[bytes] = []
        self.do(self.listen(), self.server)

    async def listen(self) -> None:
        def echo(_: object, frame: memoryview) -> bytes:
            self.served.append(bytes(frame))
            return len(frame).to_bytes(4, "big") + bytes(frame)

        hub = Hub(echo, NetworkConfig(), self.loop)
        socket = self.network.open_socket("server", 9092, NetworkConfig())
        Listener(socket, "PLAINTEXT", hub).start()

    def do(self, work: Awaitable[object], process: Process, seconds: float = 5.0) -> object:
        """Run work as a process; its result, or the exception that it ended with."""
        task = self.loop.start(process, work)  # type: ignore[arg-type]
        self.loop.run_until_complete(asyncio.sleep(seconds))
        self.loop.failures.clear()
        if not task.done():
            return "waits"
        return task.exception() or task.result()


class Client(asyncio.BufferedProtocol):
    def __init__(self) -> None:
        self.room = bytearray(4096)
        self.received = b""
        self.lost: list[Exception | None] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self.room)

    def buffer_updated(self, nbytes: int) -> None:
        self.received += self.room[:nbytes]

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)

    def send(self, *frames: bytes) -> None:
        data = b"".join(len(each).to_bytes(4, "big") + each for each in frames)
        self.transport.write(data)  # type: ignore[attr-defined]


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.loop.forget_the_dead()
    world.loop.close()


@pytest.fixture
def connect(world: World) -> Callable[[], Client]:
    def connect() -> Client:
        async def dial() -> Client:
            _, client = await world.loop.create_connection(Client, "server", 9092)
            return client

        client = world.do(dial(), Process("client"))
        assert isinstance(client, Client), client
        return client

    return connect


def wait(world: World, seconds: float = 5.0) -> None:
    world.loop.run_until_complete(asyncio.sleep(seconds))


def test_frames_arrive_in_order_however_uneven_the_link_is(world: World, connect):
    world.network.link("client", "server").jitter_s = 0.5
    client = connect()
    sent = [b"%d" % each for each in range(200)]
    for each in sent:
        client.send(each)
    wait(world, 60)
    assert world.served == sent
    assert client.received.count(b"\0\0\0") == 200


def test_a_cut_link_holds_back_and_heals(world: World, connect):
    client = connect()
    world.network.cut("client", "server")
    client.send(b"one", b"two")
    wait(world)
    assert world.served == []
    world.network.heal("client", "server")
    wait(world)
    assert world.served == [b"one", b"two"]


def test_a_link_may_be_cut_one_way(world: World, connect):
    client = connect()
    world.network.cut("server", "client")
    client.send(b"one")
    wait(world)
    assert world.served == [b"one"]
    assert client.received == b""
    world.network.heal("server", "client")
    wait(world)
    assert client.received == b"\0\0\0\x03one"


def test_a_process_that_is_killed_resets_its_connections(world: World, connect):
    client = connect()
    world.loop.kill(world.server)
    world.network.process_died(world.server)
    wait(world)
    ((error,),) = [client.lost]
    assert isinstance(error, ConnectionResetError)


def test_a_host_without_power_is_silent_until_it_is_back(world: World, connect):
    client = connect()
    world.network.power_off("server")
    world.loop.kill(world.server)
    world.network.process_died(world.server)
    client.send(b"one")
    wait(world, 60)
    assert client.lost == []
    world.network.power_on("server")
    wait(world)
    assert len(client.lost) == 1


def test_who_dials_a_port_that_nobody_listens_on_is_refused(world: World):
    found = world.do(world.loop.create_connection(Client, "server", 1), Process("client"))
    assert isinstance(found, ConnectionRefusedError)


def test_who_dials_over_a_cut_link_waits(world: World):
    world.network.cut("server", "client")
    assert (
        world.do(world.loop.create_connection(Client, "server", 9092), Process("client")) == "waits"
    )
    world.network.heal_all()
    wait(world)


def test_a_broken_connection_loses_an_end_never_the_middle(world: World, connect):
    for _ in range(20):
        world.served.clear()
        client = connect()
        sent = [b"%d" % each for each in range(9)]
        for each in sent:
            client.send(each)
        (pipe,) = world.network.connections("client", "server")
        world.network.break_connection(pipe)
        wait(world)
        assert world.served == sent[: len(world.served)]
        assert len(client.lost) == 1


def test_who_only_waits_learns_by_keepalive_that_nobody_is_there(world: World, connect):
    client = connect()
    world.network.power_off("server")
    world.loop.kill(world.server)
    world.network.process_died(world.server)
    wait(world, 60)
    assert client.lost == []
    world.network.power_on("server")
    wait(world, 60)
    assert [type(each) for each in client.lost] == [ConnectionResetError]
