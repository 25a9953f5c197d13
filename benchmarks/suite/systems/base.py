"""A system under test: started, measured and stopped, in a directory of its own.

    system = Tidelog()
    system.check()                      raises Missing where the machine does not have it
    with system.running(directory):
        with system.busy() as used: ...
        used.cpu_s, system.memory_mb()

A subclass says how it is started (`command`), and what tells that it is ready (`is_ready`).
"""

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from suite.drivers.build import Missing

_START_S = 90.0
_STOP_S = 60.0
_POLL_S = 0.002

KAFKA = "kafka"


class Used:
    """What a system used while a block ran."""

    cpu_s = 0.0
    seconds = 0.0


class System:
    name = ""
    protocol = ""
    """Systems of one protocol are driven by the same client."""
    settings = ""
    """What was set, for the report."""

    def __init__(self) -> None:
        self.port = 0
        self.directory = Path()
        self.ready_s = 0.0
        """From exec until it answered."""
        self.process: subprocess.Popen[bytes] | None = None

    # ------------------------------------------------------------------ what a subclass says

    def check(self) -> None:
        """Raise `Missing` unless it can be started on this machine."""
        raise NotImplementedError

    def version(self) -> str:
        raise NotImplementedError

    def command(self) -> list[str]:
        """What starts it; called when `port` and `directory` are known."""
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        return {}

    def prepare(self) -> None:
        """What must be done in `directory` before the start, and is no part of it."""

    def is_ready(self) -> bool:
        """Whether it answers; asked again until it does."""
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False

    def clean_up(self) -> None:
        """What is left to be done after it has stopped."""

    # ------------------------------------------------------------------ life

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def log(self) -> str:
        path = self.directory / "output.log"
        return path.read_text(errors="replace") if path.exists() else ""

    @contextlib.contextmanager
    def running(self, directory: Path) -> Iterator["System"]:
        """It runs for the time of the block; a fresh directory is a fresh system."""
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.prepare()
        self.start()
        try:
            yield self
        finally:
            self.stop()

    def start(self) -> None:
        began = time.monotonic()
        with open(self.directory / "output.log", "ab") as output:
            self.process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=os.environ | self.environment(),
                cwd=self.directory,
                start_new_session=True,
            )
        try:
            while not self.is_ready():
                if self.process.poll() is not None or time.monotonic() > began + _START_S:
                    raise Missing(f"{self.name} did not start: {self.log()[-500:]}")
                time.sleep(_POLL_S)
        except BaseException:
            self.stop()
            raise
        self.ready_s = time.monotonic() - began

    def stop(self) -> None:
        """Stop it in good order, and everything that it has started."""
        process = self.process
        assert process is not None, "it has not been started"
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        self.clean_up()

    # ------------------------------------------------------------------ what it uses

    def pids(self) -> list[int]:
        """Its process, and all processes that it has started."""
        assert self.process is not None, "it has not been started"
        found, unseen = [], [self.process.pid]
        while unseen:
            pid = unseen.pop()
            found.append(pid)
            with contextlib.suppress(OSError):
                for task in Path(f"/proc/{pid}/task").iterdir():
                    unseen += map(int, (task / "children").read_text().split())
        return found

    def memory_mb(self) -> float:
        """Resident memory."""
        total = 0
        for pid in self.pids():
            with contextlib.suppress(OSError):
                for line in Path(f"/proc/{pid}/status").read_text().splitlines():
                    if line.startswith("VmRSS"):
                        total += int(line.split()[1])
        return total / 1024

    def cpu_s(self) -> float:
        """Time on a processor so far, of all threads that live."""
        nanoseconds = 0
        for pid in self.pids():
            with contextlib.suppress(OSError):
                for task in Path(f"/proc/{pid}/task").iterdir():
                    with contextlib.suppress(OSError):  # it has ended meanwhile
                        nanoseconds += int((task / "schedstat").read_text().split()[0])
        return nanoseconds / 1e9

    @contextlib.contextmanager
    def busy(self) -> Iterator[Used]:
        used, cpu, began = Used(), self.cpu_s(), time.monotonic()
        yield used
        used.cpu_s, used.seconds = self.cpu_s() - cpu, time.monotonic() - began


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


def package_version(name: str) -> str:
    """The version of a package of the system."""
    command = ["dpkg-query", "-W", "-f", "${Version}", name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown version"
