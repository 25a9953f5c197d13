"""Running an instance: socket, registry and HTTP server, started in the order in which they can be used."""

import asyncio
import socket
from collections.abc import Callable, Mapping
from typing import Any

from tidelog.schemas.api import application
from tidelog.schemas.registry import Registry, RegistryOptions
from tidelog.web import bind, hosting


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
    listener = bind("the registry", host, port)
    port = listener.getsockname()[1]
    seen_host, seen_port = advertise or (reachable(host), port)
    registry = Registry(config, options, seen_host, seen_port)
    try:
        await registry.start()
        async with hosting(application(registry), listener):
            registry.stand_for_election()
            ready(host, port)
            await stopping.wait()
    finally:
        await registry.close()
        listener.close()


def reachable(host: str) -> str:
    """The name under which other instances find this one."""
    return socket.gethostname() if host in ("", "0.0.0.0", "::") else host
