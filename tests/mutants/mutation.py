"""Break the product on purpose, one way at a time, and see that something notices: `make mutants`.

    python tests/mutants/mutation.py                         every mutant of mutants.toml
    python tests/mutants/mutation.py --only "flush" -v       those whose name has this in it, with what their tests say

Each mutant is a copy of the sources with one place changed.  It is caught when one of the tests that are named with it
fails, or one of the first seeds of the simulation breaks its promises, and the sources as they are do not.  One that survives fails the run, and so does one whose place is
not found: then nothing was tried.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
_SOURCES = ROOT / "src" / "tidelog"
_SEEDS = 200
_TIMEOUT_S = 1_800
_FAILED = re.compile(r"^FAILED (\S+?(?:\[.*?\])?)(?: - |$)", re.MULTILINE)
_BROKEN = re.compile(r"^seed (\d+) broke its promises:\n  - (.*)$", re.MULTILINE)


class Mutant(NamedTuple):
    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


class NoSuchPlace(Exception):
    """The text that a mutant changes is not there, or there more than once."""


def mutants() -> list[Mutant]:
    """All that are written down."""
    table = tomllib.loads((Path(__file__).parent / "mutants.toml").read_text())
    return [Mutant(**{**each, "tests": tuple(each["tests"])}) for each in table["mutant"]]


def mutated(mutant: Mutant, sources: Path = _SOURCES) -> str:
    """The text of the changed file."""
    text = (sources / mutant.file).read_text()
    times = text.count(mutant.old)
    if times != 1:
        raise NoSuchPlace(
            f"{mutant.name!r}: its text is {times} times in src/tidelog/{mutant.file}, not once; "
            "bring it along in tests/mutants/mutants.toml"
        )
    return text.replace(mutant.old, mutant.new)


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests/mutants/mutation.py")
    parser.add_argument("--only", default="", help="a part of the name")
    parser.add_argument("--seeds", type=int, default=_SEEDS, help=f"how many at most ({_SEEDS})")
    parser.add_argument("--jobs", type=int, default=1, help="simulations at a time (1)")
    parser.add_argument("-v", "--verbose", action="store_true", help="show what the tests say")
    options = parser.parse_args()
    chosen = [each for each in mutants() if options.only in each.name]
    for each in chosen:
        mutated(each)  # that a place is missing is said before anything is run
    survived = []
    for each in chosen:
        started = time.monotonic()
        caught = _caught(each, options)
        print(
            f"{each.name}: {caught or 'SURVIVED'} ({time.monotonic() - started:.0f} s)", flush=True
        )
        if caught is None:
            survived.append(each.name)
    print(
        f"{len(chosen)} mutants, {len(survived)} survived" + "".join(f"\n  {s}" for s in survived)
    )
    return 1 if survived or not chosen else 0


def _caught(mutant: Mutant, options: argparse.Namespace) -> str | None:
    """What catches it; None if nothing does."""
    with tempfile.TemporaryDirectory(prefix="tidelog-mutant-") as made:
        root = Path(made)
        shutil.copytree(ROOT / "src", root / "src", ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("tests", "pyproject.toml"):
            os.symlink(ROOT / name, root / name)
        (root / "src" / "tidelog" / mutant.file).write_text(mutated(mutant))
        for test in mutant.tests:
            name = _failing_test(root, test, verbose=options.verbose)
            if name is not None:
                if _failing_test(ROOT, name, verbose=options.verbose) is not None:
                    raise SystemExit(f"{name} fails without a mutant, too")
                return f"caught by {name}"
        found = _failing_seed(root, options)
        if found is None:
            return None
        seed, complaint = found
        if _run(ROOT, ["-m", "tidelog.testing.simulation", "--seed", seed]).returncode:
            raise SystemExit(f"seed {seed} fails without a mutant, too")
        return f"caught by seed {seed}: {complaint}"


def _failing_test(root: Path, test: str, *, verbose: bool) -> str | None:
    command = ["-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", "-p", "no:randomly"]
    done = _run(root, [*command, test])
    if verbose:
        print(done.stdout[-4_000:])
    if done.returncode not in (0, 1):  # 1: a test has failed.  Anything else: there was none.
        raise SystemExit(f"pytest {test} ended with {done.returncode}:\n{done.stdout[-4_000:]}")
    failed = _FAILED.search(done.stdout)
    return failed[1] if failed else None


def _failing_seed(root: Path, options: argparse.Namespace) -> tuple[str, str] | None:
    """The first seed that fails, and what it complains of."""
    arguments = ["--seeds", str(options.seeds), "--jobs", str(options.jobs), "--first-failure"]
    done = _run(root, ["-m", "tidelog.testing.simulation", *arguments])
    if options.verbose:
        print(done.stdout[-2_000:])
    broken = _BROKEN.search(done.stdout)
    if (broken is None) != (done.returncode == 0):
        raise SystemExit(f"the simulation ended with {done.returncode}:\n{done.stdout[-4_000:]}")
    return None if broken is None else (broken[1], broken[2])


def _run(root: Path, arguments: list[str]) -> "subprocess.CompletedProcess[str]":
    environment = os.environ | {"PYTHONPATH": str(root / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=root,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=_TIMEOUT_S,
    )


if __name__ == "__main__":
    sys.exit(main())
