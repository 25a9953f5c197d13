"""Pieces of answers leave in order, whatever they are and however little the socket takes."""

import asyncio
import itertools
import os
import random
import socket
import struct
from typing import NamedTuple

import pytest

from tidelog.network.flow import SEND_BYTES, SENDFILE_TURNS, MemoryBound
from tidelog.network.outbox import SENDFILE_MIN_BYTES


class DiskFile:
    def __init__(self, path):
        self._fd = os.open(path, os.O_RDONLY)

    def fileno(self):
        return self._fd

    def pread(self, length, position):
        return os.pread(self._fd, length, position)

    def pread_into(self, buffer, position):
        return os.preadv(self._fd, [buffer], position)

    def close(self):
        os.close(self._fd)


class Region(NamedTuple):
    file: DiskFile
    position: int
    length: int


@pytest.fixture
def data(tmp_path):
    content = random.Random(1).randbytes(3_000_000)
    (tmp_path / "segment").write_bytes(content)
    file = DiskFile(tmp_path / "segment")
    yield content, file
    file.close()


HERE, ELSEWHERE = "127.0.0.1", "127.0.0.2"
"""Addresses of a peer: that of the broker itself, and one that is taken for another machine's."""


@pytest.mark.parametrize("peer_host", [HERE, ELSEWHERE])
@pytest.mark.parametrize("send_buffer_bytes", [-1, 4096])
async def test_bytes_and_regions_in_order(rig_of, data, send_buffer_bytes, peer_host):
    content, file = data
    sizes = [100, SENDFILE_MIN_BYTES - 1, SENDFILE_MIN_BYTES, 1_000_000, SEND_BYTES + 1, 7]

    def serve(peer, frame):
        pieces, position = [], 0
        for size in sizes:
            pieces += [b"head", Region(file, position, size), bytearray(b"tail")]
            position += size
        total = sum(sizes) + 8 * len(sizes)
        return [struct.pack(">i", total), *pieces]

    rig = rig_of(serve, send_buffer_bytes=send_buffer_bytes)
    client = await rig.connect(peer_host)
    await client.send(struct.pack(">i", 1) + b"x")
    await client.send(struct.pack(">i", 1) + b"x")
    expected, position = b"", 0
    for size in sizes:
        expected += b"head" + content[position : position + size] + b"tail"
        position += size
    assert await client.receive() == expected
    assert await client.receive() == expected


@pytest.mark.parametrize("at", [SEND_BYTES - 1, SEND_BYTES, SEND_BYTES + 1])
async def test_bytes_that_do_not_fit_into_the_buffer_are_sent_in_parts(rig_of, data, at):
    content, file = data
    total = at + 2000 + at
    rig = rig_of(
        lambda peer, frame: [
            struct.pack(">i", total) + content[:at],
            Region(file, 100, 1000),
            memoryview(content)[:1000],
            bytearray(content[:at]),
        ]
    )
    client = await rig.connect()
    await client.send(struct.pack(">i", 1) + b"x")
    assert await client.receive() == (
        content[:at] + content[100:1100] + content[:1000] + content[:at]
    )


@pytest.mark.parametrize("peer_host", [HERE, ELSEWHERE])
async def test_sendfile_is_for_other_machines(rig_of, data, peer_host, monkeypatch):
    content, file = data
    sent = sendfile_calls(monkeypatch)
    rig = rig_of(lambda peer, frame: [struct.pack(">i", 200_000), Region(file, 5, 200_000)])
    client = await rig.connect(peer_host)
    await client.send(struct.pack(">i", 1) + b"x")
    assert await client.receive() == content[5:200_005]
    assert bool(sent) == (peer_host == ELSEWHERE)


async def test_sendfile_is_for_a_peer_whose_socket_was_full(rig_of, data, monkeypatch):
    content, file = data
    sent = sendfile_calls(monkeypatch)
    rig = rig_of(
        lambda peer, frame: [struct.pack(">i", 2_900_000), Region(file, 0, 2_900_000)],
        send_buffer_bytes=4096,
    )
    client = await rig.connect()
    await client.send(struct.pack(">i", 1) + b"x")
    assert await client.receive() == content[:2_900_000]
    assert sent, "what it does not take would be read again and again"


async def test_sendfile_is_for_a_while_after_an_answer_that_took_long(rig_of, data, monkeypatch):
    content, file = data
    sent = sendfile_calls(monkeypatch)
    rig = rig_of(lambda peer, frame: [struct.pack(">i", 200_000), Region(file, 0, 200_000)])
    seconds = itertools.count()
    rig.hub.now = lambda: next(seconds)
    client = await rig.connect()
    by_sendfile = []
    for _ in range(SENDFILE_TURNS + 2):
        await client.send(struct.pack(">i", 1) + b"x")
        assert await client.receive() == content[:200_000]
        by_sendfile.append(bool(sent))
        sent.clear()
    assert by_sendfile == [False, *[True] * SENDFILE_TURNS, False]


def sendfile_calls(monkeypatch):
    """How many bytes each call was to send, from now on."""
    asked = []
    monkeypatch.setattr(
        "tidelog.network.outbox.os.sendfile",
        lambda *given, sendfile=os.sendfile: asked.append(given[3]) or sendfile(*given),
    )
    return asked


@pytest.mark.parametrize("peer_host", [HERE, ELSEWHERE])
@pytest.mark.parametrize("length", [100, SENDFILE_MIN_BYTES * 2])
async def test_a_region_that_is_not_there_closes_the_connection(rig_of, data, length, peer_host):
    _, file = data
    rig = rig_of(lambda peer, frame: [b"head", Region(file, 2_999_990, length)])
    client = await rig.connect(peer_host)
    await client.send(struct.pack(">i", 1) + b"x")
    async with asyncio.timeout(5):
        await client.reader.read()
    assert not rig.hub.connections


async def test_a_peer_that_vanishes_while_it_is_sent_to(rig_of, data):
    _, file = data
    rig = rig_of(lambda peer, frame: [Region(file, 0, 3_000_000)] * 10)
    sock = rig.raw()
    await asyncio.get_running_loop().sock_sendall(sock, struct.pack(">i", 1) + b"x")
    await rig.settle(lambda: any(each._out for each in rig.hub.connections))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()
    await rig.settle(lambda: not rig.hub.connections)


def test_memory_bound_lets_the_oldest_finish_and_then_the_others():
    bound, woken = MemoryBound(10), []
    bound.hold("first", 12)
    bound.hold("second", 3)
    assert bound.may_read("first")
    assert not bound.may_read("second")
    bound.wait("second", lambda: woken.append("second"))
    bound.wait("third", lambda: woken.append("third"))
    bound.hold("first", 20)
    assert bound.used == 23
    bound.hold("second", 11)
    bound.release("first")
    assert woken == ["second"], "it is the oldest now, although the bound is exceeded"
    bound.release("second")
    assert woken == ["second", "third"]
    assert bound.used == 0
