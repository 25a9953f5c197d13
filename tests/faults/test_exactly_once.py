"""Consume, transform, produce in transactions, while `kill -9` takes workers and the broker at random points.

Every input must come out exactly once.  A worker that takes no step for a long time has found a stall: the test fails and
shows where each of its threads stands.
"""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from copier import GROUP, SESSION_MS

from tidelog import Admin, Consumer, Producer, TopicPartition
from tidelog.testing.local_broker import LocalBroker

pytestmark = pytest.mark.faults

PARTITIONS = 4
WORKERS = 2
SECONDS = float(os.environ.get("TIDELOG_EXACTLY_ONCE_SECONDS", "8"))
"""How long workers and the broker are killed."""
STALLED_S = 60.0
"""No step for so long, not even an idle one, is a stall."""
PATIENCE_S = 180.0


class Worker:
    """A child process that copies, and another one when it is dead."""

    def __init__(self, client: str, broker: LocalBroker, name: str) -> None:
        self._command = [sys.executable, str(Path(__file__).with_name("copier.py")), client]
        self._command += [broker.bootstrap, name]
        self.lives = 0
        self.steps: Counter[str] = Counter()
        self.last_step = time.monotonic()
        self.last_words: list[str] = []
        self._stopping = False
        self._start()

    def kill(self) -> None:
        self._process.kill()

    def stop(self) -> None:
        self._stopping = True
        self._process.kill()
        self._thread.join()

    def check(self) -> None:
        if time.monotonic() - self.last_step > STALLED_S:
            self._process.send_signal(signal.SIGUSR1)
            time.sleep(1)
            self.stop()
            pytest.fail("a worker stalled:\n" + "".join(self.last_words[-60:]))

    def _start(self) -> None:
        self.lives += 1
        self._process = subprocess.Popen(
            self._command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as output:
            for line in output:
                self.last_step = time.monotonic()
                self.steps[line.split(maxsplit=1)[0]] += 1
                self.last_words = [*self.last_words[-200:], line]
        self._process.wait()
        if not self._stopping:
            self._start()


class Source(threading.Thread):
    """Feeds `in` with numbers, none of them twice."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self._producer = Producer(
            bootstrap_servers=bootstrap, retry_backoff_ms=20, delivery_timeout_ms=600_000
        )
        self._stopping = threading.Event()
        self.count = 0

    def run(self) -> None:
        while not self._stopping.wait(0.01):
            for _ in range(10):
                self._producer.send("in", b"%d" % self.count, partition=self.count % PARTITIONS)
                self.count += 1

    def stop(self) -> None:
        self._stopping.set()
        self.join()
        self._producer.close()


def test_every_input_goes_out_exactly_once(broker: LocalBroker, client: str) -> None:
    moments = random.Random(11)
    broker.settings |= {
        "group.min.session.timeout.ms": "1000",
        "group.consumer.session.timeout.ms": str(SESSION_MS),
        "group.consumer.heartbeat.interval.ms": str(SESSION_MS // 5),
    }
    broker.start()
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics({"in": PARTITIONS, "out": PARTITIONS})
        source = Source(broker.bootstrap)
        source.start()
        with working(client, broker) as workers:
            ends = time.monotonic() + SECONDS
            while time.monotonic() < ends:
                time.sleep(moments.uniform(0.1, 2.0))
                victim = moments.randrange(WORKERS + 1)
                if victim < WORKERS:
                    workers[victim].kill()
                else:
                    broker.restart(kill=True)
                for worker in workers:
                    worker.check()
            source.stop()
            wait_for_the_rest(admin, source.count, workers)
            tell(source.count, workers)
    seen = Counter(read_committed(broker.bootstrap))
    assert seen == Counter(b"%d" % number for number in range(source.count))


@pytest.fixture(params=["tidelog-classic", "tidelog-consumer", "kafka-python"])
def client(request: pytest.FixtureRequest) -> str:
    """Ours in both group protocols, and another that is Python throughout."""
    if request.param == "kafka-python":
        if "TIDELOG_EXACTLY_ONCE_SECONDS" not in os.environ:
            pytest.skip("only in a long run (TIDELOG_EXACTLY_ONCE_SECONDS)")
        pytest.importorskip("kafka", reason="kafka-python is not installed")
    return str(request.param)


@contextmanager
def working(client: str, broker: LocalBroker) -> Iterator[list[Worker]]:
    workers = [Worker(client, broker, f"worker-{number}") for number in range(WORKERS)]
    try:
        yield workers
    finally:
        for worker in workers:
            worker.stop()


def wait_for_the_rest(admin: Admin, count: int, workers: list[Worker]) -> None:
    """Until the group has committed the offset after everything."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        offsets = admin.group_offsets(GROUP, require_stable=True)
        if (done := sum(each.offset for each in offsets.values())) == count:
            return
        assert done < count
        for worker in workers:
            worker.check()
        words = "".join(line for worker in workers for line in worker.last_words[-10:])
        assert time.monotonic() < deadline, f"{done} of {count}:\n{words}"
        time.sleep(0.1)


def read_committed(bootstrap: str) -> list[bytes]:
    """Everything in `out`, up to the ends of its partitions."""
    places = [TopicPartition("out", index) for index in range(PARTITIONS)]
    found: list[bytes] = []
    with Consumer(
        bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign(places)
        ends = consumer.find_offsets(dict.fromkeys(places, -1))
        deadline = time.monotonic() + PATIENCE_S
        while any(consumer.position(*tp) < ends[tp].offset for tp in places):
            assert time.monotonic() < deadline, "a transaction was left open"
            found += [message.value for message in consumer.poll(max_records=5000, timeout=1.0)]
    return found


def tell(count: int, workers: list[Worker]) -> None:
    """For whoever runs it for long and wants to see (`pytest -s`)."""
    steps = sum((worker.steps for worker in workers), Counter[str]())
    lives = sum(worker.lives for worker in workers)
    print(f"\n{count} inputs, {lives} lives of {len(workers)} workers, steps: {dict(steps)}")
