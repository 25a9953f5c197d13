"""`tidelog doctor`: looks at what makes brokers slow, unreachable or lossy, and says what to do about it.

Each check is a function that yields findings.  The exit code is 1 when one of them has failed; a warning is none.

Absent: comparing the brokers' clocks with ours, which Kafka's protocol does not tell.
"""

import argparse
import ctypes
import os
import resource
import shutil
import socket
import stat
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tidelog.cli._options import add_client_options, add_json, client_config
from tidelog.cli._output import print_json
from tidelog.errors import TidelogError

if TYPE_CHECKING:
    from tidelog.client.admin import Admin

HELP = "check addresses, disk, limits and clock"
EXAMPLE = "example: tidelog doctor -b 127.0.0.1:9092 --data ./data"

OK, WARNING, FAILED = "ok", "warning", "failed"

_OF_LISTENERS = (
    "listeners",
    "listener.security.protocol.map",
    "controller.listener.names",
    "sasl.enabled.mechanisms",
    "ssl.client.auth",
)
_DIAL_S = 5.0
_SYNCS = 20
_SLOW_SYNC_MS = 20.0
_FILES_WANTED = 65_536
_MAPS_WANTED = 65_530
_FREE_SHARE = 0.10
_TIME_ERROR = 5
"""What adjtimex(2) returns when nobody keeps the clock right."""


class Finding(NamedTuple):
    """What one check found; `text` names the value, and the cure where there is something to cure."""

    state: str
    subject: str
    text: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_client_options(parser)
    parser.add_argument(
        "--data", metavar="DIR", type=Path, default=Path("data"), help="where a broker's data is"
    )
    parser.add_argument("--offline", action="store_true", help="only this machine, no cluster")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    found = []
    for check in _CHECKS:
        for finding in check(arguments):
            found.append(finding)
            if not arguments.json:
                print(f"{finding.state:<8} {finding.subject:<12} {finding.text}", flush=True)
    if arguments.json:
        print_json([each._asdict() for each in found])
    return int(any(each.state == FAILED for each in found))


def _addresses(arguments: argparse.Namespace) -> Iterator[Finding]:
    """The bootstrap addresses, then those that the cluster gives to its clients."""
    if arguments.offline:
        return
    config = client_config(arguments)
    for each in config["bootstrap.servers"].split(","):
        host, _, port = each.strip().rpartition(":")
        if port.isdigit():
            yield _dialled("bootstrap", host.strip("[]"), int(port), "check that a broker listens")
    from tidelog.client.admin import Admin

    try:
        with Admin(config) as admin:
            cluster = admin.describe_cluster()
            for broker in cluster.brokers:
                yield _dialled(
                    f"broker {broker.id}",
                    broker.host,
                    broker.port,
                    "clients are told this address; set advertised.listeners to one they can reach",
                )
            yield _round_trip(admin.describe_cluster)
            for broker in cluster.brokers:
                yield from _doors(admin, broker.id)
            topics = admin.describe_topics(admin.list_topics(internal=True))
    except TidelogError as error:
        yield Finding(FAILED, "cluster", f"{error}{_hint(config)}")
        return
    parts = [(name, each) for name, topic in topics.items() for each in topic.partitions]
    headless = [f"{name}-{each.partition}" for name, each in parts if each.leader < 0]
    behind = [
        f"{name}-{each.partition}" for name, each in parts if len(each.isr) < len(each.replicas)
    ]
    if headless:
        yield Finding(FAILED, "partitions", f"without a leader: {_some(headless)}; start brokers")
    if behind:
        yield Finding(WARNING, "partitions", f"not all replicas are in sync: {_some(behind)}")
    if not headless and not behind:
        yield Finding(OK, "partitions", f"{len(parts)}, all led and in sync")


def _doors(admin: "Admin", broker_id: int) -> Iterator[Finding]:
    """What a broker lets in, by its own settings; nothing where we may not see them."""
    from tidelog.broker.settings import BrokerSettings

    subject = f"doors of {broker_id}"
    try:
        told = admin.describe_broker_configs(broker_id)
        given = {name: told[name].value or "" for name in _OF_LISTENERS if name in told}
        doors = BrokerSettings.load(
            {name: each for name, each in given.items() if each}
        ).open_doors()
    except TidelogError as error:
        yield Finding(WARNING, subject, f"its listeners cannot be judged: {error}")
        return
    for each in doors:
        yield Finding(WARNING, subject, each)
    if not doors:
        yield Finding(OK, subject, "no listener is open to strangers")


def _hint(config: dict[str, str]) -> str:
    """What a client that comes in plain text may have missed."""
    if "security.protocol" in config:
        return ""
    import ssl

    anybody = ssl.create_default_context()
    anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
    for each in config["bootstrap.servers"].split(","):
        host, _, port = each.strip().rpartition(":")
        try:
            with (
                socket.create_connection((host.strip("[]"), int(port)), timeout=_DIAL_S) as plain,
                anybody.wrap_socket(plain),
            ):
                return f"; {each} speaks TLS: set security.protocol to SSL, or to SASL_SSL with a login"
        except (OSError, ValueError):  # not TLS, or nobody there
            continue
    return ""


