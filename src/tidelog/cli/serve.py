"""`tidelog serve`: run a broker until it is told to stop.

SIGTERM and SIGINT stop it in good order; a second one ends it at once.  Where `--ready-file` is given, the addresses
are written there, one `host:port` a line, when connections are accepted.
"""

import argparse
import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from tidelog import kernel
from tidelog.broker import properties
from tidelog.broker.broker import Broker
from tidelog.broker.settings import BrokerSettings
from tidelog.cli._options import BOOTSTRAP
from tidelog.errors import SettingsError, StartError

HELP = "run a broker"
EXAMPLE = "example: tidelog serve --data ./data -X num.partitions=4"

_FORCED = 130
_LOG_FORMAT = "%(asctime)s %(levelname)-7s %(message)s"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--listen", metavar="HOST:PORT", action="append", help="where to listen (127.0.0.1:9092)")
    add("--host", help="where to listen, without the port")
    add("--port", type=int, help="where to listen, without the host; 0 takes a free one")
    add("--data", metavar="DIR", action="append", help="where the data is kept (./data)")
    add("--advertise", metavar="HOST:PORT", help="the address that clients are told to use")
    add("--config", metavar="FILE", help="a server.properties file")
    add("-X", dest="settings", metavar="NAME=VALUE", action="append", help="one setting")
    add("--ready-file", metavar="FILE", help="write the addresses here when ready")
    add("--log-level", default="info", choices=["debug", "info", "warning", "error"])


def run(arguments: argparse.Namespace) -> int:
    settings = settings_from(arguments)
    logging.basicConfig(level=arguments.log_level.upper(), format=_LOG_FORMAT, stream=sys.stderr)
    return _runner()(_serve(settings, arguments.ready_file))


def settings_from(arguments: argparse.Namespace) -> BrokerSettings:
    """The settings: the file's, under those of -X, under those of the other options."""
    given: dict[str, str] = {"log.dirs": "data"}
    if arguments.config:
        given = {"log.dirs": "data", **_read(arguments.config)}
        if "log.dir" in given:
            del given["log.dirs"]
    for each in arguments.settings or ():
        name, equals, value = each.partition("=")
        if not equals:
            raise SettingsError(f"-X {each}: write it as name=value")
        given[name.strip()] = value
    if arguments.data:
        given["log.dirs"] = ",".join(arguments.data)
    listen = list(arguments.listen or ())
    if arguments.host is not None or arguments.port is not None:
        host = "127.0.0.1" if arguments.host is None else arguments.host
        listen.append(f"{host}:{9092 if arguments.port is None else arguments.port}")
    if listen:
        given["listeners"] = ",".join(f"PLAINTEXT://{each}" for each in listen)
    if arguments.advertise:
        given["advertised.listeners"] = f"PLAINTEXT://{arguments.advertise}"
    return BrokerSettings.load(given)


def banner(broker: Broker, settings: BrokerSettings) -> str:
    """What a user should know when the broker is ready, in under a screen."""
    first = broker.addresses[0]
    directories = ", ".join(str(Path(each).resolve()) for each in settings.broker.log_dirs)
    if settings.log.flush_messages == 1:
        meaning = "synced to this disk: survives a crash and a power cut, not the loss of the disk"
    else:
        meaning = (
            "handed to the operating system: survives a crash of the broker; a power cut may lose the last seconds\n"
            "             (-X log.flush.interval.messages=1 syncs to the disk before it acknowledges)"
        )
    lines = [
        f"tidelog is ready on {', '.join(map(str, broker.addresses))}"
        f" ({_seconds_since_exec():.2f} s, pid {os.getpid()}, {_resident_megabytes()} MB)",
        f"  data       {directories}",
        f"  an ack is  {meaning}",
    ]
    if not kernel.COMPILED:
        lines.append(
            "  slow       the kernel is not compiled; install a C compiler and reinstall tidelog"
        )
    if settings.unused:
        lines.append(f"  not used   {', '.join(settings.unused)}")
    where = "" if str(first) == BOOTSTRAP else f" -b {first}"
    lines += [
        f"  try        echo hi | tidelog produce hello{where}",
        f"             tidelog consume hello{where} --from-beginning",
        f"             or any Kafka client: kcat -b {first} -t hello -C",
    ]
    return "\n".join(lines)


async def _serve(settings: BrokerSettings, ready_file: str | None) -> int:
    stopping = asyncio.Event()

    def stop() -> None:
        if stopping.is_set():
            os._exit(_FORCED)
        stopping.set()

    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, stop)
    broker = Broker(settings)
    await broker.start()
    if ready_file:
        _announce(Path(ready_file), broker)
    print(banner(broker, settings), flush=True)
    await stopping.wait()
    logging.getLogger(__name__).info("stopping; once more to force it")
    await broker.stop()
    return 0


def _announce(path: Path, broker: Broker) -> None:
    # Whoever waits for the file must not find half of it.
    half = path.with_name(path.name + ".tmp")
    half.write_text("".join(f"{each}\n" for each in broker.addresses))
    half.rename(path)


def _read(path: str) -> dict[str, str]:
    try:
        return properties.parse(Path(path).read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise StartError(f"--config {path} cannot be read: {error}") from error


def _runner() -> Callable[[Coroutine[Any, Any, int]], int]:
    """uvloop's event loop where it is installed, else asyncio's."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run
    run: Callable[[Coroutine[Any, Any, int]], int] = uvloop.run
    return run


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
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
