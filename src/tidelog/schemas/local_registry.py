"""A real registry in a child process, for tests and demonstrations.

    with LocalRegistry(broker.bootstrap) as registry:
        client = RegistryClient(registry.url)

The child runs `tidelog registry` exactly as a user would.  Not thread-safe; POSIX only.
"""

import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

_POLL_S = 0.01


class LocalRegistry:
    """One registry process; `url` is its address while and after it runs."""

    def __init__(
        self,
        bootstrap: str,
        *,
        arguments: Sequence[str] = (),
        port: int = 0,
        start_timeout_s: float = 120.0,
    ) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="tidelog-registry-"))
        self.bootstrap = bootstrap
        self.arguments = list(arguments)
        self.port = port
        self.start_timeout_s = start_timeout_s
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The address to give to a client."""
        return f"http://127.0.0.1:{self.port}"

    def log(self) -> str:
        """What the registry has printed, over all its starts."""
        path = self.directory / "registry.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def start(self) -> Self:
        """Start the child and return when it takes requests; the first port it got is kept."""
        ready = self.directory / "ready"
        ready.unlink(missing_ok=True)
        command = [sys.executable, "-m", "tidelog", "registry", "-b", self.bootstrap]
        command += ["--listen", f"127.0.0.1:{self.port}", "--ready-file", str(ready)]
        with open(self.directory / "registry.log", "ab") as output:
            self.process = subprocess.Popen(
                [*command, *self.arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        deadline = time.monotonic() + self.start_timeout_s
        while not ready.exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"the registry did not start:\n{self.log()}")
            time.sleep(_POLL_S)
        self.port = int(ready.read_text().strip().rpartition(":")[2])
        return self

    def stop(self, timeout_s: float = 120.0) -> int:
        """Stop in good order (SIGTERM) and return the exit code."""
        assert self.process is not None, "the registry has not been started"
        self.process.send_signal(signal.SIGTERM)
        self.process.send_signal(
            signal.SIGCONT
        )  # one that a test has left standing still could not end
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def kill(self) -> None:
        """End the child at once (SIGKILL)."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        try:
            if self.process is not None and self.process.poll() is None:
                self.stop()
        finally:
            shutil.rmtree(self.directory, ignore_errors=True)
