"""Chaos on real processes: three brokers, five kinds of clients, faults in random order, and the books at the end.

    python tests/faults/chaos.py --metastore zookeeper --seconds 600 --seed 7

Every client writes numbers with acks=all and idempotence to a topic of its own (three replicas, min.insync.replicas=2) and
reads them with a group, in a process of its own; `transactional` is our client with transactions, whose aborted numbers nobody may
see.  A prober writes to every partition of another topic all the time: a fault is
over for it when all of them have acknowledged something that was sent after the fault began.  At the end every topic is
read from its beginning and held against what the producers were acknowledged.

The result goes to `tests/faults/results/chaos-<metastore>.json`, and all results there to docs/reliability.md.
"""

import argparse
import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "contracts")]

from chaos_report import write_report  # noqa: E402
from thread_proxy import ThreadProxy  # noqa: E402
from zookeeper import ZooKeeper  # noqa: E402

from tidelog import Admin, Producer, read  # noqa: E402
from tidelog.errors import TidelogError  # noqa: E402
from tidelog.testing.local_broker import BrokerDidNotStart, LocalBroker  # noqa: E402

CLIENTS = ["confluent", "aiokafka", "kafka-python", "tidelog", "transactional"]
BROKERS = 3
PARTITIONS = 6
PROBE = "probe"
SESSION_MS = 3_000
SETTINGS = {
    "broker.session.timeout.ms": str(SESSION_MS),
    "broker.heartbeat.interval.ms": "500",
    "min.insync.replicas": "2",
    "default.replication.factor": "3",
    "offsets.topic.num.partitions": "6",
    "transaction.state.log.num.partitions": "6",
    "replica.lag.time.max.ms": "5000",
    "log.cleaner.enable": "false",
}
PATIENCE_S = 120.0
_MENDED_AFTER_S = 30.0
"""A fault that some partition does not get over by itself is mended after so long: a leader whom the others cannot reach keeps
leading as long as it reaches the metastore, and acks=all has to wait."""
DISK_BYTES = 256 * 1024 * 1024
_OTHER_SETTINGS = (
    ("min.insync.replicas", ("1", "2", "3")),
    ("replica.lag.time.max.ms", ("2000", "30000")),
    ("log.segment.bytes", ("1048576", "1073741824")),
    ("num.replica.fetchers", ("1", "2")),
)
"""What one broker may have otherwise than the others."""


class ChaosBroker(LocalBroker):
    """A broker whose talk with the others passes a proxy that can be hurt."""

    def __init__(self, number: int, directory: Path, metastore: str) -> None:
        super().__init__(directory, port=_free_port(), start_timeout_s=PATIENCE_S)
        self.number = number
        self._internal_port = _free_port()
        self.proxy = ThreadProxy(self._internal_port)
        self._metastore = metastore
        self.second: Path | None = None
        """Another log directory, if it has one."""
        self.settings: dict[str, str] = {}
        """What it has otherwise than the others."""

    def command(self) -> list[str]:
        inner, outer = f"127.0.0.1:{self._internal_port}", f"127.0.0.1:{self.port}"
        settings = SETTINGS | {
            "listeners": f"INTERNAL://{inner},PLAINTEXT://{outer}",
            "advertised.listeners": f"INTERNAL://{self.proxy.address},PLAINTEXT://{outer}",
            "listener.security.protocol.map": "INTERNAL:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        }
        settings |= self.settings
        options = ["--data", str(self.data), "--broker-id", str(self.number)]
        if self.second is not None:
            options += ["--data", str(self.second)]
        options += ["--metastore", self._metastore]
        for name, value in settings.items():
            options += ["-X", f"{name}={value}"]
        return [sys.executable, "-m", "tidelog", "serve", *options]

    def _wait_until_ready(self, ready: Path) -> int:
        super()._wait_until_ready(ready)
        return self.port

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)


