"""Running a console: socket, sessions and HTTP server."""

import asyncio
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence

from tidelog.console.app import application
from tidelog.console.sessions import Sessions
from tidelog.web import bind, hosting

_CONNECTIONS = 200


async def serve(
    config: Mapping[str, str],
    host: str,
    port: int,
    *,
    stopping: asyncio.Event,
    registry_url: str | None = None,
    mechanisms: Sequence[str] = (),
    read_only: bool = False,
    hosts: Iterable[str] = (),
    ready: Callable[[str, int], None] = lambda host, port: None,
) -> None:
    """Serve until `stopping` is set; `ready` is told the address when requests are taken."""
    listener = bind("the console", host, port)
    try:
        sessions = Sessions(config, registry_url, mechanisms)
        app = application(
            sessions,
            read_only=read_only,
            has_registry=registry_url is not None,
            stopping=stopping,
            hosts=[host, socket.gethostname(), *hosts],
        )
        try:
            sessions.start()
            async with hosting(app, listener, limit_concurrency=_CONNECTIONS):
                ready(host, listener.getsockname()[1])
                await stopping.wait()
        finally:
            await sessions.close()
    finally:
        listener.close()
