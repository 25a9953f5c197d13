"""Run seeds of the simulation.

    python -m tidelog.testing.simulation --seeds 1000 --from 1 --jobs 2
    python -m tidelog.testing.simulation --seed 17 --trace        the same run again, with everything that happens

A failing seed prints its story and how to see it again.  The exit status is 0 when no seed failed.
"""

import argparse
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from typing import NamedTuple, TextIO

from .plan import Plan
from .run import Outcome, simulate

_STORY_LINES = 150
"""Of a failing seed, the last lines that are shown."""
_SEEDS_OF_A_WORKER = 100
"""A worker is replaced after so many seeds, and with it the memory that they left."""


class Result(NamedTuple):
    """What is left of a run."""

    seed: int
    violations: list[str]
    story: str
    trace: int
    virtual_s: float
    acknowledged: int
    deeds: Counter[str]
    plan: str


def main(arguments: list[str] | None = None) -> int:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tidelog.testing.simulation")
    parser.add_argument("--seeds", type=int, default=100, help="how many (100)")
    parser.add_argument("--from", type=int, default=1, dest="first", help="the first seed (1)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at a time")
    parser.add_argument("--seed", type=int, help="only this one, in this process")
    parser.add_argument("--trace", action="store_true", help="with --seed: show all that happens")
    parser.add_argument(
        "--twice", action="store_true", help="run each seed twice, and compare what happened"
    )
    parser.add_argument(
        "--first-failure", action="store_true", help="end with the first seed that fails"
    )
    parser.add_argument(
        "--plan", choices=("mixed", "short", "long"), default="mixed", help="kind of runs (mixed)"
    )
    options = parser.parse_args(arguments)
    if options.seed is not None:
        return _one(options.seed, options.plan, trace=options.trace, out=sys.stdout)
    run = partial(_run_twice if options.twice else _run, kind=options.plan)
    seeds = range(options.first, options.first + options.seeds)
    return _many(seeds, options.jobs, run, first_failure=options.first_failure, out=sys.stdout)


def _one(seed: int, kind: str, *, trace: bool, out: TextIO) -> int:
    outcome = simulate(seed, Plan.by_seed(seed, kind), show=trace)
    if not trace:
        print(outcome.story.text(), file=out)
    print(_summary(_result(outcome)), file=out)
    return 1 if outcome.violations else 0


def _many(
    seeds: range,
    jobs: int,
    run: Callable[[int], Result],
    *,
    first_failure: bool = False,
    out: TextIO,
) -> int:
    started = time.monotonic()
    progress = _Progress(len(seeds), out)
    failed: list[int] = []
    totals: dict[str, _Total] = {}
    deeds: Counter[str] = Counter()
    results = _results(seeds, jobs, run)
    for result in results:
        totals.setdefault(result.plan, _Total()).add(result)
        deeds += result.deeds
        if result.violations:
            failed.append(result.seed)
            progress.clear()
            _show_failure(result, out)
        progress.step(len(failed))
        if failed and first_failure:
            results.close()
    progress.clear()
    for plan, total in sorted(totals.items()):
        print(f"{plan}: {total}", file=out)
    print(
        "faults: " + ", ".join(f"{kind} {times}" for kind, times in sorted(deeds.items())), file=out
    )
    acknowledged = sum(each.acknowledged for each in totals.values())
    virtual_s = sum(each.virtual_s for each in totals.values())
    print(
        f"{len(seeds)} seeds from {seeds.start}, {len(failed)} failed"
        + (f" ({', '.join(map(str, sorted(failed)))})" if failed else "")
        + f"; {acknowledged} acknowledged writes, {deeds.total()} faults, {virtual_s / 3600:.1f} "
        f"hours of simulated time in {time.monotonic() - started:.0f} s",
        file=out,
    )
    return 1 if failed else 0


class _Total:
    """The sums of one kind of plan."""

    def __init__(self) -> None:
        self.seeds = self.failed = self.acknowledged = self.deeds = 0
        self.virtual_s = 0.0

    def add(self, result: Result) -> None:
        self.seeds += 1
        self.failed += bool(result.violations)
        self.acknowledged += result.acknowledged
        self.deeds += result.deeds.total()
        self.virtual_s += result.virtual_s

    def __str__(self) -> str:
        return (
            f"{self.seeds} seeds, {self.failed} failed, {self.acknowledged} acknowledged writes, "
            f"{self.deeds} faults"
        )


def _results(
    seeds: range, jobs: int, run: Callable[[int], Result]
) -> Generator[Result, None, None]:
    """As they come.  A worker that dies ends it all with an error, where a `multiprocessing.Pool` would wait for ever."""
    context = multiprocessing.get_context("fork")
    for first in range(0, len(seeds), _SEEDS_OF_A_WORKER * jobs):
        some = seeds[first : first + _SEEDS_OF_A_WORKER * jobs]
        with ProcessPoolExecutor(jobs, mp_context=context) as pool:
            try:
                for each in as_completed([pool.submit(run, seed) for seed in some]):
                    yield each.result()
            finally:
                pool.shutdown(cancel_futures=True)  # nobody may want the rest


def _run(seed: int, kind: str) -> Result:
    return _result(simulate(seed, Plan.by_seed(seed, kind)))


def _run_twice(seed: int, kind: str) -> Result:
    first, second = _run(seed, kind), _run(seed, kind)
    if first.trace != second.trace:
        differs = f"not repeatable: two runs delivered {first.trace:08x} and {second.trace:08x}"
        first.violations.append(differs)
    return first


def _result(outcome: Outcome) -> Result:
    return Result(
        outcome.seed,
        outcome.violations,
        outcome.story.text() if outcome.violations else "",
        outcome.trace,
        outcome.virtual_s,
        len(outcome.history.acknowledged),
        outcome.deeds,
        outcome.plan.name,
    )


def _show_failure(result: Result, out: TextIO) -> None:
    lines = result.story.splitlines()
    print(f"\nseed {result.seed} failed; its story:", file=out)
    if len(lines) > _STORY_LINES:
        print(f"  … {len(lines) - _STORY_LINES} lines before", file=out)
    print("\n".join(lines[-_STORY_LINES:]), file=out)
    print(_summary(result), file=out)


def _summary(result: Result) -> str:
    if not result.violations:
        return (
            f"seed {result.seed}: all promises kept; {result.acknowledged} acknowledged writes, "
            f"{result.deeds.total()} faults, trace {result.trace:08x}"
        )
    return "\n".join(
        [
            f"seed {result.seed} broke its promises:",
            *(f"  - {each}" for each in result.violations),
            f"again, with everything: python -m tidelog.testing.simulation --seed {result.seed} "
            f"--plan {result.plan} --trace",
        ]
    )


class _Progress:
    """One line that is rewritten on a terminal, and a line now and then elsewhere."""

    def __init__(self, total: int, out: TextIO) -> None:
        self._total = total
        self._out = out
        self._done = 0
        self._live = out.isatty()

    def step(self, failed: int) -> None:
        self._done += 1
        line = f"{self._done}/{self._total} seeds, {failed} failed"
        if self._live:
            print(f"\r{line}", end="", file=self._out, flush=True)
        elif self._done % max(self._total // 10, 1) == 0:
            print(line, file=self._out, flush=True)

    def clear(self) -> None:
        if self._live:
            print("\r\x1b[K", end="", file=self._out, flush=True)


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":
        # The order of sets of texts must not differ between two runs of a seed.
        os.environ["PYTHONHASHSEED"] = "0"
        module = "tidelog.testing.simulation"
        os.execv(sys.executable, [sys.executable, "-m", module, *sys.argv[1:]])
    sys.exit(main())
