"""Run a schema registry until it is told to stop.

It has the REST API of Confluent's, so clients and serialisers for that one work with it unmodified.  Its state is the
topic `_schemas` of the cluster.  Several may run: all answer reads, one of them writes, and when that one is gone
another takes over.
"""

import argparse
import asyncio
import signal
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from tidelog.cli import _logs
from tidelog.cli._options import add_client_options, client_config
from tidelog.errors import SettingsError, StartError

HELP = "run a schema registry"
EXAMPLE = "example: tidelog registry --bootstrap 127.0.0.1:9092 --listen 127.0.0.1:8081"

LISTEN = "127.0.0.1:8081"
_HIGHEST_PORT = 65535


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_client_options(parser)
    add = parser.add_argument
    add("--listen", metavar="HOST:PORT", default=LISTEN, help=f"where to listen ({LISTEN})")
    add("--advertise", metavar="HOST:PORT", help="where the other registries find this one")
    add("--topic", default="_schemas", help="where the schemas are kept (_schemas)")
    add("--group", default="schema-registry", help="registries of one group share the work")
    add(
        "--session-timeout-ms",
        type=int,
        default=10_000,
        metavar="MS",
        help="after this long a writer that was killed is replaced (10000)",
    )
    add("--ready-file", metavar="FILE", help="written when requests are taken: the address")
    add("--until-eof", action="store_true", help=argparse.SUPPRESS)
    _logs.add_options(parser, "warning")


def run(arguments: argparse.Namespace) -> int:
    _logs.set_up(arguments)
    host, port = address("--listen", arguments.listen)
    advertise = address("--advertise", arguments.advertise) if arguments.advertise else None
    require_extra()
    runner()(_serve(arguments, host, port, advertise))
    return 0


async def _serve(
    arguments: argparse.Namespace, host: str, port: int, advertise: tuple[str, int] | None
) -> None:
    from tidelog.schemas.registry import RegistryOptions
    from tidelog.schemas.server import serve

    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, stopping.set)
    if arguments.until_eof:
        loop.add_reader(
            sys.stdin, stopping.set
        )  # nothing is ever written there: it has been closed
    config = {**client_config(arguments), "client.id": "tidelog-registry"}

    def ready(host: str, port: int) -> None:
        where = f"http://{'localhost' if host in ('0.0.0.0', '::') else host}:{port}"
        print(f"the schema registry is ready on {where} (topic {arguments.topic})", flush=True)
        print(f"  try  curl {where}/subjects", flush=True)
        if arguments.ready_file:
            _announce(Path(arguments.ready_file), f"{host}:{port}\n")

    await serve(
        config,
        host,
        port,
        options=RegistryOptions(
            topic=arguments.topic,
            group=arguments.group,
            session_timeout_ms=arguments.session_timeout_ms,
        ),
        stopping=stopping,
        advertise=advertise,
        ready=ready,
    )


def runner() -> Callable[[Coroutine[Any, Any, None]], None]:
    """uvloop's event loop where it is installed, else asyncio's."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run
    run: Callable[[Coroutine[Any, Any, None]], None] = uvloop.run
    return run


def require_extra() -> None:
    """The packages of the extra, or one line that says how to get them."""
    try:
        import fastavro  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise StartError(
            f"the schema registry needs {error.name}: pip install 'tidelog[schemas]'"
        ) from error


def address(option: str, text: str) -> tuple[str, int]:
    """`HOST:PORT`; port 0 takes a free one."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > _HIGHEST_PORT:
        raise SettingsError(f"{option} {text}: write it as HOST:PORT, such as {LISTEN}")
    return host.strip("[]") or "127.0.0.1", int(port)


def _announce(path: Path, text: str) -> None:
    # Whoever waits for the file must not find half of it.
    half = path.with_name(path.name + ".tmp")
    half.write_text(text)
    half.rename(path)
