"""The small HTTP server: what it answers, and what it does not let anybody do."""

import asyncio
import contextlib
import socket

import pytest

from tidelog.network import http
from tidelog.network.http import HttpServer, Page


@contextlib.asynccontextmanager
async def serving(pages):
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    sock.setblocking(False)
    server = HttpServer(pages)
    await server.start(sock)
    try:
        yield sock.getsockname()[1]
    finally:
        await server.stop()


async def asked(port: int, request: bytes) -> tuple[bytes, bytes]:
    """Head and body of the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        answer = await asyncio.wait_for(reader.read(), 60)
    finally:
        writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return head, body


async def fine() -> Page:
    return Page(200, b"fine\n")


async def broken() -> Page:
    raise ValueError("secret detail")


PAGES = {"/fine": fine, "/broken": broken}


@pytest.mark.parametrize(
    ("request_", "status", "body"),
    [
        (b"GET /fine HTTP/1.1\r\nHost: x\r\n\r\n", b"200 OK", b"fine\n"),
        (b"GET /fine?a=b HTTP/1.0\r\n\r\n", b"200 OK", b"fine\n"),
        (b"HEAD /fine HTTP/1.1\r\n\r\n", b"200 OK", b""),
        (b"GET /other HTTP/1.1\r\n\r\n", b"404 Not Found", b"/fine"),
        (b"POST /fine HTTP/1.1\r\n\r\n", b"405 Method Not Allowed", b"GET"),
        (b"GET /fine\r\n\r\n", b"400 Bad Request", b"no HTTP"),
        (b"\x00\x01\x02\r\n\r\n", b"400 Bad Request", b"no HTTP"),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 10_000 + b"\r\n\r\n", b"431 ", b"8192"),
        (b"GET /broken HTTP/1.1\r\n\r\n", b"500 ", b"log says why"),
    ],
)
async def test_answers(request_, status, body):
    async with serving(PAGES) as port:
        head, found = await asked(port, request_)
    assert head.startswith(b"HTTP/1.1 " + status)
    assert body in found
    assert b"secret" not in head + found
    assert b"Connection: close" in head
    if b"HEAD" in request_:
        assert b"Content-Length: 5" in head
        assert found == b""


async def test_a_request_that_does_not_come_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(http, "_REQUEST_S", 0.05)
    async with serving(PAGES) as port:
        head, body = await asked(port, b"GET /fine HT")
    assert (head, body) == (b"", b"")


async def test_only_so_many_at_a_time(monkeypatch):
    monkeypatch.setattr(http, "_CONNECTIONS", 1)
    entered, leave = asyncio.Event(), asyncio.Event()

    async def slow() -> Page:
        entered.set()
        await leave.wait()
        return Page(200, b"slow\n")

    async with serving({"/slow": slow}) as port:
        first = asyncio.create_task(asked(port, b"GET /slow HTTP/1.1\r\n\r\n"))
        await entered.wait()
        head, _ = await asked(port, b"GET /slow HTTP/1.1\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503")
        leave.set()
        head, body = await first
        assert head.startswith(b"HTTP/1.1 200")
        assert body == b"slow\n"


async def test_stop_cuts_off_who_is_served():
    entered = asyncio.Event()

    async def stuck() -> Page:
        entered.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with serving({"/stuck": stuck}) as port:
        asking = asyncio.create_task(asked(port, b"GET /stuck HTTP/1.1\r\n\r\n"))
        await entered.wait()
    with contextlib.suppress(OSError):
        assert await asking == (b"", b"")
