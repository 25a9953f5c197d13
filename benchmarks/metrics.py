"""What the metrics cost: counting and measuring under load, and a scrape of many partitions.

    python benchmarks/metrics.py [--against REVISION] [--rounds 10] [--partitions 10000] [--only load|instructions|scrape]

Two brokers run side by side and get the same load in turn, A B A B; what is compared is the processor time of a request, and
the median of the ratios counts.  A is this tree with `--metrics off`, B has them on and is scraped every second.  With
--against, A is an earlier revision, one from before there were metrics for instance: so counting itself is seen, which
cannot be switched off.

With --only instructions no time is measured at all: valgrind counts the instructions of a small produce request, which no other process
disturbs; the kernel's are not among them.  Counts of two runs differ by one percent.

A scrape of many partitions must not hold up the loop: the longest pause of the loop while nothing happens is shown beside the
longest one during scrapes.
"""

import argparse
import asyncio
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import broker as loads

from tidelog.broker.broker import Broker
from tidelog.broker.settings import BrokerSettings
from tidelog.testing.local_broker import LocalBroker

REPOSITORY = Path(__file__).resolve().parents[1]
NAMES = ("produce tiny, pipelined", "produce tiny, one in flight", "produce 16 KB")
FETCHES = ("fetch one small batch", "fetch 64 KB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", help="a revision to compare with")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=1.0, help="of a load")
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--only", default="", help="load, instructions or scrape")
    options = parser.parse_args()
    if options.only in "load":
        with source_of(options.against) as source:
            load(source, options.rounds, options.seconds)
    if options.only == "instructions" and options.against:
        with source_of(options.against) as source:
            instructions(source.parent)
    if options.only in "scrape":
        asyncio.run(scrape(options.partitions))


@contextlib.contextmanager
def source_of(revision: str | None) -> Iterator[Path]:
    """The sources of a revision, with its own kernel compiled."""
    if revision is None:
        yield REPOSITORY / "src"
        return
    with tempfile.TemporaryDirectory() as directory:
        tree = Path(directory) / "tree"
        git = ["git", "-C", str(REPOSITORY), "worktree"]
        subprocess.run([*git, "add", "-q", "--detach", str(tree), revision], check=True)
        try:
            build = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
            subprocess.run(build, cwd=tree, check=True, capture_output=True)
            yield tree / "src"
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


class Plain(LocalBroker):
    """A broker of other sources, which may not know our options."""

    def command(self) -> list[str]:
        command = super().command()
        if "tidelog/broker/metrics" not in self.environment.get("HAS", ""):
            at = command.index("--metrics")
            del command[at : at + 2]
        return command


def load(source: Path, rounds: int, seconds: float) -> None:
    has = "tidelog/broker/metrics" if (source / "tidelog/broker/metrics").exists() else ""
    old = {"PYTHONPATH": str(source), "HAS": has}
    new = {"PYTHONPATH": str(REPOSITORY / "src")}
    with (
        Plain(environment=old) as a,
        LocalBroker(environment=new, settings={"metrics.listener": "127.0.0.1:0"}) as b,
        scraped(b),
    ):
        for names, run in ((NAMES, loads.produce), (FETCHES, loads.fetch)):
            for name in names:
                compare(name, run, a, b, rounds, seconds)


def instructions(tree: Path) -> None:
    """Of one request, by the difference between runs of many and of few."""
    for name, each in (("A", tree), ("B", REPOSITORY)):
        few = counted(each, 1000, 10)
        served = (counted(each, 3000, 10) - few) / 2000
        received = (counted(each, 1000, 2010) - few) / 2000
        print(
            f"{name}  dispatcher {served:,.0f}   connection {received:,.0f} instructions a request"
        )


