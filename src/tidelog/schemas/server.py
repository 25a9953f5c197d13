"""Running an instance: socket, registry and HTTP server, started in the order in which they can be used."""

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping
from typing import Any

import uvicorn

from tidelog.errors import StartError
from tidelog.schemas.api import application
from tidelog.schemas.registry import Registry, RegistryOptions

_log = logging.getLogger(__name__)


async def serve(
    config: Mapping[str, Any],
    host: str,
    port: int,
    *,
    options: RegistryOptions,
    stopping: asyncio.Event,
    advertise: tuple[str, int] | None = None,
    ready: Callable[[str, int], None] = lambda host, port: None,
) -> None:
    """Serve until `stopping` is set; `ready` is told the address when requests are taken."""
    listener = bind(host, port)
    port = listener.getsockname()[1]
    seen_host, seen_port = advertise or (reachable(host), port)
    registry = Registry(config, options, seen_host, seen_port)
    try:
        await registry.start()
        server = _Server(
            uvicorn.Config(
                application(registry),
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=5,
                timeout_keep_alive=75,
            )
        )
        serving = asyncio.ensure_future(server.serve(sockets=[listener]))
        try:
            await server.listening.wait()
            registry.stand_for_election()
            ready(host, port)
            await stopping.wait()
        finally:
            server.should_exit = True
            await serving
    finally:
        await registry.close()
        listener.close()


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


def bind(host: str, port: int) -> socket.socket:
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
            f"the registry cannot listen on {host}:{port}: {error.strerror}; choose another port"
        ) from error
    return listener


def reachable(host: str) -> str:
    """The name under which other instances find this one."""
    return socket.gethostname() if host in ("", "0.0.0.0", "::") else host