@dataclass
class Fault:
    """One fault, as it went."""

    kind: str
    target: str
    began_s: float
    recovered_s: float = -1.0
    """From its beginning until every partition acknowledged what was sent since; -1 if that did not come in time."""
    whole_s: float = -1.0
    """Until all replicas were in sync again."""
    marks: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By client: lines of its journal at the beginning and at the end."""
    books: dict[str, int] = field(default_factory=dict)


class Prober:
    """Writes to each partition of a topic without pause, and remembers when what was acknowledged had been sent."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._sent_at = [0.0] * PARTITIONS
        self._changed = threading.Condition()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def recovered(self, since: float, timeout_s: float) -> bool:
        """Wait until all partitions have acknowledged something that was sent after `since`."""
        with self._changed:
            return self._changed.wait_for(lambda: min(self._sent_at) > since, timeout_s)

    def close(self) -> None:
        self._end.set()
        self._thread.join(PATIENCE_S)

    def _run(self) -> None:
        with Producer(bootstrap_servers=self._bootstrap, linger_ms=0) as producer:
            while not self._end.is_set():
                now = time.monotonic()
                for partition in range(PARTITIONS):
                    with contextlib.suppress(TidelogError):
                        delivery = producer.send(PROBE, b"?", partition=partition)
                        delivery.add_done_callback(
                            lambda done, partition=partition, now=now: self._done(
                                done, partition, now
                            )
                        )
                time.sleep(0.05)

    def _done(self, done: Any, partition: int, sent_at: float) -> None:
        if done.exception() is None:
            with self._changed:
                self._sent_at[partition] = max(self._sent_at[partition], sent_at)
                self._changed.notify_all()