def counted(tree: Path, served: int, received: int) -> int:
    valgrind = [
        "valgrind",
        "--tool=cachegrind",
        "--cache-sim=no",
        "--cachegrind-out-file=/dev/null",
    ]
    script = REPOSITORY / "benchmarks" / "suite" / "drivers" / "one_request.py"
    command = [*valgrind, sys.executable, str(script), str(tree), str(served), str(received)]
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": ""}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    line = next(each for each in done.stderr.splitlines() if "refs:" in each)
    return int(line.partition("refs:")[2].replace(",", ""))


def compare(name, run, a: LocalBroker, b: LocalBroker, rounds: int, seconds: float) -> None:
    ratios, figures = [], []
    create, loads.create = loads.create, lambda *_: None
    for each in (a, b):
        _, in_flight, size = (loads.PRODUCE | loads.FETCH)[name]
        create(each.port, f"p{size}x{in_flight}" if name in loads.PRODUCE else f"f{in_flight}")
    for turn in range(rounds):
        pair = [run(each, name, seconds)["cpu_us"] for each in ((a, b) if turn % 2 else (b, a))]
        one, other = pair if turn % 2 else pair[::-1]
        ratios.append(other / one)
        figures.append((one, other))
    loads.create = create
    print(
        f"{name:30} A {statistics.median(f[0] for f in figures):8.2f} us"
        f"   B {statistics.median(f[1] for f in figures):8.2f} us"
        f"   B/A {statistics.median(ratios):.4f}"
        f"   (quartiles {', '.join(f'{q:.4f}' for q in statistics.quantiles(ratios, n=4))})",
        flush=True,
    )


@contextlib.contextmanager
def scraped(broker: LocalBroker) -> Iterator[None]:
    """Somebody looks at the metrics every second."""
    while (
        "/metrics" not in broker.log()
    ):  # it is printed after the broker has said that it is ready
        time.sleep(0.01)
    address = next(each for each in broker.log().split() if each.endswith("/metrics"))
    done = threading.Event()

    def look() -> None:
        while not done.wait(1.0):
            with urllib.request.urlopen(address, timeout=60) as answer:
                answer.read()

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


async def scrape(count: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        given = {
            "log.dirs": directory,
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "metrics.listener": "127.0.0.1:0",
            "num.partitions": str(count),
        }
        broker = Broker(BrokerSettings.load(given))
        await broker.start()
        try:
            await asyncio.to_thread(create_many, broker.addresses[0].port, count)
            url = f"http://{broker.monitoring.address}/metrics"
            await asyncio.to_thread(fetched, url)  # imports
            print(f"\nscrape of {count:,} partitions")
            print(
                f"  longest pause, nothing happens   {await longest_pause(asyncio.sleep(3)):6.1f} ms"
            )
            for _ in range(5):
                cpu, start = time.thread_time(), time.monotonic()
                asking = asyncio.to_thread(fetched, url)
                pause = await longest_pause(asking)
                print(
                    f"  longest pause, during a scrape   {pause:6.1f} ms"
                    f"   scrape {time.monotonic() - start:.2f} s"
                    f"   processor {time.thread_time() - cpu:.2f} s   {SIZE[0]:,} bytes"
                )
        finally:
            await broker.stop()


SIZE = [0]


def fetched(url: str) -> None:
    with urllib.request.urlopen(url, timeout=60) as answer:
        SIZE[0] = len(answer.read())


async def longest_pause(work) -> float:
    """Milliseconds of processor time that the loop's thread used without coming round, while `work` was done.

    By the clock on the wall other processes would be seen: they take the processor for longer than that.
    """
    longest, task = 0.0, asyncio.ensure_future(work)
    while not task.done():
        before = time.thread_time()
        await asyncio.sleep(0)
        longest = max(longest, time.thread_time() - before)
    await task
    return longest * 1000


def create_many(port: int, count: int) -> None:
    new = loads.CreatableTopic(name="many", num_partitions=count, replication_factor=1)
    request = loads.CreateTopicsRequest(topics=[new], timeout_ms=60_000)
    answer = loads.Wire(port).ask(request, 5)
    assert answer.topics[0].error_code == 0, answer


if __name__ == "__main__":
    os.environ.pop("HAS", None)
    main()
