"""An event loop for a whole cluster in one thread: time jumps to the next timer, and nothing is real.

    loop = SimLoop(seed)
    process = Process("b1")
    loop.start(process, work())         # its tasks, timers and threads belong to the process from then on
    loop.run_until_complete(story())
    process.kill() / process.pause() / process.resume()

Every callback belongs to the process in whose context it was scheduled.  That of a killed process is dropped, that
of a paused one is kept until it goes on, as the kernel does with signals KILL, STOP and CONT.  Work for threads runs
on the loop itself, a moment later.  Two runs of one seed do the same: tasks are hashed by their number, not
by their address, and randomness comes from the seed alone.
"""

import asyncio
import contextlib
import contextvars
import heapq
from asyncio import Future, Handle, TimerHandle
from collections import deque
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, TypeVar

T = TypeVar("T")

_TURNS_WITHOUT_TIME = 200_000
"""More callbacks than this without time passing: something runs in circles."""

_TURN_S = 1e-7


class Process:
    """Owner of callbacks: a broker, a client, or one life of them."""

    def __init__(self, host: str, name: str = "") -> None:
        self.host = host
        self.name = name or host
        self.alive = True
        self.paused = False
        self.runs = True
        """Alive and not paused."""
        self.held: deque[Handle] = deque()
        """What would have run while it is paused."""
        self.context = contextvars.Context()
        self.context.run(CURRENT.set, self)

    def __repr__(self) -> str:
        return self.name


CURRENT: "contextvars.ContextVar[Process | None]" = contextvars.ContextVar(
    "simulated process", default=None
)


class Stuck(Exception):
    """The simulation cannot go on: nothing is scheduled, or time does not pass."""


