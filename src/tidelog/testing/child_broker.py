"""A broker in a child process: killed with a real signal, and out of the way of the test's interpreter.

The child is `python -m tidelog.testing.child`.  The two talk over a pair of sockets, a JSON object a line; the child ends
when its end is closed, so none is left behind.  What it prints goes to `broker.log` in its directory.
"""

import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from io import BufferedRWPair
from typing import Any

from tidelog.errors import StartError, TidelogError, error_of
from tidelog.testing.fixture_broker import FixtureBroker
from tidelog.testing.shifted_time import Shift


class ChildBroker(FixtureBroker):
    """A `FixtureBroker` in a process of its own; POSIX only."""

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(settings)
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: BufferedRWPair | None = None
        self._lock = threading.Lock()
        self._shift = Shift()
        """As the child's: its time does not go back when it is started again."""

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Of the child."""
        assert self._process is not None, "the broker has not been started"
        return self._process.pid

    def log(self) -> str:
        """What the broker has printed, over all its starts."""
        path = self.directory / "broker.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def _start(self) -> int:
        ours, theirs = socket.socketpair()
        told = {
            "directory": str(self.directory / "data"),
            "port": self.port,
            "settings": self.settings,
            "shift": [self._shift.seconds, self._shift.wall_seconds],
        }
        with theirs, open(self.directory / "broker.log", "ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tidelog.testing.child", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C is for the tests, which still want it while they clean up
            )
        with ours:
            self._channel = ours.makefile("rwb")
        try:
            port: int = self._ask(told)
        except BaseException:
            self._kill()
            raise
        return port

    def _kill(self) -> None:
        assert self._process is not None
        assert self._channel is not None
        self._process.kill()  # whether it is stopped or not
        self._process.wait()
        self._channel.close()

    def _pause(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def _resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def _call(self, name: str, arguments: dict[str, Any]) -> Any:
        result = self._ask({"name": name, "arguments": arguments})
        if name == "advance":
            self._shift.advance(**arguments)
        elif name == "reset":
            self._shift.reset()
        return result

    def _ask(self, what: Mapping[str, Any]) -> Any:
        assert self._channel is not None
        with self._lock:
            try:
                self._channel.write(json.dumps(what).encode() + b"\n")
                self._channel.flush()
                line = self._channel.readline()
            except BrokenPipeError:
                line = b""
        if not line:
            tail = "\n".join(self.log().splitlines()[-30:])
            raise StartError(f"the broker's process has ended; its last words:\n{tail}")
        answer = json.loads(line)
        if "error" in answer:
            raise _error(**answer["error"])
        return answer["result"]


def _error(kind: str, message: str, code: int | None) -> Exception:
    if code is not None:
        return error_of(code, message)
    known = {each.__name__: each for each in (StartError, LookupError, RuntimeError, ValueError)}
    return known.get(kind, TidelogError)(message)
