"""Run the web console of a cluster until told to stop.

It is a client of the cluster, Apache Kafka's as well.  Where the broker asks for a login (-X security.protocol=SASL_SSL), so does the
console: everybody sees and does what the broker lets him.  Its REST API is under /api/v1.
"""

import argparse
import asyncio
import logging
import signal
import sys
from pathlib import Path

from tidelog.cli._beside import CONSOLE_LISTEN
from tidelog.cli._logs import LineFormatter
from tidelog.cli._options import add_client_options, client_config, for_any_client
from tidelog.cli._ready import announce
from tidelog.cli.registry import address, runner
from tidelog.errors import SettingsError, StartError

HELP = "run the web console"
EXAMPLE = """examples:
  tidelog console -b 127.0.0.1:9092
  tidelog console -b 127.0.0.1:9092 --listen 0.0.0.0:8080 --allow-host console.example.com --read-only
  curl 'http://127.0.0.1:8080/api/v1/topics/orders/messages?from=-10'"""

_LOG_FORMAT = "%(asctime)s %(levelname)-7s %(message)s"
_LOGINS = ("sasl.username", "sasl.password", "sasl.oauthbearer.token")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_client_options(parser)
    add = parser.add_argument
    add(
        "--listen",
        metavar="HOST:PORT",
        default=CONSOLE_LISTEN,
        help=f"where to listen ({CONSOLE_LISTEN})",
    )
    add("--registry", metavar="URL", help="a schema registry, such as http://127.0.0.1:8081")
    add(
        "--mechanism",
        action="append",
        choices=["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"],
        help="how users log in; several are tried in turn (that of -X sasl.mechanism)",
    )
    add("--read-only", action="store_true", help="nothing can be changed")
    add(
        "--allow-host",
        metavar="NAME",
        action="append",
        help="a name under which browsers reach it, besides addresses and localhost",
    )
    add("--ready-file", metavar="FILE", help="written when requests are taken: the address")
    add("--until-eof", action="store_true", help=argparse.SUPPRESS)
    levels = ["debug", "info", "warning", "error"]
    add("--log-level", metavar="LEVEL", default="warning", choices=levels, help=", ".join(levels))


def run(arguments: argparse.Namespace) -> int:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter(_LOG_FORMAT))
    logging.basicConfig(level=arguments.log_level.upper(), handlers=[handler])
    host, port = address("--listen", arguments.listen)
    config = {**client_config(arguments), "client.id": "tidelog-console"}
    given = [name for name in _LOGINS if name in config]
    if given and config.get("security.protocol", "").startswith("SASL"):
        raise SettingsError(
            f"{', '.join(given)}: the console has no login of its own; its users log in with theirs"
        )
    _require_extra()
    runner()(_serve(arguments, for_any_client(config), host, port))
    return 0


async def _serve(
    arguments: argparse.Namespace, config: dict[str, str], host: str, port: int
) -> None:
    from tidelog.console.server import serve

    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, stopping.set)
    if arguments.until_eof:
        # Nothing is ever written there: it has been closed.
        loop.add_reader(sys.stdin, stopping.set)

    def ready(host: str, port: int) -> None:
        where = f"http://{'localhost' if host in ('0.0.0.0', '::') else host}:{port}"
        print(f"the console is ready on {where}", flush=True)
        certificate = config.get("ssl.certificate.location")
        if certificate and not config.get("security.protocol", "").startswith("SASL"):
            print(f"  no login  whoever reaches it acts as the owner of {certificate}", flush=True)
        if arguments.ready_file:
            announce(Path(arguments.ready_file), [f"{host}:{port}"])

    await serve(
        config,
        host,
        port,
        stopping=stopping,
        registry_url=arguments.registry,
        mechanisms=arguments.mechanism or (),
        read_only=arguments.read_only,
        hosts=arguments.allow_host or (),
        ready=ready,
    )


def _require_extra() -> None:
    """The packages of the extra, or one line that says how to get them."""
    try:
        import fastapi  # noqa: F401
        import fastavro  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise StartError(
            f"the console needs {error.name}: pip install 'tidelog[console]'"
        ) from error