def _dialled(subject: str, host: str, port: int, cure: str) -> Finding:
    started = time.perf_counter()
    try:
        with socket.create_connection((host, port), timeout=_DIAL_S):
            took_ms = (time.perf_counter() - started) * 1000
    except OSError as error:
        return Finding(FAILED, subject, f"{host}:{port} cannot be reached ({error}); {cure}")
    return Finding(OK, subject, f"{host}:{port} answers in {took_ms:.1f} ms")


def _round_trip(ask: Callable[[], object]) -> Finding:
    times_ms = []
    for _ in range(5):
        started = time.perf_counter()
        ask()
        times_ms.append((time.perf_counter() - started) * 1000)
    return Finding(OK, "round trip", f"{statistics.median(times_ms):.1f} ms for metadata")


def _disk(arguments: argparse.Namespace) -> Iterator[Finding]:
    where = arguments.data if arguments.data.is_dir() else Path()
    shown = where.resolve()
    usage = shutil.disk_usage(where)
    share = usage.free / usage.total if usage.total else 0.0
    text = f"{usage.free / 2**30:.1f} GB free of {usage.total / 2**30:.1f} at {shown}"
    if share < _FREE_SHARE:
        yield Finding(WARNING, "disk", f"{text}; lower retention.bytes, or add a disk")
    else:
        yield Finding(OK, "disk", text)
    try:
        times_ms = measure_syncs(where)
    except OSError as error:
        yield Finding(FAILED, "disk", f"{shown} cannot be written to: {error}")
        return
    middle, worst = statistics.median(times_ms), max(times_ms)
    text = f"{middle:.2f} ms for a synced write of 4 KB, {worst:.2f} at worst"
    if middle > _SLOW_SYNC_MS:
        cure = "log.flush.interval.messages=1 will be slow here; use a disk with a safe write cache"
        yield Finding(WARNING, "fsync", f"{text}; {cure}")
    elif middle < 0.02:
        cure = "that is memory, not a disk; a power cut loses what was synced"
        yield Finding(WARNING, "fsync", f"{text}; {cure}")
    else:
        yield Finding(OK, "fsync", text)


def measure_syncs(directory: Path) -> list[float]:
    """Milliseconds of each of some writes that wait for the disk."""
    times_ms = []
    with tempfile.NamedTemporaryFile(dir=directory, prefix=".tidelog-doctor-") as file:
        for _ in range(_SYNCS):
            started = time.perf_counter()
            file.write(bytes(4096))
            file.flush()
            os.fsync(file.fileno())
            times_ms.append((time.perf_counter() - started) * 1000)
    return times_ms


def _privacy(arguments: argparse.Namespace) -> Iterator[Finding]:
    """Whether others on this machine can read the data, credentials among it."""
    if not arguments.data.is_dir():
        return
    mode = stat.S_IMODE(arguments.data.stat().st_mode)
    shown = arguments.data.resolve()
    if mode & 0o077:
        cure = f"chmod -R go= {shown}"
        yield Finding(WARNING, "privacy", f"{shown} has mode {mode:o}: others may look in; {cure}")
    else:
        yield Finding(OK, "privacy", f"{shown} is for its owner alone")


def _limits(arguments: argparse.Namespace) -> Iterator[Finding]:
    _, most = resource.getrlimit(
        resource.RLIMIT_NOFILE
    )  # a broker raises its soft limit to the hard one
    text = f"{most} may be open" if most >= 0 else "any number may be open"
    if 0 <= most < _FILES_WANTED:
        cure = f"for many partitions and clients let the system allow {_FILES_WANTED} (LimitNOFILE, limits.conf)"
        yield Finding(WARNING, "files", f"{text}; {cure}")
    else:
        yield Finding(OK, "files", text)
    try:
        maps = int(Path("/proc/sys/vm/max_map_count").read_text())
    except (OSError, ValueError):
        return
    if maps < _MAPS_WANTED:
        cure = f"sysctl -w vm.max_map_count={4 * _MAPS_WANTED}"
        yield Finding(WARNING, "maps", f"vm.max_map_count={maps} is low for indexes; {cure}")
    else:
        yield Finding(OK, "maps", f"vm.max_map_count={maps}")


def _clock(arguments: argparse.Namespace) -> Iterator[Finding]:
    if not sys.platform.startswith("linux"):
        return
    # struct timex is smaller than this; its first field, the modes, is 0: only ask.
    state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.create_string_buffer(512))
    if state == _TIME_ERROR:
        cure = "retention and timestamps follow it; run chrony or systemd-timesyncd"
        yield Finding(WARNING, "clock", f"nobody keeps it right; {cure}")
    elif state >= 0:
        yield Finding(OK, "clock", "is kept right")


def _build(arguments: argparse.Namespace) -> Iterator[Finding]:
    from tidelog import kernel

    if kernel.COMPILED:
        yield Finding(OK, "kernel", "compiled")
    else:
        cure = "install a C compiler and reinstall tidelog"
        yield Finding(WARNING, "kernel", f"not compiled, so several times slower; {cure}")


def _some(names: list[str]) -> str:
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(names[:5]) + more


_CHECKS = (_addresses, _disk, _privacy, _limits, _clock, _build)
