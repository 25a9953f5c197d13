"""Running an instance: socket, registry and HTTP server, started in the order in which they can be used."""

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tidelog.schemas.access import Access
from tidelog.schemas.api import application
from tidelog.schemas.http import CONTENT_TYPES, Application
from tidelog.schemas.registry import Registry, RegistryOptions
from tidelog.web import bind, hosting
from tidelog.web.guard import Guard


async def serve(
    config: Mapping[str, Any],
    host: str,
    port: int,
    *,
    options: RegistryOptions,
    stopping: asyncio.Event,
    advertise: tuple[str, int] | None = None,
    ready: Callable[[str, int], None] = lambda host, port: None,
    access: Access | None = None,
    hosts: Iterable[str] = (),
    tls: ssl.SSLContext | None = None,
) -> None:
    """Serve until `stopping` is set; `ready` is told the address when requests are taken."""
    listener = bind("the registry", host, port)
    port = listener.getsockname()[1]
    seen_host, seen_port = advertise or (reachable(host), port)
    registry = Registry(config, options, seen_host, seen_port)
    try:
        await registry.start()
        names = [host, seen_host, socket.gethostname(), *hosts]
        async with hosting(guarded(application(registry, access), names), listener, tls):
            registry.stand_for_election()
            ready(host, port)
            await stopping.wait()
    finally:
        await registry.close()
        listener.close()


def guarded(app: Application, hosts: Iterable[str]) -> Guard:
    """Nobody's browser comes in from elsewhere."""
    return Guard(
        app,
        hosts,
        name="registry",
        api="/",
        # The last is what Confluent's takes, too; a form cannot send any of them.
        content_types=(*CONTENT_TYPES, "application/octet-stream"),
        told=lambda status, code, text: {"error_code": status, "message": text},
    )


def reachable(host: str) -> str:
    """The name under which other instances find this one."""
    return socket.gethostname() if host in ("", "0.0.0.0", "::") else host
