"""The cleaner's worker without a process: it works on the simulated disk of its broker, and takes simulated time."""

import asyncio
import contextlib
from collections.abc import Iterator

from tidelog.storage.cleaner import Cleaner
from tidelog.storage.cleaner_worker import Begin, Failed, Work
from tidelog.storage.compaction_pass import Cleaned, Job, Mapped

from .cluster import SimCluster
from .loop import CURRENT

_STEP_S = 0.05
"""What a step of a pass takes: time in which the log may be cut, or the broker be killed."""
_START_WORKER = "start_worker"


class SimWorker:
    """A `Worker` on the loop of the simulation."""

    def __init__(self, work: Work) -> None:
        self._work = work

    async def begin(self, job: Job, bytes_per_second: float) -> Mapped | Failed:
        await asyncio.sleep(_STEP_S)
        answer = self._work.answer(Begin(job, bytes_per_second))
        assert isinstance(answer, Mapped | Failed)
        return answer

    async def clean(self, group: list[int]) -> Cleaned | Failed:
        answer = self._work.answer(group)
        await asyncio.sleep(_STEP_S)
        assert isinstance(answer, Cleaned | Failed)
        return answer

    async def stop(self) -> None:
        pass


@contextlib.contextmanager
def cleaning_in_process(cluster: SimCluster) -> Iterator[None]:
    """Let the cleaners of all brokers work with a `SimWorker`."""

    async def start() -> SimWorker:
        process = CURRENT.get()
        assert process is not None
        node = cluster.nodes[int(process.host.removeprefix("b"))]
        return SimWorker(Work(node.disk, node.clock.monotonic, lambda _: None))

    defaults = Cleaner.__init__.__kwdefaults__
    assert defaults is not None
    plain = defaults[_START_WORKER]
    defaults[_START_WORKER] = start
    try:
        yield
    finally:
        defaults[_START_WORKER] = plain
