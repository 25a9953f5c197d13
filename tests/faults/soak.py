"""Transactions by the thousand on three real brokers, with our client and with Java's, without faults and with them.

    python tests/faults/soak.py --transactions 20000 --seed 7
    python tests/faults/soak.py --transactions 5000 --clients tidelog --runs calm

A run is `calm`, or brokers are killed (`kills`), or stand still for some seconds (`stops`).  Every run has brokers of its own and several producers at once, each with its transactional id (`soak_client.py`,
`../compat/java/Soak.java`).  One that takes no step for a minute has hung, and the run fails.  At the end the topic is
read with `read_committed`: a committed transaction is there once and whole, an aborted one not at all, one whose outcome its
producer never heard of is whole or not there; and each producer's group has the offset of the last committed one.
"""

import argparse
import os
import random
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "compat")]

from java_client import JavaUnavailable, java  # noqa: E402
from soak_client import OFFSETS_EVERY, PARTITIONS, RECORDS, TOPIC  # noqa: E402

from tidelog import Admin, TopicPartition, read  # noqa: E402
from tidelog.errors import TidelogError  # noqa: E402
from tidelog.testing.local_cluster import LocalCluster  # noqa: E402

CLIENTS = ("tidelog", "java")
RUNS = ("calm", "kills", "stops")
PRODUCERS = 8
BROKERS = 3
JAVA_VERSION = "4.1.0"
STALLED_S = 60.0
"""A producer that ends no transaction for so long has hung; a broker that dies costs a few seconds."""
SETTINGS = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "default.replication.factor": str(BROKERS),
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "6",
    "transaction.state.log.num.partitions": "6",
    "replica.lag.time.max.ms": "5000",
}


class Ended(NamedTuple):
    """How one transaction ended, as its producer has told."""

    name: str
    number: int
    outcome: str
    taken_ms: float


class Result(NamedTuple):
    """What a run came to."""

    client: str
    run: str
    ended: list[Ended]
    seconds: float
    faults: int
    wrong: list[str]

    def __str__(self) -> str:
        counts = Counter(each.outcome for each in self.ended)
        taken = sorted(each.taken_ms for each in self.ended) or [0.0]
        told = ", ".join(f"{counts[each]} {each}" for each in ("committed", "aborted", "unknown"))
        return (
            f"{self.client:8} {self.run:6} {len(self.ended):6} transactions ({told}), {self.faults} faults, "
            f"{self.seconds:.1f} s, {len(self.ended) / self.seconds:.0f}/s; "
            f"median {statistics.median(taken):.0f} ms, "
            f"p99 {taken[int(len(taken) * 0.99)]:.0f} ms, longest {taken[-1]:.0f} ms"
        )


class Producers:
    """A child process with several transactional producers, and what it has told so far."""

    def __init__(self, command: list[str], directory: Path) -> None:
        self.ended: list[Ended] = []
        self._steps: dict[str, float] = {}
        """By transactional id: when it last ended a transaction."""
        self._errors = directory / "client.log"
        with open(self._errors, "wb") as errors:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def is_over(self) -> bool:
        return not self._reader.is_alive()

    def wait(self, timeout_s: float) -> None:
        """Return when it is over, or after a while."""
        self._reader.join(timeout_s)

    def stalled(self, names: list[str], since: float) -> list[str]:
        """Which of them have not taken a step for too long."""
        now = time.monotonic()
        return [each for each in names if now - self._steps.get(each, since) > STALLED_S]

    def finish(self, wanted: int) -> list[str]:
        """What is wrong with how it ended."""
        self._process.kill()
        code = self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()
        if len(self.ended) == wanted:
            return []
        return [
            f"the producers ended with code {code} after {len(self.ended)} of {wanted} transactions:\n"
            + self._errors.read_text(errors="replace")[-2000:]
        ]

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            name, number, outcome, taken_ms = line.decode().split()
            self.ended.append(Ended(name, int(number), outcome, float(taken_ms)))
            self._steps[name] = time.monotonic()


class Nemesis(threading.Thread):
    """Kills one broker after the other and starts it again, or makes it stand still for longer than its session."""

    def __init__(self, cluster: LocalCluster, kind: str, seed: int) -> None:
        super().__init__(daemon=True)
        self._cluster = cluster
        self._kind = kind
        self._random = random.Random(seed)
        self._end = threading.Event()
        self.faults = 0

    def run(self) -> None:
        while self._kind != "calm" and not self._end.wait(self._random.uniform(1, 4)):
            victim = self._random.choice(self._cluster.brokers)
            self.faults += 1
            if self._kind == "kills":
                victim.kill()
                self._end.wait(self._random.uniform(0.2, 4))
                victim.start()
            else:
                os.kill(victim.pid, signal.SIGSTOP)
                self._end.wait(self._random.uniform(4, 8))
                os.kill(victim.pid, signal.SIGCONT)
            self._until_whole()

    def stop(self) -> None:
        self._end.set()
        self.join()

    def _until_whole(self) -> None:
        """The next one is killed when the last is in sync: two at once would be another fault."""
        while not self._end.wait(0.3):
            try:
                with Admin(bootstrap_servers=self._cluster.bootstrap) as admin:
                    states = admin.describe_topics([TOPIC])[TOPIC].partitions
                if all(len(each.isr) == BROKERS for each in states):
                    return
            except TidelogError:
                continue


