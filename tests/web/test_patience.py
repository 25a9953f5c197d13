"""Whoever has not asked for anything yet holds a connection for a while only, and little memory."""

import asyncio
import contextlib
import importlib.util
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tidelog.web import bind, hosting, patience

KINDS = ["h11"] + ["httptools"] * bool(importlib.util.find_spec("httptools"))
HEAD = b"POST / HTTP/1.1\r\nhost: localhost\r\n"


async def application(scope: Any, receive: Any, send: Any) -> None:
    size = 0
    while True:
        message = await receive()
        size += len(message.get("body", b""))
        if not message.get("more_body"):
            break
    body = str(size).encode()
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@contextlib.asynccontextmanager
async def connected(kind: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    listener = bind("the test", "127.0.0.1", 0)
    with listener:
        async with hosting(application, listener, http=kind):
            reader, writer = await asyncio.open_connection(*listener.getsockname())
            try:
                async with asyncio.timeout(20):
                    yield reader, writer
            finally:
                writer.close()


@pytest.mark.parametrize("kind", KINDS)
async def test_headers_are_bounded(kind):
    async with connected(kind) as (reader, writer):
        writer.write(HEAD)
        with contextlib.suppress(ConnectionError):
            for number in range(1_000):
                writer.write(b"x-%d: %s\r\n" % (number, b"y" * 8_000))
                await writer.drain()
        with contextlib.suppress(ConnectionError):
            assert b" 400 " in await reader.readline()
        assert writer.is_closing() or not await _left(reader)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "begun", [b"", HEAD, HEAD + b"content-length: 9\r\n\r\nabc"], ids=["idle", "head", "body"]
)
async def test_what_does_not_become_a_request_is_closed(kind, begun, monkeypatch):
    monkeypatch.setattr(patience, "HEAD_S", 0.05)
    monkeypatch.setattr(patience, "BODY_S", 0.06)
    async with connected(kind) as (reader, writer):
        writer.write(begun)
        assert await reader.read() == b""


@pytest.mark.parametrize("kind", KINDS)
async def test_large_bodies_and_requests_one_after_another_are_served(kind):
    async with connected(kind) as (reader, writer):
        for size in (0, 1_000_000, 10):
            writer.write(HEAD + b"content-length: %d\r\n\r\n" % size + b"x" * size)
            answer = await reader.readuntil(b"\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 200 ")
            assert await reader.readexactly(len(str(size))) == str(size).encode()


async def _left(reader: asyncio.StreamReader) -> bytes:
    with contextlib.suppress(ConnectionError):
        return await reader.read()
    return b""
