"""A broker in a thread of the test's own process: ready soonest.

It has an event loop of its own, so it does not matter whether the test has one, or blocks.  Metadata are kept in
memory: they outlive a kill, as the data do.
"""

import asyncio
import gc
import threading
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

from tidelog.clock import SystemClock
from tidelog.metastore.memory import MemoryMetastore, MemoryStore
from tidelog.testing.fixture_broker import FixtureBroker
from tidelog.testing.hosted_broker import Hosted, settings_for
from tidelog.testing.shifted_time import Shift, ShiftedLoop

T = TypeVar("T")


class ThreadBroker(FixtureBroker):
    """A `FixtureBroker` in this process."""

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(settings)
        self._shift = Shift()
        store = MemoryStore()
        # By the machine's own clock: a step of time must not cost the broker its session.
        self._hosted = Hosted(self._shift, lambda: MemoryMetastore(store, SystemClock()))
        self._loop: ShiftedLoop | None = None
        self._thread: threading.Thread | None = None
        self._may_go_on = threading.Event()
        self._running = False

    @property
    def running(self) -> bool:
        return self._running

    def close(self) -> None:
        super().close()
        if self._loop is not None and self._thread is not None:
            self._wait(self._loop.shutdown_default_executor())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
            self._loop = None

    def _start(self) -> int:
        if self._loop is None:
            self._loop = ShiftedLoop(self._shift)
            self._thread = threading.Thread(
                target=self._loop.run_forever, name="tidelog-broker", daemon=True
            )
            self._thread.start()
        settings = settings_for(str(self.directory / "data"), self.port, self.settings)
        collects = gc.isenabled()
        gc.disable()  # what is made now is no garbage
        try:
            address = self._wait(self._hosted.start(settings))
        finally:
            if collects:
                gc.enable()
        self._running = True
        return address.port

    def _kill(self) -> None:
        self._resume()
        self._running = False
        self._wait(self._hosted.abort())

    def _pause(self) -> None:
        assert self._loop is not None
        self._may_go_on.clear()
        stopped = threading.Event()

        def stand_still() -> None:
            stopped.set()
            self._may_go_on.wait()

        self._loop.call_soon_threadsafe(stand_still)
        stopped.wait()

    def _resume(self) -> None:
        self._may_go_on.set()

    def _call(self, name: str, arguments: dict[str, Any]) -> Any:
        return self._wait(self._hosted.call(name, arguments))

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()
