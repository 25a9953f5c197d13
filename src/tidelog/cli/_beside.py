"""What `tidelog serve` runs beside the broker: a schema registry and a console, each in a process of its own.

They are started when the broker is ready, so the broker's start is as fast as without, and they share no interpreter with it.
The broker goes on whatever becomes of them; one that ends by itself is started again after a pause, one that cannot start (no extra,
the port is taken) says so in one line and is left alone.
"""

import argparse
import asyncio
import contextlib
import logging
import sys
from collections.abc import AsyncIterator, Sequence

from tidelog.broker.settings import BrokerSettings
from tidelog.dataclass import dataclass

log = logging.getLogger(__name__)

REGISTRY_LISTEN = "127.0.0.1:8081"
CONSOLE_LISTEN = "127.0.0.1:8080"
_PASSWORDS = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
_PAUSE_S = 5.0
_STOP_S = 10.0
_WRONG_USE = 2


@dataclass(frozen=True, slots=True)
class Companion:
    """A command of tidelog that is run beside the broker."""

    title: str
    extra: str
    packages: tuple[str, ...]
    """Without them it cannot run."""
    command: tuple[str, ...]
    asked_for: bool = True
    """Whether the user wants it, or would merely have it."""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--registry",
        metavar="WHERE",
        nargs="?",
        const=REGISTRY_LISTEN,
        help=f"run a schema registry as well ({REGISTRY_LISTEN})",
    )
    console = parser.add_mutually_exclusive_group()
    console.add_argument(
        "--console",
        metavar="WHERE",
        nargs="?",
        const=CONSOLE_LISTEN,
        help=f"run the web console as well ({CONSOLE_LISTEN})",
    )
    console.add_argument(
        "--no-console", action="store_true", help="do not, although this is a terminal"
    )
    parser.add_argument(
        "--allow-host",
        metavar="NAME",
        action="append",
        help="a name by which both are reached, besides localhost",
    )


def companions(
    arguments: argparse.Namespace, bootstrap: str, settings: BrokerSettings
) -> list[Companion]:
    """Those that were asked for, and on a terminal the console."""
    found = []
    names = [part for each in arguments.allow_host or () for part in ("--allow-host", each)]
    if arguments.registry is not None:
        command = ("registry", "--bootstrap", bootstrap, "--listen", arguments.registry, *names)
        found.append(Companion("schema registry", "schemas", ("fastavro", "uvicorn"), command))
    # A terminal has a person before it; a service, a script and a test keep their ports to themselves.
    listen = arguments.console or (CONSOLE_LISTEN if sys.stdout.isatty() else None)
    asked = arguments.console is not None
    where = None
    if listen is not None and not arguments.no_console:
        where = _most_secure(bootstrap, settings)
        if where is None and asked:
            log.warning(
                "no console: ssl.client.auth=required, and the console never shows the broker's own certificate; "
                "add a listener with a login that asks for none, or start `tidelog console` with a certificate of its own "
                "(-X ssl.certificate.location=FILE)"
            )
    if listen is not None and where is not None:
        options = ["console", "--bootstrap", where.address, "--listen", listen, *names]
        for name, value in where.config.items():
            options += ["-X", f"{name}={value}"]
        for each in where.mechanisms:
            options += ["--mechanism", each]
        if arguments.registry is not None:
            host, _, port = arguments.registry.rpartition(":")
            options += ["--registry", f"http://{host or '127.0.0.1'}:{port}"]
        packages = ("fastapi", "uvicorn", "fastavro")
        found.append(Companion("console", "console", packages, tuple(options), asked))
    return found


@dataclass(frozen=True, slots=True)
class _Entrance:
    """A listener as the console uses it."""

    address: str
    config: dict[str, str]
    mechanisms: list[str]


def _most_secure(bootstrap: str, settings: BrokerSettings) -> _Entrance | None:
    """The listener with a login if there is one: whoever uses the console from afar shall not come in by the back door.

    None where only a certificate opens the door.  The broker's own would do, and make everybody who reaches the console
    whatever the broker is, as a rule a super user.
    """
    listeners = settings.listeners()
    logins = [each for each in listeners if each.protocol.startswith("SASL")]
    usable = logins or listeners[:1]
    if settings.security.tls_client_auth == "required":
        usable = [each for each in usable if not each.protocol.endswith("SSL")]
    if not usable:
        return None
    chosen = usable[0]
    if chosen == listeners[0]:
        address = bootstrap
    else:
        host = "127.0.0.1" if chosen.host in ("", "0.0.0.0", "::") else chosen.host
        address = f"{f'[{host}]' if ':' in host else host}:{chosen.port}"
    security = settings.security
    config = {}
    if chosen.protocol != "PLAINTEXT":
        config["security.protocol"] = chosen.protocol
    if chosen.protocol.endswith("SSL"):
        config["ssl.ca.location"] = security.tls_trusted or security.tls_certificate
        # The certificate is the broker's own file, and made for its name rather than for the address here.
        config["ssl.endpoint.identification.algorithm"] = "none"
    mechanisms = []
    if chosen.protocol.startswith("SASL"):
        # PLAIN last: it sends the password.
        mechanisms = [each for each in _PASSWORDS if each in security.mechanisms]
    return _Entrance(address, config, mechanisms)


@contextlib.asynccontextmanager
async def running_beside(companions: Sequence[Companion]) -> AsyncIterator[None]:
    """Runs them until the block is left."""
    tasks = []
    for each in companions:
        missing = _missing_packages(each.packages)
        if not missing:
            tasks.append(asyncio.ensure_future(_keep_running(each)))
        elif each.asked_for:
            log.warning(
                "no %s: it needs %s (pip install 'tidelog[%s]')",
                each.title,
                ", ".join(missing),
                each.extra,
            )
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _missing_packages(packages: Sequence[str]) -> list[str]:
    from importlib.util import find_spec  # only now: a start without them does not pay for it

    return [each for each in packages if find_spec(each) is None]


async def _keep_running(companion: Companion) -> None:
    while True:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tidelog", *companion.command, "--until-eof"),
            # The other end closes with this process, however it ends; then the companion ends, too.
            stdin=asyncio.subprocess.PIPE,
        )
        try:
            code = await process.wait()
        except asyncio.CancelledError:
            await _stop(process)
            raise
        if code == _WRONG_USE:  # it has said why
            return
        log.warning("the %s ended with code %d; it is started again", companion.title, code)
        await asyncio.sleep(_PAUSE_S)


async def _stop(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(_STOP_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
