"""The broker behind the pytest fixture: in a thread of the test's process, or in a child process.

    broker = ThreadBroker()             # or ChildBroker()
    broker.start()
    broker.bootstrap                    # give it to any client
    broker.kill()
    broker.restart()
    broker.close()

Both do the same: `kill` ends it without a goodbye, `restart` starts it again on its port and data, `pause` makes it hang.
`call` reaches the commands of `hosted_broker.py`.  A broker has its own directory, which goes away with it.
"""

import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self


class FixtureBroker(ABC):
    """What both kinds have in common; to be used from one thread at a time, except `call`."""

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        self.settings = dict(settings or {})
        """Kafka's names and texts; they are read at every start."""
        self.directory = Path(tempfile.mkdtemp(prefix="tidelog-"))
        self.port = 0
        """Chosen at the first start, and kept."""
        self._paused = False

    @property
    def bootstrap(self) -> str:
        """The address to give to a client."""
        return f"127.0.0.1:{self.port}"

    @property
    @abstractmethod
    def running(self) -> bool:
        """Whether it was started and not killed since."""

    def start(self) -> Self:
        """Return when it accepts connections; `StartError` says why it does not."""
        assert not self.running, "the broker runs already"
        self.port = self._start()
        return self

    def kill(self) -> None:
        """End it as `kill -9` does: no goodbye, nothing synced; its faults end too."""
        if self.running:
            self._paused = False
            self._kill()

    def restart(self) -> Self:
        """Kill it unless that is done, and start it again on its port and data."""
        self.kill()
        return self.start()

    def pause(self) -> None:
        """Make it hang: it keeps its connections and answers nobody."""
        if self.running and not self._paused:
            self._paused = True
            self._pause()

    def resume(self) -> None:
        """Let it go on."""
        if self._paused:
            self._paused = False
            self._resume()

    def call(self, name: str, **arguments: Any) -> Any:
        """Have the broker do something of `hosted_broker.COMMANDS`."""
        if not self.running:
            raise RuntimeError("the broker was killed; start it with broker.restart()")
        if self._paused:
            raise RuntimeError("the broker is paused; let it go on with broker.resume()")
        return self._call(name, arguments)

    def close(self) -> None:
        """End it for good, and remove its directory."""
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def _start(self) -> int: ...

    @abstractmethod
    def _kill(self) -> None: ...

    @abstractmethod
    def _pause(self) -> None: ...

    @abstractmethod
    def _resume(self) -> None: ...

    @abstractmethod
    def _call(self, name: str, arguments: dict[str, Any]) -> Any: ...
