"""A real broker in a child process, for tests: started, stopped, killed and started again on its port.

    with LocalBroker(settings={"num.partitions": "4"}) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap})

The child runs `tidelog serve` exactly as a user would.  Its directory holds `data/`, the child's output in
`broker.log`, and goes away with the broker unless the caller gave one.  Not thread-safe; POSIX only.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

_POLL_S = 0.005


class BrokerDidNotStart(Exception):
    """The child ended, or was not ready in time; the message ends with its output."""


class LocalBroker:
    """One broker process; `bootstrap` is its address while and after it runs.

    `settings` are Kafka's names and texts (`-X name=value`), `arguments` go to `tidelog serve` as they are,
    `environment` is added to the caller's own.
    """

    def __init__(
        self,
        directory: Path | str | None = None,
        *,
        settings: Mapping[str, str] | None = None,
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        port: int = 0,
        protocol: str = "PLAINTEXT",
        start_timeout_s: float = 120.0,
    ) -> None:
        self._owns_directory = directory is None
        self.directory = Path(directory or tempfile.mkdtemp(prefix="tidelog-"))
        self.settings = dict(settings or {})
        self.arguments = list(arguments)
        self.environment = dict(environment or {})
        self.port = port
        self.protocol = protocol
        self.start_timeout_s = start_timeout_s
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def host(self) -> str:
        return "127.0.0.1"

    @property
    def bootstrap(self) -> str:
        """The address to give to a client."""
        return f"{self.host}:{self.port}"

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @property
    def pid(self) -> int:
        assert self.process is not None, "the broker has not been started"
        return self.process.pid

    def log(self) -> str:
        """What the broker has printed, over all its starts."""
        path = self.directory / "broker.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def command(self) -> list[str]:
        """What `start` runs, without the ready file."""
        options = ["--listen", f"{self.protocol}://{self.bootstrap}"]
        if "log.dirs" not in self.settings:
            options += ["--data", str(self.data)]
        for name, value in self.settings.items():
            options += ["-X", f"{name}={value}"]
        if "metrics.listener" not in self.settings and "--metrics" not in self.arguments:
            options += ["--metrics", "off"]
        return [sys.executable, "-m", "tidelog", "serve", *options, *self.arguments]

    def start(self) -> Self:
        """Start the child and return when it accepts connections; the first port it got is kept."""
        assert self.process is None or self.process.poll() is not None, "the broker runs already"
        self.directory.mkdir(parents=True, exist_ok=True)
        ready = self.directory / "ready"
        ready.unlink(missing_ok=True)
        with open(self.directory / "broker.log", "ab") as output:
            self.process = subprocess.Popen(
                [*self.command(), "--ready-file", str(ready)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **self.environment},
            )
        try:
            self.port = self._wait_until_ready(ready)
        except BaseException:
            self.kill()
            raise
        return self

    def stop(self, timeout_s: float = 120.0) -> int:
        """Stop in good order (SIGTERM) and return the exit code; a child that hangs is killed, and told of."""
        assert self.process is not None, "the broker has not been started"
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def kill(self) -> None:
        """End the child at once (SIGKILL); nothing happens when it is gone already."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def restart(self, *, kill: bool = False) -> Self:
        """Stop (or kill) and start again on the same port and data."""
        if kill:
            self.kill()
        elif self.process is not None and self.process.poll() is None:
            self.stop()
        return self.start()

    def close(self) -> None:
        """Stop the child if it runs, and remove the directory if it is ours."""
        try:
            if self.process is not None and self.process.poll() is None:
                self.stop()
        finally:
            if self._owns_directory:
                shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _wait_until_ready(self, ready: Path) -> int:
        assert self.process is not None
        deadline = time.monotonic() + self.start_timeout_s
        while time.monotonic() < deadline:
            text = ready.read_text() if ready.exists() else ""
            if text.endswith("\n"):
                return _port_of(text)
            if self.process.poll() is not None:
                raise BrokerDidNotStart(
                    f"the broker ended with code {self.process.returncode}:\n{self._tail()}"
                )
            time.sleep(_POLL_S)
        raise BrokerDidNotStart(
            f"the broker was not ready after {self.start_timeout_s:g} s:\n{self._tail()}"
        )

    def _tail(self) -> str:
        return "\n".join(self.log().splitlines()[-30:])


def _port_of(ready: str) -> int:
    """The port in the first line of a ready file, `host:port`."""
    return int(ready.splitlines()[0].rpartition(":")[2])