class Chaos:
    """The cluster, its clients and what is done to them."""

    def __init__(self, directory: Path, metastore: str, seed: int, shortest: bool) -> None:
        self.directory = directory
        self.random = random.Random(seed)
        self.shortest = shortest
        """Whether faults are as short as they can be, for a run of seconds."""
        self.zookeeper: ZooKeeper | None = None
        self.kind = metastore
        if metastore == "zookeeper":
            (directory / "zookeeper").mkdir()
            self.zookeeper = ZooKeeper(directory / "zookeeper", servers=3)
            self.zookeeper.__enter__()
            address = self.zookeeper.address
        else:
            address = f"sqlite:{directory / 'metadata.db'}"
        self.brokers = [
            ChaosBroker(number, directory / f"broker-{number}", address)
            for number in range(BROKERS)
        ]
        self.full_disk = self._mount_small_disk(self.brokers[-1].data)
        self.brokers[0].second = self._mount_small_disk(directory / "second-of-broker-0")
        self.faults: list[Fault] = []
        self._children: list[subprocess.Popen[bytes]] = []
        self._end = directory / "end"
        self._began = time.monotonic()

    @property
    def bootstrap(self) -> str:
        return ",".join(each.bootstrap for each in self.brokers)

    # ------------------------------------------------------------------ life

    def start(self) -> None:
        threads = [threading.Thread(target=each.start) for each in self.brokers]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        with Admin(bootstrap_servers=self.bootstrap) as admin:
            topics = dict.fromkeys([PROBE, *CLIENTS], PARTITIONS)
            admin.create_topics(topics, replication_factor=BROKERS)
        for client in CLIENTS:
            for role in ("produce", "consume"):
                self._children.append(self._spawn(role, client))
        self.prober = Prober(self.bootstrap)
        assert self.prober.recovered(0.0, PATIENCE_S), "the cluster did not come up"
        # A client that begins while its first broker stands still may wait for that until all is over.
        deadline = time.monotonic() + PATIENCE_S
        while not all(map(self._lines, CLIENTS)):
            assert time.monotonic() < deadline, "a producer did not begin"
            time.sleep(0.1)
        self._began = time.monotonic()

    def _spawn(self, role: str, client: str) -> "subprocess.Popen[bytes]":
        command = [sys.executable, str(HERE / "chaos_client.py"), role, client, self.bootstrap]
        command += [client, str(self._journal(role, client)), str(self._end)]
        with open(self.directory / f"{role}-{client}.log", "ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log)

    def _journal(self, role: str, client: str) -> Path:
        return self.directory / f"{role}-{client}.txt"

    def finish(self) -> None:
        """Let the producers write out, and the groups read to the end."""
        self._end.touch()
        producers, consumers = self._children[::2], self._children[1::2]
        self._wait(producers, PATIENCE_S * 3)
        self.prober.close()
        # A rebalance may wait for a member that is gone for as long as max.poll.interval.ms, 300 s.
        deadline = time.monotonic() + PATIENCE_S * 3.5
        while any(map(self._unseen, CLIENTS)) and time.monotonic() < deadline:
            time.sleep(0.5)
        self._end.with_suffix(".read").touch()
        self._wait(consumers, PATIENCE_S)

    @staticmethod
    def _wait(children: "list[subprocess.Popen[bytes]]", timeout_s: float) -> None:
        for each in children:
            try:
                each.wait(timeout_s)
            except subprocess.TimeoutExpired:
                each.kill()

    def _unseen(self, client: str) -> set[int]:
        """What was acknowledged to a client, and its group has not seen."""
        acknowledged, seen = (
            {int(each) for each in path.read_text().splitlines() if each.isdigit()}
            for path in (self._journal("produce", client), self._journal("consume", client))
        )
        return acknowledged - seen

    def close(self) -> None:
        for each in self._children:
            if each.poll() is None:
                each.kill()
        for broker in self.brokers:
            with contextlib.suppress(ProcessLookupError, AssertionError):
                broker.signal(signal.SIGCONT)
            broker.kill()
            broker.proxy.close()
        if self.zookeeper is not None:
            self.zookeeper.__exit__(None, None, None)
        for mounted in (self.full_disk, self.brokers[0].second):
            if mounted is not None:
                subprocess.run(["umount", str(mounted)], check=False)

    def _mount_small_disk(self, directory: Path) -> Path | None:
        """A small file system, where that can be had."""
        directory.mkdir(parents=True)
        options = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "none", str(directory)]
        mounted = subprocess.run(options, check=False, capture_output=True)
        return directory if mounted.returncode == 0 else None

    # ------------------------------------------------------------------ faults

    def kinds(self) -> dict[str, Callable[[Fault], contextlib.AbstractContextManager[None]]]:
        kinds = {
            "kill -9": self._kill,
            "SIGTERM": self._terminate,
            "SIGSTOP": self._pause,
            "network cut": self._cut,
            "slow, lossy network": self._slow,
            "machine lost": self._lose_machine,
            "other settings": self._change_settings,
        }
        if self.full_disk is not None:
            kinds["disk full"] = self._fill_disk
        if self.brokers[0].second is not None:
            kinds["log directory read-only"] = self._make_read_only
        if self.zookeeper is not None:
            kinds["one ZooKeeper killed"] = self._kill_one_store
            kinds["all ZooKeepers away"] = self._kill_all_stores
        return kinds

    def strike(self, kind: str) -> Fault:
        """One fault from its beginning to full health."""
        fault = Fault(kind, "", round(time.monotonic() - self._began, 1))
        marks = {client: self._lines(client) for client in CLIENTS}
        began = time.monotonic()
        with self.kinds()[kind](fault):
            self._note_recovery(fault, began, _MENDED_AFTER_S)
        self._note_recovery(fault, began, PATIENCE_S)
        if self._until_whole():
            fault.whole_s = round(time.monotonic() - began, 2)
        fault.marks = {client: (marks[client], self._lines(client)) for client in CLIENTS}
        self.faults.append(fault)
        print(
            f"{fault.began_s:7.1f} s  {kind:22} {fault.target:24} "
            f"served again after {fault.recovered_s:6.2f} s, whole after {fault.whole_s:6.2f} s",
            flush=True,
        )
        return fault

    def _note_recovery(self, fault: Fault, began: float, timeout_s: float) -> None:
        if fault.recovered_s < 0 and self.prober.recovered(began, timeout_s):
            fault.recovered_s = round(time.monotonic() - began, 2)

    def _lines(self, client: str) -> int:
        path = self._journal("produce", client)
        return path.read_bytes().count(b"\n") if path.exists() else 0

    def _seconds(self, low: float, high: float) -> float:
        return low if self.shortest else self.random.uniform(low, high)

    def _victim(self, fault: Fault) -> ChaosBroker:
        """The leader of a partition, one of its followers, or the controller."""
        role = self.random.choice(["leader", "follower", "controller"])
        with Admin(bootstrap_servers=self.bootstrap) as admin:
            if role == "controller":
                number = admin.describe_cluster().controller
            else:
                partitions = admin.describe_topics([PROBE])[PROBE].partitions
                state = self.random.choice(list(partitions))
                others = [each for each in state.replicas if each != state.leader]
                number = state.leader if role == "leader" else self.random.choice(others)
        fault.target = f"{role} (broker {number})"
        return self.brokers[max(number, 0)]

    @contextlib.contextmanager
    def _kill(self, fault: Fault) -> Iterator[None]:
        victim = self._victim(fault)
        victim.kill()
        yield
        time.sleep(self._seconds(0.5, 5))
        self._start(victim)

    @contextlib.contextmanager
    def _terminate(self, fault: Fault) -> Iterator[None]:
        victim = self._victim(fault)
        victim.stop(PATIENCE_S)
        yield
        time.sleep(self._seconds(0.5, 3))
        self._start(victim)

    @contextlib.contextmanager
    def _lose_machine(self, fault: Fault) -> Iterator[None]:
        """Two brokers at once: what is left is fewer than min.insync.replicas, and takes no writes."""
        lost = self.random.sample(self.brokers, 2)
        fault.target = " and ".join(f"broker {each.number}" for each in lost)
        for each in lost:
            each.kill()
        time.sleep(self._seconds(0.5, 5))
        for each in lost:
            self._start(each)
        yield

    @contextlib.contextmanager
    def _change_settings(self, fault: Fault) -> Iterator[None]:
        """A broker is started again with a setting that the others do not have, and goes on with it."""
        victim = self._victim(fault)
        name, values = self.random.choice(_OTHER_SETTINGS)
        victim.settings[name] = self.random.choice(values)
        fault.target += f": {name}={victim.settings[name]}"
        victim.stop(PATIENCE_S)
        self._start(victim)
        yield

    @contextlib.contextmanager
    def _make_read_only(self, fault: Fault) -> Iterator[None]:
        """A broker comes back, and one of its log directories is mounted read-only; then that is mended."""
        victim = self.brokers[0]
        assert victim.second is not None
        fault.target = "second of broker 0"
        victim.kill()
        _remount(victim.second, "ro")
        self._start(victim)
        yield
        time.sleep(self._seconds(0.5, 5))
        victim.kill()
        _remount(victim.second, "rw")
        self._start(victim)

    @contextlib.contextmanager
    def _pause(self, fault: Fault) -> Iterator[None]:
        victim = self._victim(fault)
        victim.signal(signal.SIGSTOP)
        until = time.monotonic() + self._seconds(5, 30)
        try:
            yield
            time.sleep(max(until - time.monotonic(), 0))
        finally:
            victim.signal(signal.SIGCONT)

    @contextlib.contextmanager
    def _cut(self, fault: Fault) -> Iterator[None]:
        victim = self._victim(fault)
        victim.proxy.cut()
        until = time.monotonic() + self._seconds(6, 15)
        try:
            yield
            time.sleep(max(until - time.monotonic(), 0))
        finally:
            victim.proxy.mend()

    @contextlib.contextmanager
    def _slow(self, fault: Fault) -> Iterator[None]:
        victim = self._victim(fault)
        victim.proxy.slow(delay_s=0.15, breaks=0.02, chance=self.random)
        until = time.monotonic() + self._seconds(4, 15)
        try:
            yield
            time.sleep(max(until - time.monotonic(), 0))
        finally:
            victim.proxy.mend()

    @contextlib.contextmanager
    def _fill_disk(self, fault: Fault) -> Iterator[None]:
        assert self.full_disk is not None
        fault.target = f"broker {BROKERS - 1}"
        filler = self.full_disk / "filler"
        with contextlib.suppress(OSError), open(filler, "wb") as file:
            while True:
                file.write(bytes(1 << 20))
        yield
        time.sleep(self._seconds(1, 5))
        victim = self.brokers[-1]
        victim.kill()
        filler.unlink()
        self._start(victim)

    @contextlib.contextmanager
    def _kill_one_store(self, fault: Fault) -> Iterator[None]:
        assert self.zookeeper is not None
        number = self.random.randrange(3)
        fault.target = f"server {number + 1}"
        server = self.zookeeper.servers[number]
        server.kill()
        yield
        time.sleep(self._seconds(1, 8))
        server.start()

    @contextlib.contextmanager
    def _kill_all_stores(self, fault: Fault) -> Iterator[None]:
        assert self.zookeeper is not None
        fault.target = "all three"
        for server in self.zookeeper.servers:
            server.kill()
        until = time.monotonic() + self._seconds(6, 20)
        yield  # the brokers go on with what they lead
        time.sleep(max(until - time.monotonic(), 0))
        for server in self.zookeeper.servers:
            server.start()

    def _start(self, broker: ChaosBroker) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                broker.start()
                return
            except BrokerDidNotStart:
                if time.monotonic() > deadline:
                    raise

    def _until_whole(self) -> bool:
        """Wait until every replica is in sync."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            with contextlib.suppress(TidelogError):
                with Admin(bootstrap_servers=self.bootstrap) as admin:
                    topics = admin.describe_topics([PROBE, *CLIENTS]).values()
                if all(len(each.isr) == BROKERS for topic in topics for each in topic.partitions):
                    return True
            time.sleep(0.3)
        return False

    # ------------------------------------------------------------------ the books

    def books(self) -> dict[str, dict[str, int]]:
        """By client: what was acknowledged and what came of it."""
        return {client: self._book(client) for client in CLIENTS}

    def _book(self, client: str) -> dict[str, int]:
        lines = self._journal("produce", client).read_text().splitlines()
        acknowledged = [int(each) for each in lines if each.isdigit()]
        aborted = [int(each[2:]) for each in lines if each.startswith("- ")]
        columns = ["partition", "offset", "value"]
        table = read(client, bootstrap=self.bootstrap, isolation="read_committed", columns=columns)
        rows = sorted(
            zip(
                table["partition"].to_pylist(),
                table["offset"].to_pylist(),
                map(int, table["value"].to_pylist()),
                strict=True,
            )
        )
        times = Counter(number for _, _, number in rows)
        lost = [each for each in acknowledged if each not in times]
        repeated = [number for number, count in times.items() if count > 1]
        backwards = [
            later[2]
            for earlier, later in pairwise(rows)
            if earlier[0] == later[0] and later[2] < earlier[2]
        ]
        for fault in self.faults:
            first, last = fault.marks[client]
            during = {int(each) for each in lines[first:last] if each.isdigit()}
            _add(fault.books, "acknowledged", len(during))
            _add(fault.books, "lost", len(during.intersection(lost)))
            _add(fault.books, "duplicated", len(during.intersection(repeated)))
            _add(fault.books, "reordered", len(during.intersection(backwards)))
        return {
            "acknowledged": len(acknowledged),
            "not acknowledged": len(lines) - len(acknowledged) - len(aborted),
            "aborted": len(aborted),
            "aborted and seen": sum(each in times for each in aborted),
            "lost": len(lost),
            "duplicated": len(repeated),
            "reordered": len(backwards),
            "unseen by its group": len(self._unseen(client)),
        }


def run(metastore: str, seconds: float, seed: int, *, shortest: bool, once: bool) -> dict[str, Any]:
    """Chaos for so long, or with `once` until every kind of fault has struck; the result as it is reported."""
    with tempfile.TemporaryDirectory(prefix="tidelog-chaos-") as directory:
        chaos = Chaos(Path(directory), metastore, seed, shortest)
        try:
            chaos.start()
            began = time.monotonic()
            kinds = list(chaos.kinds())
            while once or time.monotonic() - began < seconds:
                chaos.random.shuffle(kinds)
                for kind in kinds:
                    if once or time.monotonic() - began < seconds:
                        chaos.strike(kind)
                if once:
                    break
            chaos.finish()
            books = chaos.books()
            logs = "\n".join(each.log() for each in chaos.brokers)
        except BaseException:
            for each in chaos.brokers:
                print(f"--- {each.directory.name}\n{each.log()[-3000:]}", file=sys.stderr)
            raise
        finally:
            chaos.close()
        return {
            "metastore": metastore,
            "seed": seed,
            "seconds": round(time.monotonic() - began),
            "session timeout ms": SESSION_MS,
            "clients": books,
            "faults": [asdict(each) for each in chaos.faults],
            "tracebacks": _tracebacks(logs),
        }


def bad(result: dict[str, Any]) -> list[str]:
    """What must not have happened."""
    wrong = []
    for client, book in result["clients"].items():
        for name in ("lost", "duplicated", "reordered", "aborted and seen", "unseen by its group"):
            if book[name]:
                wrong.append(f"{client}: {book[name]} {name}")
        if not book["acknowledged"]:
            wrong.append(f"{client}: nothing was acknowledged")
    wrong += [
        f"{each['kind']} ({each['target']}): not served again"
        for each in result["faults"]
        if each["recovered_s"] < 0 or each["whole_s"] < 0
    ]
    return wrong + [f"in a broker's log:\n{each}" for each in result["tracebacks"]]


def _tracebacks(logs: str) -> list[str]:
    """The tracebacks in the brokers' logs, each with the line before it."""
    lines = logs.splitlines()
    return [
        "\n".join(lines[max(at - 1, 0) : at + 30])
        for at, line in enumerate(lines)
        if line.startswith("Traceback")
    ]


def _remount(directory: Path, how: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{how}", str(directory)], check=True)


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def _add(book: dict[str, int], name: str, count: int) -> None:
    book[name] = book.get(name, 0) + count


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--metastore", choices=["sqlite", "zookeeper"], default="sqlite")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    print(f"chaos over {options.metastore}, seed {options.seed}", flush=True)
    result = run(options.metastore, options.seconds, options.seed, shortest=False, once=False)
    results = HERE / "results"
    results.mkdir(exist_ok=True)
    (results / f"chaos-{options.metastore}.json").write_text(json.dumps(result, indent=1) + "\n")
    write_report(results, HERE.parents[1] / "docs" / "reliability.md")
    for client, book in result["clients"].items():
        print(f"{client:14}", ", ".join(f"{count} {name}" for name, count in book.items()))
    wrong = bad(result)
    print("\n".join(wrong) or "nothing lost, duplicated or reordered")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
