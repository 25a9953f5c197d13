"""How soon a test has its broker: the `tidelog` fixture in a fresh pytest, and what each further test pays for it.

    python benchmarks/fixture.py [--rounds 10] [--json FILE]

Every round is a pytest of its own.  `ready` is what the first test waits for: the import of the broker, its start, until it
listens; `cpu` is the processor time of that in the test's process, which a busy machine disturbs less.  `next` is what the second waits
for, `topic` a new topic.  The first round, which writes the bytecode, is not counted.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

CONFTEST = """
import json
import time

import pytest

times = {"tidelog_broker": [], "tidelog": [], "topic": []}
cpu = []


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_fixture_setup(fixturedef):
    began, cpu_began = time.perf_counter(), time.process_time()
    try:
        return (yield)
    finally:
        if fixturedef.argname in times:
            times[fixturedef.argname].append(time.perf_counter() - began)
            cpu.append(time.process_time() - cpu_began)


def pytest_sessionfinish():
    first, *rest = times["tidelog"]
    figures = {
        "ready": times["tidelog_broker"][0] + first,
        "cpu": cpu[0] + cpu[1],
        "next": min(rest),
        "topic": min(times["topic"]),
    }
    with open("figures", "w") as file:
        json.dump(figures, file)
"""

TESTS = """
import time

import pytest
from conftest import times


@pytest.mark.parametrize("number", range(5))
def test_one(tidelog, number):
    began = time.perf_counter()
    tidelog.topic()
    times["topic"].append(time.perf_counter() - began)
"""

ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


def one_round(directory: Path, kind: str) -> dict[str, float]:
    """Milliseconds of each step."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly"]
    command += ["-o", f"tidelog_broker={kind}", *_plugin()]
    done = subprocess.run(command, cwd=directory, env=ENVIRONMENT, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    figures = json.loads((directory / "figures").read_text())
    return {name: seconds * 1000 for name, seconds in figures.items()}


def _plugin() -> list[str]:
    from importlib.metadata import entry_points

    found = [each for each in entry_points(group="pytest11") if each.name == "tidelog"]
    return (
        [] if found else ["-p", "tidelog.testing.plugin"]
    )  # an install that is older than the plugin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory(prefix="tidelog-fixture-") as name:
        directory = Path(name)
        (directory / "conftest.py").write_text(CONFTEST)
        (directory / "test_one.py").write_text(TESTS)
        for kind in ("thread", "process"):
            rounds = [one_round(directory, kind) for _ in range(options.rounds + 1)][1:]
            found[kind] = {
                f"{step} ms, {word}": round(choose(each[step] for each in rounds), 1)
                for step in rounds[0]
                for word, choose in (("best", min), ("median", statistics.median))
            }
            shown = "  ".join(f"{name} {value}" for name, value in found[kind].items())
            print(f"{kind:<8} {shown}", flush=True)
    if options.json:
        Path(options.json).write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
