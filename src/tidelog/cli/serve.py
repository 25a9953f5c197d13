"""Run a broker, or with --brokers several of them, until told to stop.

Any Kafka client can use it.  Ctrl-C (SIGINT) and SIGTERM stop it in good order; once more ends it at once.
Settings have Kafka's names; options are stronger than -X, and -X is stronger than the file of --config.
"""

import argparse
import asyncio
import contextlib
import gc
import logging
import os
import resource
import signal
import socket
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from tidelog import kernel
from tidelog.broker import properties
from tidelog.broker.broker import Broker
from tidelog.broker.settings import BrokerSettings, declarations
from tidelog.cli import _logs
from tidelog.cli._beside import add_options, companions, running_beside
from tidelog.cli._options import BOOTSTRAP
from tidelog.cli._ready import announce
from tidelog.errors import SettingsError, StartError
from tidelog.network.listener import open_socket
from tidelog.network.peer import Address
from tidelog.settings import is_file_name

HELP = "run a broker"
EXAMPLE = "example: tidelog serve --data ./data -X num.partitions=4"

log = logging.getLogger(__name__)

_FORCED = 130
_OFF = "off"
_METRICS_ABOVE = 312
"""9404, the usual port of Kafka's exporter, less 9092; so brokers on consecutive ports do not meet."""
_SLOW_STOP_SECONDS = 1.0
_HIGHEST_PORT = 65535
_MOST_BROKERS = 100
_OPEN_FILES_MAX = 1 << 20
_GC_THRESHOLDS = (50_000, 20, 50)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--listen", metavar="HOST:PORT", action="append", help="where to listen (127.0.0.1:9092)")
    add("--host", help="where to listen, without the port")
    add("--port", type=_port, help="where to listen, without the host; 0 takes a free one")
    add(
        "--brokers",
        type=_count,
        metavar="N",
        help="so many brokers on this machine, as one cluster",
    )
    add("--data", metavar="DIR", action="append", help="where the data is kept (./data)")
    add(
        "--broker-id",
        type=_broker_id,
        metavar="ID",
        help="number of this broker in its cluster (0)",
    )
    add(
        "--metastore",
        metavar="WHERE",
        help="metadata: sqlite:PATH, or zk://HOST:PORT,…/PATH",
    )
    add("--advertise", metavar="HOST:PORT", help="the address that clients are told to use")
    add("--config", metavar="FILE", help="a server.properties file")
    add("-X", dest="settings", metavar="NAME=VALUE", action="append", help="a setting; repeatable")
    add(
        "--ready-file",
        metavar="FILE",
        help="written when it is ready: the addresses, one a line",
    )
    add(
        "--accept-empty",
        action="store_true",
        help="start on an empty directory although the cluster knows the broker: its data is gone for good",
    )
    # For the supervisor of several brokers: stop when standard input ends.
    add("--until-eof", action="store_true", help=argparse.SUPPRESS)
    add(
        "--metrics",
        metavar="HOST:PORT",
        help="where /metrics and /healthz are, or `off` (9404)",
    )
    _logs.add_options(parser, "info")
    add_options(parser)


def run(arguments: argparse.Namespace) -> int:
    settings = settings_from(arguments)
    _logs.set_up(arguments, broker=settings.broker.broker_id)
    if arguments.config:
        _warn_of_readers(Path(arguments.config))
    if arguments.brokers:
        from tidelog.cli._supervisor import Supervisor, plans

        supervisor = Supervisor(plans(settings, arguments.brokers), arguments, settings)
        return asyncio.run(supervisor.run())
    _allow_open_files()
    return _runner()(_serve(settings, arguments))


