"""Run a schema registry until it is told to stop.

It has the REST API of Confluent's, so clients and serialisers for that one work with it unmodified.  Its state is the
topic `_schemas` of the cluster.  Several may run: all answer reads, one of them writes, and when that one is gone
another takes over.
"""

import argparse
import asyncio
import logging
import signal
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidelog.cli import _logs
from tidelog.cli._options import add_client_options, client_config
from tidelog.errors import SettingsError, StartError

if TYPE_CHECKING:
    import ssl

    from tidelog.schemas.access import Access

HELP = "run a schema registry"
EXAMPLE = "example: tidelog registry --bootstrap 127.0.0.1:9092 --listen 127.0.0.1:8081"

log = logging.getLogger(__name__)

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
    add(
        "--allow-host",
        metavar="NAME",
        action="append",
        help="a name under which clients reach it, besides addresses, localhost and this machine's name",
    )
    add("--tls-certificate", metavar="FILE", help="speak HTTPS, with this certificate (PEM)")
    add("--tls-key", metavar="FILE", help="its key (the certificate's file)")
    add(
        "--tls-roots",
        metavar="FILE",
        help="what other instances are checked against (the system's)",
    )
    add("--login", action="store_true", help="ask for a user of the broker, and his password")
    add(
        "--mechanism",
        action="append",
        choices=["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"],
        help="how users log in at the broker; several are tried in turn (that of -X sasl.mechanism)",
    )
    add(
        "--allow",
        metavar="RULE",
        action="append",
        help="a rule, such as 'alice read,register orders-*'; repeatable (read, register, configure, delete)",
    )
    add("--rules", metavar="FILE", help="rules, one a line")
    add("--ready-file", metavar="FILE", help="written when requests are taken: the address")
    add("--until-eof", action="store_true", help=argparse.SUPPRESS)
    _logs.add_options(parser, "warning")


def run(arguments: argparse.Namespace) -> int:
    _logs.set_up(arguments)
    host, port = address("--listen", arguments.listen)
    advertise = address("--advertise", arguments.advertise) if arguments.advertise else None
    require_extra()
    if arguments.login and not host.startswith("127.") and not arguments.tls_certificate:
        log.warning(
            "users send their passwords in plain text: --login without --tls-certificate on %s",
            host,
        )
    runner()(_serve(arguments, host, port, advertise))
    return 0


async def _serve(
    arguments: argparse.Namespace, host: str, port: int, advertise: tuple[str, int] | None
) -> None:
    from tidelog.schemas.registry import RegistryOptions
    from tidelog.schemas.server import serve

    config = {**client_config(arguments), "client.id": "tidelog-registry"}
    access, tls, roots = _access(arguments, config), _tls(arguments), _roots(arguments)
    scheme = "http" if tls is None else "https"

    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, stopping.set)
    if arguments.until_eof:
        loop.add_reader(
            sys.stdin, stopping.set
        )  # nothing is ever written there: it has been closed

    def ready(host: str, port: int) -> None:
        where = f"{scheme}://{'localhost' if host in ('0.0.0.0', '::') else host}:{port}"
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
            scheme=scheme,
            tls=roots,
        ),
        stopping=stopping,
        advertise=advertise,
        ready=ready,
        access=access,
        hosts=arguments.allow_host or (),
        tls=tls,
    )


def _access(arguments: argparse.Namespace, config: dict[str, str]) -> "Access | None":
    """Who may do what; None where nobody has to log in."""
    from tidelog.schemas.access import Access, BrokerLogins, parse_rules

    lines = list(arguments.allow or ())
    if arguments.rules:
        try:
            lines += Path(arguments.rules).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise StartError(f"--rules {arguments.rules} cannot be read: {error}") from error
    if not arguments.login:
        if arguments.allow or arguments.rules or arguments.mechanism:
            raise SettingsError("--allow, --rules and --mechanism hold for users: add --login")
        return None
    if not config.get("security.protocol", "").startswith("SASL"):
        raise SettingsError(
            "--login: users are the broker's; reach it over a listener with a login (-X security.protocol=SASL_SSL)"
        )
    own = ("sasl.username", "sasl.password", "sasl.oauthbearer.token")
    towards_broker = {name: value for name, value in config.items() if name not in own}
    mechanisms = arguments.mechanism or [config.get("sasl.mechanism", "SCRAM-SHA-256")]
    return Access(BrokerLogins(towards_broker, mechanisms), parse_rules(lines))


def _tls(arguments: argparse.Namespace) -> "ssl.SSLContext | None":
    """With what this instance is served over HTTPS; None for HTTP."""
    if not arguments.tls_certificate:
        if arguments.tls_key or arguments.tls_roots:
            raise SettingsError("--tls-key and --tls-roots need --tls-certificate")
        return None
    from tidelog.security.certificates import Certificates, TlsFiles

    certificate = arguments.tls_certificate
    return Certificates(TlsFiles(certificate, arguments.tls_key or certificate)).context()


def _roots(arguments: argparse.Namespace) -> "ssl.SSLContext | None":
    """How other instances are checked."""
    if not arguments.tls_roots:
        return None
    import ssl

    from tidelog.security.certificates import trust

    context = ssl.create_default_context()
    trust(context, arguments.tls_roots)
    return context


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
