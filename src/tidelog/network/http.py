"""Answers a few GET requests for whoever looks after the broker: small, bounded, one request a connection.

    server = HttpServer({"/healthz": health})
    await server.start(sock)

A page is a coroutine that returns a status, a content type and a body.  Not for the public: no TLS, no login, nothing is
changed by it.
"""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

_log = logging.getLogger(__name__)

_HEAD_BYTES = 8 * 1024
_CONNECTIONS = 32
_REQUEST_S = 10.0
"""Until the request is there, and again until its answer is taken."""
_BUSY_S = 1.0
_STATUS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    501: "Not Implemented",
    503: "Service Unavailable",
}
_TEXT = "text/plain; charset=utf-8"


class Page(NamedTuple):
    status: int
    body: bytes
    content_type: str = _TEXT


Pages = Mapping[str, Callable[[], Awaitable[Page]]]


class HttpServer:
    """See the module's docstring."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self, sock: socket.socket) -> None:
        """Serve on a bound socket; raises OSError if somebody else listens there."""
        self._server = await asyncio.start_server(self._connected, sock=sock, limit=_HEAD_BYTES)

    async def stop(self) -> None:
        """Serve no more; whoever is being answered is cut off."""
        if self._server is not None:
            self._server.close()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            if len(self._connections) > _CONNECTIONS:
                async with asyncio.timeout(
                    _BUSY_S
                ):  # what is not read would take the answer with it
                    await reader.read(_HEAD_BYTES)
                page, whole = Page(503, b"too many connections\n"), True
            else:
                page, whole = await self._answer(reader)
            writer.write(_encoded(page, with_body=whole))
            async with asyncio.timeout(_REQUEST_S):
                await writer.drain()
        except (OSError, TimeoutError, EOFError) as error:
            _log.debug("a request for a page was not answered: %s", error or type(error).__name__)
        finally:
            self._connections.discard(task)
            writer.close()
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(_REQUEST_S):
                    await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader) -> tuple[Page, bool]:
        """The page, and whether its body is wanted."""
        try:
            async with asyncio.timeout(_REQUEST_S):
                head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            return Page(431, f"more than {_HEAD_BYTES} bytes of headers\n".encode()), True
        parts = head.partition(b"\r\n")[0].split(b" ")
        if len(parts) != 3 or not parts[2].startswith(b"HTTP/1."):
            return Page(400, b"this is no HTTP request\n"), True
        method, target = parts[0], parts[1].partition(b"?")[0]
        if method not in (b"GET", b"HEAD"):
            return Page(405, b"only GET and HEAD are answered here\n"), True
        make = self._pages.get(target.decode("latin-1"))
        if make is None:
            known = ", ".join(self._pages)
            return Page(404, f"there is no such page; there are {known}\n".encode()), True
        try:
            return await make(), method == b"GET"
        except Exception as error:  # noqa: BLE001  (the root of a page)
            _log.error("the page %s failed", target.decode("latin-1"), exc_info=error)
            return Page(500, b"the page could not be made; the broker's log says why\n"), True


def _encoded(page: Page, *, with_body: bool) -> bytes:
    allow = "Allow: GET, HEAD\r\n" if page.status == 405 else ""
    head = (
        f"HTTP/1.1 {page.status} {_STATUS[page.status]}\r\n"
        f"Content-Type: {page.content_type}\r\n"
        f"Content-Length: {len(page.body)}\r\n"
        "Cache-Control: no-store\r\n"
        f"{allow}Connection: close\r\n\r\n"
    )
    return head.encode() + (page.body if with_body else b"")
