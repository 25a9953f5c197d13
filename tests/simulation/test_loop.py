"""The simulated loop: time, processes, threads."""

import asyncio
import time
from collections.abc import Iterator

import pytest

from tidelog.testing.simulation.loop import Process, SimLoop, Stuck


@pytest.fixture
def loop() -> Iterator[SimLoop]:
    loop = SimLoop(1)
    yield loop
    loop.forget_the_dead()
    loop.close()


async def count(seen: list[float]) -> None:
    while True:
        await asyncio.sleep(1)
        seen.append(round(asyncio.get_running_loop().time()))


def test_time_jumps_to_the_next_timer(loop: SimLoop):
    began = time.monotonic()
    loop.run_until_complete(asyncio.sleep(3600))
    assert loop.time() == pytest.approx(3600)
    assert time.monotonic() - began < 60


def test_nothing_of_a_killed_process_runs_again(loop: SimLoop):
    seen: list[float] = []
    ended: list[str] = []

    async def work() -> None:
        try:
            await count(seen)
        finally:
            ended.append("cleaned up")

    process = Process("a")
    loop.start(process, work())
    loop.run_until_complete(asyncio.sleep(2.5))
    loop.kill(process)
    loop.run_until_complete(asyncio.sleep(10))
    assert seen == [1, 2]
    assert ended == []


def test_a_paused_process_goes_on_where_it_was(loop: SimLoop):
    seen: list[float] = []
    process = Process("a")
    loop.start(process, count(seen))
    loop.run_until_complete(asyncio.sleep(1.5))
    loop.pause(process)
    loop.run_until_complete(asyncio.sleep(10))
    assert seen == [1]
    loop.resume(process)
    loop.run_until_complete(asyncio.sleep(1.5))
    assert seen == [1, 12, 13]


def test_work_for_threads_is_done_by_the_loop(loop: SimLoop):
    async def main() -> int:
        return await asyncio.to_thread(lambda: 42)

    assert loop.run_until_complete(main()) == 42


def test_what_a_thread_raises_comes_back(loop: SimLoop):
    async def main() -> None:
        await asyncio.to_thread(lambda: {}["missing"])

    with pytest.raises(KeyError):
        loop.run_until_complete(main())


def test_what_nobody_catches_is_noted(loop: SimLoop):
    async def work() -> None:
        raise ZeroDivisionError

    loop.start(Process("a"), work())
    loop.run_until_complete(asyncio.sleep(1))
    ((_, error),) = loop.failures
    assert isinstance(error, ZeroDivisionError)


def test_running_in_circles_is_noticed(loop: SimLoop):
    async def work() -> None:
        while True:  # noqa: ASYNC110
            await asyncio.sleep(0)

    with pytest.raises(Stuck, match="without time passing"):
        loop.run_until_complete(work())


def test_waiting_for_nothing_is_noticed(loop: SimLoop):
    with pytest.raises(Stuck, match="nothing is scheduled"):
        loop.run_until_complete(loop.create_future())


def test_sets_of_tasks_have_the_same_order_in_every_run():
    def run() -> list[int]:
        loop = SimLoop(1)

        async def main() -> list[int]:
            tasks = {asyncio.ensure_future(asyncio.sleep(1)) for _ in range(50)}
            await asyncio.gather(*tasks)
            return [each.number for each in tasks]  # type: ignore[attr-defined]

        try:
            return loop.run_until_complete(main())
        finally:
            loop.close()

    assert run() == run()
