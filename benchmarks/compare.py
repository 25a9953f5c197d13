"""tidelog beside its peers, on this machine: the suite, and the report that it writes.

    python benchmarks/compare.py                          everything at medium scale, then docs/benchmarks.md
    python benchmarks/compare.py --scale small            the same in a few minutes; --scale full as the paper has it
    python benchmarks/compare.py --systems tidelog,kafka --lines produce,fetch --keep /tmp/some.json
    python benchmarks/compare.py --report-only            write the report again from the last results

The systems are started one after the other, in every round anew (A B A B ...), so that what disturbs the machine
disturbs all of them; ratios are taken within a round.  Results are saved after each system, so a run that is broken off is not lost.
"""

import argparse
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType

sys.path.insert(0, str(Path(__file__).resolve().parent))

from suite import lines
from suite.drivers.build import Missing
from suite.lines import footprint, latency
from suite.lines.task import Task
from suite.machine import machine
from suite.report import write
from suite.samples import RESULTS, Run, Sample, load
from suite.scales import SCALES, Scale
from suite.systems import ALL
from suite.systems.base import System
from suite.warming import warm_up

DEFAULT = RESULTS / "report.json"


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    if not options.report_only:
        scale = SCALES[options.scale]
        run = measure(scale, _chosen(options), options.lines, options.rounds, options.keep)
        run.save(options.keep)
    if not options.no_report:
        write(load(options.keep))
    return 0


def measure(
    scale: Scale,
    systems: list[System],
    only: list[str],
    rounds: int,
    keep: Path,
    facts: dict[str, float] | None = None,
) -> Run:
    """Run the lines on the systems, round by round; `facts` of an earlier run are taken over."""
    signal.signal(
        signal.SIGTERM, lambda *_: sys.exit(143)
    )  # whoever is killed stops what runs, too
    began = datetime.now(UTC).isoformat(timespec="seconds")
    run = Run(began, asdict(scale), machine(), {}, {}, dict(facts or {}))
    there = []
    for system in systems:
        try:
            system.check()
        except Missing as reason:
            run.missing[system.name] = str(reason)
            print(f"{system.name}: left out, {reason}", flush=True)
            continue
        there.append(system)
        run.systems[system.name] = {"version": system.version(), "settings": system.settings}
    chosen = [each for each in lines.ALL if not only or each.NAME in only]
    if latency in chosen and latency.CEILING not in run.facts:
        run.facts[latency.CEILING] = _ceiling(there, scale)
    rounds = rounds or scale.rounds
    run.scale["rounds"] = rounds
    for number in range(rounds):
        for system in there:
            began_s = time.monotonic()
            _one_round(run, system, scale, number, chosen)
            took = time.monotonic() - began_s
            print(f"round {number + 1} of {rounds}: {system.name}, {took:.0f} s", flush=True)
            run.save(keep)
    return run


def _one_round(
    run: Run, system: System, scale: Scale, number: int, chosen: list[ModuleType]
) -> None:
    task = Task(system, scale, number, run.facts, _printing(run))
    directory = Path(tempfile.mkdtemp(prefix="bench-"))
    try:
        with system.running(directory):
            if footprint in chosen:  # of a system that nobody has used yet
                task.line = footprint.NAME
                footprint.run_line(task)
            warm_up(task)
            for line in chosen:
                if line is not footprint and line.suits(system):
                    task.line = line.NAME
                    _run_line(run, task, line)
            if footprint in chosen:
                task.line = footprint.NAME
                footprint.after(task)
    except Missing as reason:
        run.missing[f"{system.name}, round {number + 1}"] = str(reason)
        print(f"{system.name}: {reason}", flush=True)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _run_line(run: Run, task: Task, line: ModuleType) -> None:
    """A line that fails is told of in the report; the others go on."""
    try:
        line.run_line(task)
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        traceback.print_exc()
        run.missing[f"{line.NAME} on {task.system.name}, round {task.round + 1}"] = repr(error)


def _ceiling(systems: list[System], scale: Scale) -> float:
    """The least that a system of Kafka's protocol takes; see `lines/latency.py`."""
    found = []
    for system in systems:
        if not latency.suits(system):
            continue
        directory = Path(tempfile.mkdtemp(prefix="bench-"))
        try:
            with system.running(directory):
                task = Task(system, scale, 0, {}, lambda sample: None)
                warm_up(task)
                found.append(latency.ceiling(task))
            print(f"{system.name} takes {found[-1]:,.0f} messages a second", flush=True)
        finally:
            shutil.rmtree(directory, ignore_errors=True)
    return min(found, default=0.0)


def _printing(run: Run):  # type: ignore[no-untyped-def]
    def keep(sample: Sample) -> None:
        run.samples.append(sample)
        figures = "  ".join(f"{name} {value:,.4g}" for name, value in sample.figures.items())
        print(f"  {sample.line:9} {sample.case:38} {figures}", flush=True)

    return keep


def _chosen(options: argparse.Namespace) -> list[System]:
    return [
        each()
        for each in ALL
        if not options.systems or any(name.lower() in each.name.lower() for name in options.systems)
    ]


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    def names(text: str) -> list[str]:
        return [each for each in text.split(",") if each]

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", choices=sorted(SCALES), default="medium")
    parser.add_argument("--rounds", type=int, default=0, help="instead of the scale's own")
    parser.add_argument("--systems", type=names, default=[], help="parts of names, with commas")
    parser.add_argument("--lines", type=names, default=[], help="names, with commas")
    parser.add_argument("--keep", type=Path, default=DEFAULT, help="where the raw results go")
    parser.add_argument("--report-only", action="store_true")
    parser.add_argument("--no-report", action="store_true")
    options = parser.parse_args(arguments)
    unknown = set(options.lines) - {each.NAME for each in lines.ALL}
    if unknown:
        known = ", ".join(each.NAME for each in lines.ALL)
        parser.error(f"no line {', '.join(sorted(unknown))}; there are {known}")
    return options


if __name__ == "__main__":
    sys.exit(main())