def run(client: str, kind: str, transactions: int, seed: int, producers: int = PRODUCERS) -> Result:
    """One run on brokers of its own."""
    each = -(-transactions // producers)
    names = [f"{client}-{number}" for number in range(producers)]
    with LocalCluster(BROKERS, settings=SETTINGS) as cluster:
        with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            admin.create_topics({TOPIC: PARTITIONS}, replication_factor=BROKERS)
        command = _command(client, cluster.bootstrap, producers, each, seed)
        began = time.monotonic()
        children = Producers(command, cluster.directory)
        nemesis = Nemesis(cluster, kind, seed)
        nemesis.start()
        wrong = _watch(children, names, each)
        seconds = time.monotonic() - began
        nemesis.stop()
        wrong += children.finish(each * producers)
        wrong = wrong or _check(cluster.bootstrap, children.ended, names)
        if "Traceback" in cluster.log():
            wrong.append(cluster.log()[-6000:])
        return Result(client, kind, children.ended, seconds, nemesis.faults, wrong)


def _watch(children: Producers, names: list[str], each: int) -> list[str]:
    """Wait until all have ended their transactions, or one of them has hung."""
    began = time.monotonic()
    while not children.is_over:
        children.wait(1.0)
        done = Counter(every.name for every in children.ended)
        going = [name for name in names if done[name] < each]
        if hung := children.stalled(going, began):
            return [f"{name} has hung after {done[name]} transactions" for name in hung]
    return []


def _command(client: str, bootstrap: str, producers: int, each: int, seed: int) -> list[str]:
    arguments = [bootstrap, client, str(producers), str(each), str(seed)]
    if client == "java":
        return [*java(JAVA_VERSION), "Soak", *arguments]
    return [sys.executable, str(HERE / "soak_client.py"), *arguments]


def _check(bootstrap: str, ended: list[Ended], names: list[str]) -> list[str]:
    """What readers of committed records must not see, and what they must."""
    if open_ones := _still_open(bootstrap):
        return [f"these transactions never came to their end: {', '.join(open_ones)}"]
    table = read(TOPIC, bootstrap=bootstrap, isolation="read_committed", columns=["value"])
    seen: dict[tuple[str, int], Counter[str]] = {}
    for value in table["value"].to_pylist():
        name, number, record = value.decode().split("/")
        seen.setdefault((name, int(number)), Counter())[record] += 1
    whole = Counter({str(record): 1 for record in range(RECORDS)})
    nothing: Counter[str] = Counter()
    allowed = {"committed": (whole,), "aborted": (nothing,), "unknown": (whole, nothing)}
    wrong = [
        f"{each.name}/{each.number} was {each.outcome}, and {dict(found)} are seen of it"
        for each in ended
        if (found := seen.get((each.name, each.number), nothing)) not in allowed[each.outcome]
    ]
    with Admin(bootstrap_servers=bootstrap) as admin:
        for name in names:
            offsets = admin.group_offsets(name)
            found = offsets.get(TopicPartition(TOPIC, 0))
            offset = 0 if found is None else found.offset
            wrong += _check_offset(name, offset, ended)
    return wrong


def _still_open(bootstrap: str) -> list[str]:
    """Ids whose transaction is not complete: a commit is certain before its last marker is written."""
    deadline = time.monotonic() + STALLED_S
    with Admin(bootstrap_servers=bootstrap) as admin:
        while True:
            listed = admin.list_transactions(states=["Ongoing", "PrepareCommit", "PrepareAbort"])
            if not listed or time.monotonic() > deadline:
                return [each.transactional_id for each in listed]
            time.sleep(0.1)


def _check_offset(name: str, offset: int, ended: list[Ended]) -> list[str]:
    with_offsets = [each for each in ended if each.name == name and not each.number % OFFSETS_EVERY]
    certain = max(
        (each.number + 1 for each in with_offsets if each.outcome == "committed"), default=0
    )
    possible = {each.number + 1 for each in with_offsets if each.outcome == "unknown"} | {certain}
    if offset in possible and offset >= certain:
        return []
    return [f"the group of {name} has offset {offset}, its last committed one is {certain}"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--transactions", type=int, default=20_000, help="of all runs together")
    parser.add_argument("--clients", default=",".join(CLIENTS))
    parser.add_argument("--runs", default=",".join(RUNS))
    parser.add_argument("--producers", type=int, default=PRODUCERS)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    chosen = [(c, k) for c in options.clients.split(",") for k in options.runs.split(",")]
    print(f"{options.transactions} transactions, seed {options.seed}", flush=True)
    failed = False
    for client, kind in chosen:
        count = options.transactions // len(chosen)
        try:
            result = run(client, kind, count, options.seed, options.producers)
        except JavaUnavailable as error:
            print(f"{client:8} {kind:6} skipped: {error}", flush=True)
            continue
        print(result, flush=True)
        print(
            "\n".join(result.wrong[:20]) or "         each committed once, none aborted seen",
            flush=True,
        )
        failed = failed or bool(result.wrong)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