def settings_from(arguments: argparse.Namespace) -> BrokerSettings:
    """The settings: the file's, under those of -X, under those of the other options."""
    given = _read(arguments.config) if arguments.config else {}
    wrong = []
    for each in arguments.settings or ():
        name, equals, value = each.partition("=")
        if equals:
            given[name.strip()] = value
        else:
            wrong.append(f"-X {each} must be written as name=value")
    if arguments.data:
        given["log.dirs"] = ",".join(arguments.data)
    listen = list(arguments.listen or ())
    if arguments.host is not None or arguments.port is not None:
        host = "127.0.0.1" if arguments.host is None else arguments.host
        listen.append(f"{host}:{9092 if arguments.port is None else arguments.port}")
    if listen:
        given["listeners"] = ",".join(
            each if "://" in each else f"PLAINTEXT://{each}" for each in listen
        )
    if arguments.broker_id is not None:
        given["broker.id"] = str(arguments.broker_id)
    if arguments.metastore:
        given["metastore"] = arguments.metastore
    if arguments.metrics and arguments.metrics != _OFF:
        given["metrics.listener"] = arguments.metrics
    if arguments.metrics == _OFF:
        given.pop("metrics.listener", None)
    if arguments.advertise:
        scheme = given.get("listeners", "PLAINTEXT://").partition("://")[0]
        given["advertised.listeners"] = f"{scheme}://{arguments.advertise}"
    try:
        settings = BrokerSettings.load(given)
    except SettingsError as error:
        wrong.append(str(error))
    if wrong:
        raise SettingsError("; ".join(wrong))
    return settings


def banner(broker: Broker, settings: BrokerSettings) -> str:
    """What a user should know when the broker is ready, in under a screen."""
    first = _reachable(broker.addresses[0])
    directories = ", ".join(str(Path(each).resolve()) for each in settings.broker.log_dirs)
    if settings.log.flush_messages == 1:
        meaning = "synced to this disk: survives a crash and a power cut, not the loss of the disk"
    else:
        meaning = (
            "handed to the operating system: survives a crash of the broker; a power cut may lose the last seconds\n"
            "             (-X log.flush.interval.messages=1 syncs to the disk before it acknowledges)"
        )
    pages = broker.monitoring.address
    lines = [
        f"tidelog is ready on {', '.join(map(str, broker.addresses))}"
        f" ({_seconds_since_exec():.2f} s, pid {os.getpid()}, {_resident_megabytes()} MB)",
        f"  data       {directories}",
        f"  an ack is  {meaning}",
    ]
    if pages is not None:
        lines.append(f"  metrics    http://{_reachable(pages)}/metrics")
    if not kernel.COMPILED:
        lines.append(
            "  slow       the kernel is not compiled; install a C compiler and reinstall tidelog"
        )
    lines += (f"  open       {each}" for each in settings.open_doors())
    if settings.unused:
        lines.append(f"  not used   {', '.join(settings.unused)}")
    where = "" if str(first) == BOOTSTRAP else f" -b {first}"
    lines += [
        f"  try        echo hi | tidelog produce hello{where}",
        f"             tidelog consume hello{where} --from-beginning",
        f"             or any Kafka client: kcat -b {first} -t hello -C",
    ]
    return "\n".join(lines)


def _reachable(address: Address) -> Address:
    """An address to type: all interfaces are reached by the local one."""
    return Address("localhost", address.port) if address.host in ("0.0.0.0", "::") else address


def _metrics_socket(settings: BrokerSettings, wanted: str | None) -> socket.socket | None:
    """Where nobody said where metrics are to be: beside the broker's own port, if that place is free."""
    port = settings.listeners()[0].port
    if wanted is not None or settings.monitoring.listener or not port:
        return None
    port += _METRICS_ABOVE
    try:
        if port > _HIGHEST_PORT:
            raise OSError("there is no such port")
        return open_socket("127.0.0.1", port, settings.network)
    except OSError as error:
        log.warning(
            "metrics are not served: port %d: %s; choose another with --metrics HOST:PORT",
            port,
            error.strerror or error,
        )
        return None


