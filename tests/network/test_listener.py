"""Who may connect."""

import struct

import pytest

from tidelog.errors import SettingsError
from tidelog.network.config import NetworkConfig
from tidelog.network.peer import Address


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


async def test_the_peer_knows_what_it_dialled(rig_of):
    peers = []

    def serve(peer, frame):
        peers.append(peer)
        return bytearray(framed(b""))

    rig = rig_of(serve)
    client = await rig.connect()
    await client.send(framed(b"x"))
    await client.receive()
    assert peers[0].local == rig.listener.address
    assert peers[0].address == Address(*client.writer.get_extra_info("sockname"))
    assert str(peers[0].principal) == "User:ANONYMOUS"
    assert peers[0].listener == "PLAINTEXT"


async def test_connections_of_one_address_are_limited(rig_of):
    rig = rig_of(lambda peer, frame: None, max_connections_per_ip=2)
    first, _second, third = await rig.connect(), await rig.connect(), await rig.connect()
    assert await third.ended()
    await first.close()
    await rig.settle(lambda: len(rig.hub.connections) == 1)
    await rig.connect()
    await rig.settle(lambda: len(rig.hub.connections) == 2)


async def test_connections_beyond_the_limit_wait_for_a_place(rig_of):
    rig = rig_of(lambda peer, frame: bytearray(framed(bytes(frame))), max_connections=1)
    first = await rig.connect()
    await rig.settle(lambda: len(rig.hub.connections) == 1)
    second = await rig.connect()  # accepted by the kernel, not by us
    await second.send(framed(b"waiting"))
    assert len(rig.hub.connections) == 1
    await first.close()
    assert await second.receive() == b"waiting"


async def test_limits_may_change_while_it_runs(rig_of):
    rig = rig_of(lambda peer, frame: None, max_connections_per_ip=1)
    await rig.connect()
    assert await (await rig.connect()).ended()
    rig.hub.set_config(NetworkConfig(max_connections_per_ip=2))
    await rig.connect()
    await rig.settle(lambda: len(rig.hub.connections) == 2)


def test_exceptions_by_address():
    config = NetworkConfig(
        max_connections_per_ip=5, max_connections_per_ip_overrides=("10.0.0.1:7", "::1:9")
    )
    assert [config.allowed_from(host) for host in ("10.0.0.1", "::1", "10.0.0.2")] == [7, 9, 5]
    with pytest.raises(SettingsError):
        NetworkConfig(max_connections_per_ip_overrides=("10.0.0.1",)).allowed_from("x")


class Arrivals:
    """Refuses and pauses as the test says."""

    def __init__(self) -> None:
        self.refused: dict[str, float] = {}
        self.pauses: list[float] = []
        self.came: list[str] = []

    def refused_for(self, host: str) -> float:
        return self.refused.get(host, 0.0)

    def paused_for(self, listener: str) -> float:
        self.came.append(listener)
        return self.pauses.pop() if self.pauses else 0.0


async def test_an_address_that_comes_too_often_is_closed_after_a_while(rig_of):
    rig = rig_of(lambda peer, frame: framed(bytes(frame)))
    rig.hub.arrivals = Arrivals()
    rig.hub.arrivals.refused["127.0.0.1"] = 3600.0
    clients = [await rig.connect() for _ in range(3)]
    await rig.settle(lambda: len(rig.hub._refused) == 3)
    assert not rig.hub.connections
    rig.hub.arrivals.refused["127.0.0.1"] = 0.001
    assert await (await rig.connect()).ended()
    assert len(rig.hub._refused) == 3
    rig.hub.abort()  # leaves nothing open
    for each in clients:
        assert await each.ended()


async def test_those_who_are_refused_cost_few_descriptors(rig_of):
    rig = rig_of(lambda peer, frame: framed(bytes(frame)))
    rig.hub.arrivals = Arrivals()
    rig.hub.arrivals.refused["127.0.0.1"] = 3600.0
    first = await rig.connect()
    others = [await rig.connect() for _ in range(100)]
    assert await first.ended()
    assert len(rig.hub._refused) == 100
    rig.hub.abort()
    for each in others:
        assert await each.ended()


async def test_connections_that_come_too_fast_wait_to_be_accepted(rig_of):
    rig = rig_of(lambda peer, frame: framed(bytes(frame)))
    rig.hub.arrivals = Arrivals()
    rig.hub.arrivals.pauses = [3600.0]
    first, second = await rig.connect(), await rig.connect()
    await rig.settle(lambda: len(rig.hub.arrivals.came) == 1)
    assert len(rig.hub.connections) == 1
    rig.listener.start()  # as it does when its time has come
    for each in (first, second):
        await each.send(framed(b"hello"))
        assert await each.receive() == b"hello"
