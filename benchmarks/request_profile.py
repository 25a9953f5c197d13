"""Where a broker's time goes under load, by module; of this tree, and of an older one beside it.

    python benchmarks/request_profile.py [--tree before=../old] [--seconds 2] [--rounds 3] [--only "fetch 64 KB"] [--no-profile]

Every tree runs its own broker (`--tree NAME=PATH`, repeatable, with its kernel built in place), in turn, under the raw load generator.  Told are
the processor time of a request, the median of the rounds, and which share of it was spent in which module with what it
called: samples of the broker's stack by py-spy (`pip install py-spy`), taken in a run of its own.  A sample counts for the
innermost module of tidelog on the stack, so system calls count for whoever made them.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from suite.drivers.build import program, run_command
from suite.systems.tidelog import Tidelog
from suite.wire import create

HERE = Path(__file__).resolve().parents[1]
PARTITIONS = 2
STOCK = ("produce", 4, 5, 65_536, 1.0)
SHOWN = 7
SAMPLES_A_SECOND = 500

# name: (what, connections, requests in flight on each, bytes)
CASES = {
    "produce tiny, pipelined": ("produce", 4, 200, 100),
    "produce tiny, one in flight": ("produce", 8, 1, 100),
    "produce 16 KB": ("produce", 4, 8, 16_384),
    "produce 64 KB": ("produce", 4, 5, 65_536),
    "fetch a batch": ("fetch", 8, 1, 200),
    "fetch 64 KB": ("fetch", 8, 1, 1 << 16),
    "fetch 1 MB": ("fetch", 8, 1, 1 << 20),
}
LAST = 5000
"""Fetches begin at offsets below it, which the stock has."""


class Tree(Tidelog):
    """A broker with the code of a tree."""

    def __init__(self, name: str, path: Path) -> None:
        super().__init__()
        self.name = name
        self.path = path

    def command(self) -> list[str]:
        data = str(self.directory / "data")
        return [sys.executable, "-m", "tidelog", "serve", "--port", str(self.port), "--data", data]

    def environment(self) -> dict[str, str]:
        return super().environment() | {"PYTHONPATH": str(self.path / "src")}

    @contextmanager
    def stocked(self, case: str) -> Iterator[str]:
        """A fresh broker, with a topic that has something to fetch where that is asked for."""
        with (
            tempfile.TemporaryDirectory(prefix="bench-") as directory,
            self.running(Path(directory)),
        ):
            create(self.port, "t", PARTITIONS)
            if CASES[case][0] == "fetch":
                self.load("t", STOCK)
            self.load("t", (*CASES[case], 0.3))  # warm
            yield "t"

    def load(self, topic: str, how: tuple[object, ...]) -> dict[str, float]:
        what, connections, in_flight, size, seconds = how
        where = [topic, PARTITIONS, connections, in_flight, size, seconds]
        more = [LAST] if what == "fetch" else []
        command = [program("raw"), what, "127.0.0.1", self.port, *where, *more]
        found: dict[str, float] = run_command([*map(str, command)])
        return found


def cost_us(tree: Tree, case: str, seconds: float) -> float:
    """Processor time of the broker for one request."""
    with tree.stocked(case) as topic, tree.busy() as used:
        found = tree.load(topic, (*CASES[case], seconds))
    return used.cpu_s / (found["requests_per_s"] * seconds) * 1e6


def profile(tree: Tree, case: str, seconds: float) -> Counter[str]:
    """Samples by module."""
    with tree.stocked(case) as topic, tempfile.TemporaryDirectory() as directory:
        kept = Path(directory) / "stacks"
        command = ["py-spy", "record", "--format", "raw", "--output", str(kept), "--nonblocking"]
        command += ["--rate", str(SAMPLES_A_SECOND), "--duration", str(int(seconds) or 1)]
        assert tree.process is not None
        beside = Path(sys.executable).parent
        environment = os.environ | {"PATH": f"{beside}{os.pathsep}{os.environ['PATH']}"}
        with subprocess.Popen(
            [*command, "--pid", str(tree.process.pid)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
        ) as spy:
            tree.load(topic, (*CASES[case], seconds + 0.5))
            spy.wait(30)
        found: Counter[str] = Counter()
        for line in kept.read_text().splitlines():
            stack, _, count = line.rpartition(" ")
            if count.isdecimal():  # a stack that changed while it was read may be anything
                found[_place(stack)] += int(count)
    return found


def _place(stack: str) -> str:
    """The innermost module of tidelog on a stack; what has none below the command that runs the loop is the loop's own."""
    for frame in reversed(stack.split(";")):
        where = frame.partition("(")[2].partition(":")[0]
        if "tidelog/" in where and "/cli/" not in where and "__main__" not in where:
            return where.rpartition("tidelog/")[2]
    return "the event loop"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tree", action="append", default=[], metavar="NAME=PATH")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="part of a case's name")
    parser.add_argument("--no-profile", action="store_true")
    options = parser.parse_args()
    trees = []
    for each in options.tree:
        name, _, path = each.partition("=")
        trees.append(Tree(name, Path(path).resolve()))
    trees.append(Tree("now", HERE))
    for case in CASES:
        if options.only not in case:
            continue
        costs = {tree.name: [] for tree in trees}  # type: dict[str, list[float]]
        for _ in range(options.rounds):
            for tree in trees:
                costs[tree.name].append(cost_us(tree, case, options.seconds))
        told = "   ".join(
            f"{name} {statistics.median(all_):.1f} us" for name, all_ in costs.items()
        )
        print(f"{case}: {told}", flush=True)
        for tree in trees if not options.no_profile else ():
            found = profile(tree, case, options.seconds)
            total = sum(found.values()) or 1
            shares = (f"{name} {count / total:.0%}" for name, count in found.most_common(SHOWN))
            print(f"    {tree.name}: {', '.join(shares)}", flush=True)


if __name__ == "__main__":
    main()