async def _serve(settings: BrokerSettings, arguments: argparse.Namespace) -> int:
    stopping = _stop_by_signal()
    if arguments.until_eof:
        _stop_by_eof(stopping)
    gc.disable()  # nothing made while starting is garbage
    broker = Broker(
        settings,
        metrics=_metrics_socket(settings, arguments.metrics),
        accept_empty=arguments.accept_empty,
    )
    starting = asyncio.create_task(broker.start())
    told = asyncio.create_task(stopping.wait())
    await asyncio.wait((starting, told), return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()  # a broker may have to wait for its controller
        with contextlib.suppress(asyncio.CancelledError):
            await starting
        return 0
    told.cancel()
    starting.result()
    _tune_garbage_collection()
    try:
        if arguments.ready_file:
            announce(Path(arguments.ready_file), broker.addresses)
        print(banner(broker, settings), flush=True)
        bootstrap = str(_reachable(broker.addresses[0]))
        async with running_beside(companions(arguments, bootstrap, settings)):
            await _first_of(stopping, broker.ended)
        slow = asyncio.get_running_loop().call_later(
            _SLOW_STOP_SECONDS, log.info, "stopping; once more to force it"
        )
    finally:
        await broker.stop()
    slow.cancel()
    return 1 if broker.ended.is_set() else 0


async def _first_of(*events: asyncio.Event) -> None:
    """Wait until one of them is set."""
    waiting = [asyncio.create_task(each.wait()) for each in events]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for each in waiting:
        each.cancel()


def _stop_by_signal() -> asyncio.Event:
    """An event that is set by the first signal; the second ends the process, whatever the loop is busy with."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    seen: list[int] = []

    def told(number: int, frame: object) -> None:
        if seen:
            os._exit(_FORCED)
        seen.append(number)
        loop.call_soon_threadsafe(stopping.set)

    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, told)
    return stopping


def _stop_by_eof(stopping: asyncio.Event) -> None:
    """Set the event when standard input ends, because whoever held its other end is gone."""
    loop = asyncio.get_running_loop()

    def readable() -> None:
        if not os.read(0, 4096):
            loop.remove_reader(0)
            stopping.set()

    loop.add_reader(0, readable)


def _tune_garbage_collection() -> None:
    """What there is now stays, and the little of it that is garbage too; requests make no cycles, so looking for them may wait."""
    gc.enable()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)


def _read(path: str) -> dict[str, str]:
    try:
        return properties.parse(Path(path).read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise StartError(f"--config {path} is not UTF-8 (byte {error.start})") from error
    except OSError as error:
        raise StartError(f"--config {path} cannot be read: {error.strerror}") from error


def _warn_of_readers(path: Path) -> None:
    """A file with passwords is for its owner alone."""
    secret = {name for name, (_, each) in declarations().items() if each.spec.secret}
    passwords = sorted(name for name in secret & _read(str(path)).keys() if not _is_file(name))
    if passwords and path.stat().st_mode & 0o077:
        names = ", ".join(passwords)
        log.warning("--config %s can be read by others, and has %s; chmod 600 it", path, names)


def _is_file(name: str) -> bool:
    """Whether the setting is secret only because Kafka would have a key in it; here it names a file."""
    return declarations()[name][1].spec.check is is_file_name


def _port(text: str) -> int:
    if not (text.isdecimal() and int(text) <= _HIGHEST_PORT):
        raise argparse.ArgumentTypeError(f"{text} is not a port (0 to {_HIGHEST_PORT})")
    return int(text)


def _count(text: str) -> int:
    if not (text.isdecimal() and 1 <= int(text) <= _MOST_BROKERS):
        raise argparse.ArgumentTypeError(
            f"{text} is not a number of brokers (1 to {_MOST_BROKERS})"
        )
    return int(text)


def _broker_id(text: str) -> int:
    if not (text.isdecimal() and int(text) < 1 << 31):
        raise argparse.ArgumentTypeError(f"{text} is not a broker's id (0, 1, 2 …)")
    return int(text)


def _runner() -> Callable[[Coroutine[Any, Any, int]], int]:
    """uvloop's event loop where it is installed, else asyncio's."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run
    run: Callable[[Coroutine[Any, Any, int]], int] = uvloop.run
    return run


def _allow_open_files() -> None:
    """As many as the system grants: the usual soft limit is for programs that use select, and too low for a server."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES_MAX if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES_MAX)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _seconds_since_exec() -> float:
    """From the start of the process, as the kernel noted it (in hundredths of a second)."""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        started = int(fields[19]) / os.sysconf("SC_CLK_TCK")
        return time.clock_gettime(time.CLOCK_BOOTTIME) - started
    except (OSError, AttributeError):
        return time.process_time()


def _resident_megabytes() -> int:
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") >> 20
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
