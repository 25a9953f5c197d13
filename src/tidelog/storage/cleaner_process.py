"""The cleaner's end of the pipes to its worker process."""

import asyncio
import contextlib
import os
import pickle
import sys
from typing import Any, Protocol

import tidelog
from tidelog.storage.cleaner_worker import LENGTH, Begin, Failed
from tidelog.storage.compaction_pass import Cleaned, Job, Mapped


class WorkerLost(Exception):
    """The worker process ended in the middle of a pass."""


class Worker(Protocol):
    """Someone who runs a pass, step by step, somewhere else than on the loop."""

    async def begin(self, job: Job, bytes_per_second: float) -> Mapped | Failed: ...

    async def clean(self, group: list[int]) -> Cleaned | Failed: ...

    async def stop(self) -> None: ...


class WorkerProcess:
    """A `Worker` that is a process of its own; started by `start`, of no use after `WorkerLost`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls) -> "WorkerProcess":
        root = os.path.dirname(os.path.dirname(tidelog.__file__))
        paths = [root, os.environ.get("PYTHONPATH", "")]
        # The offset map relies on hashes that nobody can predict.
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "PYTHONHASHSEED": "random",
        }
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-c",
            "from tidelog.storage.cleaner_worker import main; main()",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=environment,
            # Signals to the broker's terminal are the broker's: it stops its worker itself.
            start_new_session=True,
        )
        return cls(process)

    @property
    def pid(self) -> int:
        return self._process.pid

    async def begin(self, job: Job, bytes_per_second: float) -> Mapped | Failed:
        answer = await self._ask(Begin(job, bytes_per_second))
        assert isinstance(answer, Mapped | Failed)
        return answer

    async def clean(self, group: list[int]) -> Cleaned | Failed:
        answer = await self._ask(group)
        assert isinstance(answer, Cleaned | Failed)
        return answer

    async def stop(self) -> None:
        """End it now, whatever it is doing."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()

    async def _ask(self, message: Any) -> Any:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        data = pickle.dumps(message)
        try:
            process.stdin.write(LENGTH.pack(len(data)) + data)
            await process.stdin.drain()
            prefix = await process.stdout.readexactly(LENGTH.size)
            return pickle.loads(await process.stdout.readexactly(LENGTH.unpack(prefix)[0]))
        except (asyncio.IncompleteReadError, ConnectionError):
            code = await process.wait()
            raise WorkerLost(
                f"the compaction worker (process {process.pid}) ended with {code}"
            ) from None
