"""The process: event loop, memory, files, connections and logins."""

import os
import resource
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tidelog.broker.metrics.families import Found, counter, gauge, histogram
from tidelog.broker.metrics.sight import Sight

LOOP_LAG = histogram(
    "tidelog_eventloop_lag_seconds",
    "By how much the event loop is late; requests wait at least as long.",
)
HELD = histogram(
    "tidelog_eventloop_held_seconds",
    "What held the event loop for more than 50 ms: requests of one read, or one step of longer work. The log names the longest.",
)
RESIDENT = gauge("process_resident_memory_bytes", "Resident memory.")
VIRTUAL = gauge("process_virtual_memory_bytes", "Virtual memory.")
CPU = counter("process_cpu_seconds_total", "Processor time, of the user and of the system.")
OPEN_FILES = gauge("process_open_fds", "Open file descriptors.")
MAX_FILES = gauge("process_max_fds", "File descriptors that the process may open.")
STARTED = gauge(
    "process_start_time_seconds", "When the process was started, in seconds since 1970."
)
CONNECTIONS = gauge(
    "kafka_server_socket_server_metrics_connections", "Open connections.", "listener"
)
ACCEPTED = counter(
    "kafka_server_socket_server_metrics_connection_creation_total", "Connections so far."
)
CLOSED = counter(
    "kafka_server_socket_server_metrics_connection_close_total", "Connections that were closed."
)
REFUSED = counter(
    "tidelog_connections_refused_total",
    "Connections that were refused because of max.connections.per.ip.",
)
LOGINS = counter(
    "kafka_server_socket_server_metrics_successful_authentication_total", "Logins that succeeded."
)
FAILED_LOGINS = counter(
    "kafka_server_socket_server_metrics_failed_authentication_total", "Logins that failed."
)
INFO = gauge(
    "tidelog_broker_info", "Always 1; its labels say what runs here.",
    "broker", "cluster", "version", "python",
)  # fmt: skip


def collect(sight: Sight) -> Iterator[Found]:
    yield LOOP_LAG.value(sight.loop.lag)
    yield HELD.value(sight.services.watchdog.held)
    yield from _of_the_process()
    hub = sight.hub
    listeners = Counter(each.peer.listener for each in list(hub.connections))
    yield CONNECTIONS.rows([((name,), count) for name, count in sorted(listeners.items())])
    yield ACCEPTED.value(hub.accepted)
    yield CLOSED.value(hub.accepted - len(hub.connections))
    yield REFUSED.value(hub.refused)
    logins = sight.logins
    yield LOGINS.value(0 if logins is None else logins.succeeded)
    yield FAILED_LOGINS.value(0 if logins is None else logins.failed)
    services = sight.services
    python = ".".join(map(str, sys.version_info[:3]))
    labels = (str(services.broker_id), services.cluster_id, _version(), python)
    yield INFO.rows([(labels, 1)])


def _of_the_process() -> Iterator[Found]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    yield CPU.value(used.ru_utime + used.ru_stime)
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    yield MAX_FILES.value(float("inf") if limit == resource.RLIM_INFINITY else limit)
    try:
        pages = [int(each) for each in Path("/proc/self/statm").read_text().split()[:2]]
        page_bytes = os.sysconf("SC_PAGE_SIZE")
        yield VIRTUAL.value(pages[0] * page_bytes)
        yield RESIDENT.value(pages[1] * page_bytes)
        yield OPEN_FILES.value(len(os.listdir("/proc/self/fd")))
        yield STARTED.value(_started())
    except OSError:  # a system without /proc
        yield RESIDENT.value(used.ru_maxrss * (1 if sys.platform == "darwin" else 1024))


def _started() -> float:
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    booted = next(
        int(line.split()[1])
        for line in Path("/proc/stat").read_text().splitlines()
        if line.startswith("btime")
    )
    return booted + ticks / os.sysconf("SC_CLK_TCK")


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("tidelog")
    except PackageNotFoundError:
        return "unknown"
