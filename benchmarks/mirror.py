"""The mirror between two brokers, beside a loop of confluent-kafka that consumes here and produces there.

    python benchmarks/mirror.py [--mb 200] [--size 1000] [--rounds 2]

Both copy the same records, which are there already, each in a process of its own.  The clock runs from the first record at
the target to the last; processor time is the copying process's own, its start included.  Latency is from `send` at a
producer to the hands of a consumer at the other cluster, through the mirror, a record every few milliseconds.
The machine is shared and noisy: believe ratios, and repeat.
"""

import argparse
import multiprocessing
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable

from tidelog import Admin, Consumer, Producer, TopicPartition
from tidelog.testing.local_broker import LocalBroker

PARTITIONS = 4
TOPIC = "records"
SETTINGS = {"group.initial.rebalance.delay.ms": "0"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", type=int, default=200, help="to copy")
    parser.add_argument("--size", type=int, default=1000, help="of a record")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--latency-seconds", type=float, default=5.0)
    given = parser.parse_args()
    count = given.mb * 1_000_000 // given.size
    with LocalBroker(settings=SETTINGS) as live:
        with Admin(bootstrap_servers=live.bootstrap) as admin:
            admin.create_topics({TOPIC: PARTITIONS})
        fill(live.bootstrap, count, given.size)
        print(
            f"{count:,} records of {given.size} bytes, {PARTITIONS} partitions, best of {given.rounds}"
        )
        ways: dict[str, Callable[[str, str], int]] = {
            "tidelog mirror": lambda a, b: spawn_mirror(a, b),
            "tidelog mirror --exactly-once": lambda a, b: spawn_mirror(a, b, "--exactly-once"),
            "tidelog mirror --offset-header (decodes)": lambda a, b: spawn_mirror(
                a, b, "--offset-header"
            ),
            "confluent-kafka, consume and produce": spawn_confluent,
        }
        best: dict[str, tuple[float, float]] = {}
        for _ in range(given.rounds):
            for name, spawn in ways.items():
                found = copy(spawn, live.bootstrap, count)
                if name not in best or found[0] > best[name][0]:
                    best[name] = found
        theirs = best["confluent-kafka, consume and produce"][0]
        for name, (rate, cpu_s) in best.items():
            gb = count * given.size / 1e9
            print(
                f"{name:42}{rate:12,.0f} records/s {rate * given.size / 1e6:8.1f} MB/s "
                f"{cpu_s / gb:7.2f} CPU s/GB {rate / theirs:7.0%}"
            )
        latency(live.bootstrap, given.latency_seconds)


def fill(bootstrap: str, count: int, size: int) -> None:
    value = os.urandom(size)
    with Producer(bootstrap_servers=bootstrap) as producer:
        for _ in range(count):
            producer.send(TOPIC, value)


def copy(spawn: Callable[[str, str], int], source: str, count: int) -> tuple[float, float]:
    """Records a second, and the processor time of the process that copied."""
    with (
        LocalBroker(settings=SETTINGS) as offline,
        Admin(bootstrap_servers=offline.bootstrap) as admin,
    ):
        admin.create_topics({TOPIC: PARTITIONS})
        pid = spawn(source, offline.bootstrap)
        began, first = 0.0, 0
        while (there := held(admin)) < count:
            if there and not began:
                began, first = time.monotonic(), there
            time.sleep(0.02)
        took = time.monotonic() - began
        os.kill(pid, signal.SIGTERM)
        _, _, used = os.wait4(pid, 0)
        return (count - first) / took, used.ru_utime + used.ru_stime


def held(admin: Admin) -> int:
    return sum(end for _, end in admin.watermarks(TOPIC).values())


def spawn_mirror(source: str, target: str, *more: str) -> int:
    command = [sys.executable, "-m", "tidelog", "mirror", "--from", source, "--to", target]
    quiet = subprocess.DEVNULL
    return subprocess.Popen([*command, "--include", TOPIC, *more], stdout=quiet, stderr=quiet).pid


def spawn_confluent(source: str, target: str) -> int:
    process = multiprocessing.get_context("spawn").Process(target=confluent, args=(source, target))
    process.start()
    assert process.pid is not None
    return process.pid


def confluent(source: str, target: str) -> None:
    from confluent_kafka import Consumer as TheirConsumer
    from confluent_kafka import Producer as TheirProducer

    consumer = TheirConsumer(
        {"bootstrap.servers": source, "group.id": target, "auto.offset.reset": "earliest"}
    )
    producer = TheirProducer(
        {"bootstrap.servers": target, "queue.buffering.max.messages": 1_000_000, "linger.ms": 5}
    )
    consumer.subscribe([TOPIC])
    while True:
        for message in consumer.consume(1_000, timeout=0.1):
            while True:
                try:
                    producer.produce(
                        message.topic(),
                        message.value(),
                        message.key(),
                        message.partition(),
                        timestamp=message.timestamp()[1],
                    )
                    break
                except BufferError:
                    producer.poll(0.01)
        producer.poll(0)


def latency(source: str, seconds: float) -> None:
    """From `send` here to a consumer there."""
    topic = "timed"
    with LocalBroker(settings=SETTINGS) as offline:
        for bootstrap in (source, offline.bootstrap):
            with Admin(bootstrap_servers=bootstrap) as admin:
                admin.create_topics({topic: 1})
        command = [sys.executable, "-m", "tidelog", "mirror", "--from", source, "--include", topic]
        child = subprocess.Popen([*command, "--to", offline.bootstrap], stdout=subprocess.DEVNULL)
        stopping = threading.Event()

        def send() -> None:
            with Producer(bootstrap_servers=source, linger_ms=0) as producer:
                while not stopping.is_set():
                    producer.send(topic, b"%d" % time.monotonic_ns())
                    stopping.wait(0.005)

        sender = threading.Thread(target=send)
        sender.start()
        took: list[float] = []
        with Consumer(
            bootstrap_servers=offline.bootstrap, auto_offset_reset="earliest"
        ) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            consumer.poll(max_records=1, timeout=60)
            began = time.monotonic()
            while time.monotonic() - began < seconds + 1:
                for message in consumer.poll(timeout=0.1):
                    if (
                        time.monotonic() - began > 1
                    ):  # what waited for the mirror's start does not count
                        took.append((time.monotonic_ns() - int(message.value)) / 1e6)
        stopping.set()
        sender.join()
        child.terminate()
        child.wait()
        cuts = statistics.quantiles(took, n=100)
        print(f"end to end: p50 {cuts[49]:.1f} ms, p99 {cuts[98]:.1f} ms ({len(took):,} records)")


if __name__ == "__main__":
    main()
