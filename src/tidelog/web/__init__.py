"""Hosting an ASGI application in a process that has other things to do: a bound socket, and uvicorn without its manners.

    listener = bind("the registry", "127.0.0.1", 8081)
    async with hosting(application, listener):
        ...                                     # requests are taken

Signals, logging and the loop stay the caller's.  The schema registry and the console are served by it.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from typing import Any

import uvicorn

from tidelog.errors import StartError
from tidelog.web.patience import bounded

_STOP_S = 5
_KEEP_ALIVE_S = 75


@contextlib.asynccontextmanager
async def hosting(
    application: Any,
    listener: socket.socket,
    tls: ssl.SSLContext | None = None,
    **options: Any,
) -> AsyncIterator[None]:
    """Serve while the block runs, over TLS where a context is given; `options` are uvicorn's."""
    config = uvicorn.Config(
        application,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_STOP_S,
        timeout_keep_alive=_KEEP_ALIVE_S,
        **options,
    )
    config.load()
    config.http_protocol_class = bounded(config.http_protocol_class)
    config.ssl = tls  # made by us: uvicorn's own reads files and knows no minimum version
    server = _Server(config)
    serving = asyncio.ensure_future(server.serve(sockets=[listener]))
    try:
        await server.listening.wait()
        yield
    finally:
        server.should_exit = True
        await serving


def bind(who: str, host: str, port: int) -> socket.socket:
    """A bound socket; StartError says why not."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        # With the protocol named, asyncio knows it as TCP and switches Nagle's algorithm off.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    except OSError as error:
        raise StartError(f"--listen {host}:{port}: {error}") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise StartError(
            f"{who} cannot listen on {host}:{port}: {error.strerror}; choose another port"
        ) from error
    return listener


class _Server(uvicorn.Server):
    """uvicorn's server, which says when it listens and leaves signals to the caller."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        await self._serve(sockets)
