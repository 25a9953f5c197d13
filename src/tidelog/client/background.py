"""The blocking face of an async client: its loop in one background thread.

`blocking` turns an async method into a blocking one of the same signature, so that a parameter list stands once:

    class Admin(Blocking[aio.Admin]):
        create_topics = blocking(aio.Admin.create_topics)

The thread is a daemon and starts with the client.  Waiting for it can be interrupted with Ctrl-C.  A client does not
survive `fork`: the child has no such thread, and is told so.
"""

import asyncio
import logging
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from tidelog.client.closing import CLOSE_TIMEOUT_S, Closing, note
from tidelog.errors import DeliveryFailed, TidelogError

_HURRY_S = 1.0
"""How long a client that is left by Ctrl-C may take to say goodbye."""

_log = logging.getLogger(__name__)

C = TypeVar("C", bound=Closing)
C_co = TypeVar("C_co", bound=Closing, covariant=True)
P = ParamSpec("P")
R = TypeVar("R")


class Ended(TidelogError):
    """The client was closed, perhaps by another thread while this one waited."""


class LoopThread:
    """An event loop that runs in a thread until it is stopped."""

    def __init__(self, name: str) -> None:
        # Not uvloop: it takes the interpreter's lock for each callback, for which a caller that sends in a loop makes it
        # wait every time, and measured no better here.
        self.loop = asyncio.new_event_loop()
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._ends = False
        """Nothing is begun there any more.  Whoever sets it stops the loop, and nobody does so twice."""
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def is_current(self) -> bool:
        """Whether the caller runs in it, and so must not wait for it."""
        return threading.current_thread() is self._thread

    @property
    def is_left_behind(self) -> bool:
        """Whether this process was forked since: the thread is not in it."""
        return os.getpid() != self._pid

    def check_process(self) -> None:
        """Raise in a child process, in which nothing would ever be done."""
        if self.is_left_behind:
            raise TidelogError(
                "a client does not survive fork; make a new one in the child process"
            )

    def check_other(self) -> None:
        """Raise in the thread itself, which would wait for itself for ever."""
        if self.is_current:
            raise TidelogError(
                "a callback runs in the client's own thread and must not wait for the client; do it in another thread"
            )

    def start(self, work: Coroutine[Any, Any, R]) -> "Future[R]":
        """Run a coroutine there; the future is its outcome."""
        try:
            self.check_process()
        except TidelogError:
            work.close()
            raise
        with self._lock:
            if not self._ends:
                return asyncio.run_coroutine_threadsafe(work, self.loop)
        work.close()
        raise Ended("the client is closed")

    def run(self, work: Coroutine[Any, Any, R], timeout_s: float | None = None) -> R:
        """Run a coroutine there and wait for it; if the wait is interrupted, it is cancelled."""
        try:
            self.check_other()
        except TidelogError:
            work.close()
            raise
        future = self.start(work)
        try:
            return future.result(timeout_s)
        except CancelledError:
            if self._ends:
                raise Ended("the client was closed meanwhile") from None
            raise
        except BaseException:
            future.cancel()
            raise

    def stop(self) -> None:
        """Stop the loop and wait for its thread; may be called twice."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            if not self._ends:
                self._ends = True
                self.loop.call_soon_threadsafe(self.loop.stop)
        if self.is_current:
            return  # a forgotten client was collected there; the thread ends by itself
        self._thread.join()
        with self._lock:
            if not self.loop.is_closed():
                self.loop.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.run_until_complete(_settle(self.loop))


class Blocking(Generic[C_co]):
    """A client whose async core lives in a `LoopThread`."""

    def __init__(self, make: Callable[[], C_co], name: str) -> None:
        self._thread = LoopThread(name)
        try:
            self._core = self._thread.run(_made(make))
        except BaseException:
            self._thread.stop()
            raise
        # A client that is forgotten, or lives to the end of the program, must not leave a running loop behind.
        self._finalizer: weakref.finalize[Any, Any] = weakref.finalize(
            self, drop, self._thread, self._core
        )

    def _finish_with(self, finish: Callable[[], None]) -> None:
        """What to do when the client is forgotten, or lives to the end of the program; it must stop the thread."""
        self._finalizer.detach()
        self._finalizer = weakref.finalize(self, finish)

    @property
    def core(self) -> C_co:
        """The async client; for our own modules, which know what may be done from another thread."""
        return self._core

    def run(self, work: Callable[[C_co], Coroutine[Any, Any, R]]) -> R:
        """Do something with the async client on its own loop, and wait for it."""
        return self._thread.run(work(self._core))

    def close(self, timeout: float = CLOSE_TIMEOUT_S) -> None:
        """Finish what was begun, for `timeout` seconds at most, and let go of the brokers; what could not be finished raises.

        Calling it again does nothing.
        """
        self._thread.check_other()
        if not self._thread.loop.is_closed() and not self._thread.is_left_behind:
            try:
                self._thread.run(self._core.close(timeout))
            except Ended:
                pass  # another thread has closed it: the end is the same, and its failure was told there
            finally:
                self._thread.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
        elif not isinstance(error, Exception):
            self._close_in_a_hurry(error)
        else:
            try:
                self.close()
            except Exception as failure:  # noqa: BLE001 - whatever it is, it must not hide why the block was left
                note(error, failure)

    def _close_in_a_hurry(self, why: BaseException) -> None:
        """Ctrl-C: nobody wants to wait for a broker that may be the reason for it."""
        if self._thread.loop.is_closed() or self._thread.is_left_behind:
            return
        try:
            self._thread.run(self._core.close(_HURRY_S))
        except DeliveryFailed as failure:
            note(why, failure)
        except (TidelogError, TimeoutError) as error:
            _log.debug("closing in a hurry: %s", error)
        finally:
            self._thread.stop()


def blocking(
    method: Callable[Concatenate[C, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Blocking[C], P], R]:
    """The blocking twin of an async method."""

    @wraps(method)
    def call(self: Blocking[C], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._thread.run(method(self._core, *args, **kwargs))

    return call


def drop(thread: LoopThread, core: Closing) -> None:
    """Stop the thread of a client that nobody holds any longer."""
    if not thread.is_left_behind and not thread.loop.is_closed():
        thread.loop.call_soon_threadsafe(core.abandon)
    thread.stop()


async def _made(make: Callable[[], C]) -> C:
    return make()


async def _settle(loop: asyncio.AbstractEventLoop) -> None:
    tasks = [task for task in asyncio.all_tasks(loop) if task is not asyncio.current_task()]
    await asyncio.gather(*tasks, return_exceptions=True)
    for _ in range(3):
        await asyncio.sleep(
            0
        )  # transports that were aborted close their sockets a turn or two later