class SimLoop(asyncio.BaseEventLoop):
    """See the module's docstring."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.seed = seed
        self.chance = self.chance_for("loop")
        self.thread_delay_s = 0.0005
        """How long work for a thread waits at most before it is done."""
        self.connect: Callable[..., Coroutine[Any, Any, Any]] | None = None
        """What `create_connection` does; set by the network."""
        self.watch: Callable[[int], Any] | None = None
        """The simulated socket of a descriptor; set by the network."""
        self.failures: list[tuple[str, BaseException | None]] = []
        """What nobody caught."""
        self.turns = 0
        self._now = 0.0
        self._since = 0
        self._sequence = 0
        self._timers: list[tuple[float, int, TimerHandle]] = []
        self._graveyard: list[asyncio.Task[Any]] = []
        self.set_task_factory(_task_factory)
        self.set_exception_handler(_note_failure)

    def chance_for(self, purpose: str) -> Random:
        """Randomness of its own for each purpose: so what one part draws does not change what the others do."""
        return Random(f"{purpose} {self.seed}")

    # ------------------------------------------------------------------ processes

    def start(
        self, process: Process, work: Coroutine[Any, Any, T], name: str = ""
    ) -> "asyncio.Task[T]":
        """Run a coroutine as part of a process."""
        task = self.create_task(work, name=name or None, context=process.context.copy())
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        if not task.cancelled() and task.exception() is not None:
            self.failures.append((f"{task.get_name()} has failed", task.exception()))

    def kill(self, process: Process) -> None:
        """Nothing of the process runs ever again."""
        process.alive = process.runs = False
        process.held.clear()
        # Kept until the end: a coroutine that is collected would run its `finally` blocks, which the dead do not.
        self._graveyard += [
            task
            for task in asyncio.all_tasks(self)
            if isinstance(task, SimTask) and task.process is process
        ]

    def pause(self, process: Process) -> None:
        process.paused, process.runs = True, False

    def resume(self, process: Process) -> None:
        if process.paused:
            process.paused, process.runs = False, process.alive
            self._ready.extend(process.held)  # type: ignore[attr-defined]
            process.held.clear()

    # ------------------------------------------------------------------ time and turns

    def time(self) -> float:
        return self._now

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> TimerHandle:
        timer = TimerHandle(when, callback, args, self, context)
        self._sequence += 1
        heapq.heappush(self._timers, (when, self._sequence, timer))
        return timer

    def _run_once(self) -> None:
        ready: deque[Handle] = self._ready  # type: ignore[attr-defined]
        timers = self._timers
        if not ready:
            while timers and timers[0][2].cancelled():
                heapq.heappop(timers)
            if not timers:
                raise Stuck("nothing is scheduled any more")
            if timers[0][0] > self._now:
                self._now = timers[0][0]
                self._since = self.turns
        now = self._now
        while timers and timers[0][0] <= now:
            timer = heapq.heappop(timers)[2]
            if not timer.cancelled():
                ready.append(timer)
        count = len(ready)
        self.turns += count
        if self.turns - self._since > _TURNS_WITHOUT_TIME:
            raise Stuck(
                f"{_TURNS_WITHOUT_TIME} callbacks without time passing; next is {ready[0]!r}"
            )
        # Work takes time: without this, rounding could keep a timer for ever a hair before its moment.
        self._now = now + count * _TURN_S
        for _ in range(count):
            handle = ready.popleft()
            if handle._cancelled:
                continue
            process = handle._context.get(CURRENT)  # type: ignore[attr-defined]
            if process is None or process.runs:
                handle._run()
            elif process.alive:
                process.held.append(handle)

    # ------------------------------------------------------------------ what a real loop has from the system

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> "asyncio.Future[T]":
        future: Future[T] = self.create_future()
        delay = self.chance.random() * self.thread_delay_s
        self.call_later(delay, _work, future, func, args)
        return future

    async def create_connection(  # type: ignore[override]
        self, protocol_factory: Callable[[], Any], host: str, port: int, **_: Any
    ) -> Any:
        assert self.connect is not None
        return await self.connect(protocol_factory, host, port)

    def add_reader(  # type: ignore[override]
        self, fd: Any, callback: Callable[..., Any], *args: Any
    ) -> None:
        assert self.watch is not None
        self.watch(fd).on_readable(callback)

    def remove_reader(self, fd: Any) -> bool:
        assert self.watch is not None
        self.watch(fd).on_readable(None)
        return True

    def add_writer(  # type: ignore[override]
        self, fd: Any, callback: Callable[..., Any], *args: Any
    ) -> None:
        assert self.watch is not None
        self.watch(fd).on_writable(callback)

    def remove_writer(self, fd: Any) -> bool:
        assert self.watch is not None
        self.watch(fd).on_writable(None)
        return True

    def _write_to_self(self) -> None:
        pass  # there is no other thread that could have to wake this one

    def _process_events(self, event_list: Any) -> None:
        pass

    def _timer_handle_cancelled(self, handle: TimerHandle) -> None:
        pass

    def forget_the_dead(self) -> None:
        """At the end: close everything that never finished; whatever its `finally` blocks say is no news."""
        for task in asyncio.all_tasks(self):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            with contextlib.suppress(BaseException):
                task.get_coro().close()
        self._ready.clear()  # type: ignore[attr-defined]
        self._timers.clear()
        self._graveyard.clear()


class SimTask(asyncio.Task[Any]):
    """A task that a set orders by its number, and that knows its process."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        loop = kwargs["loop"]
        loop._sequence += 1
        self.number: int = loop._sequence
        context = kwargs.get("context")
        self.process: Process | None = CURRENT.get() if context is None else context.get(CURRENT)
        super().__init__(*args, **kwargs)

    def __hash__(self) -> int:
        return self.number


def _task_factory(
    loop: asyncio.AbstractEventLoop, work: Any, context: contextvars.Context | None = None
) -> "asyncio.Task[Any]":
    return SimTask(work, loop=loop, context=context)


def _work(future: "Future[T]", func: Callable[..., T], args: tuple[Any, ...]) -> None:
    try:
        result = func(*args)
    except Exception as error:  # noqa: BLE001 - what a thread does with it, too
        if not future.cancelled():
            future.set_exception(error)
    else:
        if not future.cancelled():
            future.set_result(result)


def _note_failure(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    assert isinstance(loop, SimLoop)
    error = context.get("exception")
    loop.failures.append((str(context.get("message", "")), error))
