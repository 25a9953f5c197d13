"""Quotas: the rate that a limited client gets, what its neighbours notice of it, and what counting costs.

    python benchmarks/quotas.py [--seconds 20] [--only cost]

*rates*: confluent-kafka clients limited to 1 MB/s, from a cold start and after it; a client that takes no notice of throttle
times, and sends on (`load/load.c`); many connections that share one limit.  *neighbour*: a producer without a limit, alone and
beside one that is held, in turn.  *cost*: the broker's processor time for a request, without quotas, with a quota of
somebody else, and with one that is never reached, in turn; believe the ratios.
"""

import argparse
import multiprocessing
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from broker import Wire, cpu_seconds, create, load
from confluent_kafka import Consumer, Producer, TopicPartition

from tidelog import Admin
from tidelog.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tidelog.testing.local_broker import LocalBroker

LIMIT = 1_000_000
VALUE = os.urandom(10_000)
LOAD_CLIENT = "load"
PRODUCER, CONSUMER, TIME = "producer_byte_rate", "consumer_byte_rate", "request_percentage"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each measured rate")
    parser.add_argument("--only", default="", help="rates, neighbour or cost")
    options = parser.parse_args()
    for name, run in {"rates": rates, "neighbour": neighbour, "cost": cost}.items():
        if options.only in name:
            run(options.seconds)


@contextmanager
def limited(broker: LocalBroker, **quotas: float) -> Iterator[None]:
    """Limits for clients that call themselves `limited`, and for the load generator."""
    with Admin({"bootstrap.servers": broker.bootstrap}) as admin:
        for name in ("limited", LOAD_CLIENT):
            admin.alter_client_quotas({"client-id": name}, dict(quotas))
        yield
        for name in ("limited", LOAD_CLIENT):
            admin.alter_client_quotas({"client-id": name}, dict.fromkeys(quotas))


def told(name: str, *figures: str) -> None:
    print(f"{name:54}" + "  ".join(figures), flush=True)


def megabytes(rate: float) -> str:
    return f"{rate / 1e6:8.3f} MB/s"


# ---------------------------------------------------------------------- rates


def rates(seconds: float) -> None:
    with LocalBroker() as broker:
        create(broker.port, "t")
        with limited(broker, **{PRODUCER: LIMIT}):
            first, second, delays = produced(broker.bootstrap, "limited", seconds)
            told("limited producer, from its first message on", megabytes(first))
            told(f"limited producer, the next {seconds:g} s", megabytes(second))
            told("  told to wait", f"{delays[0]} times, {delays[1]} ms at most")
        with limited(broker, **{CONSUMER: LIMIT}):
            first, second = consumed(broker.bootstrap, seconds)
            told("limited consumer, from its first message on", megabytes(first))
            told(f"limited consumer, the next {seconds:g} s", megabytes(second))
        for what, connections, size in (
            ("one that ignores throttle times", 1, 16_384),
            ("1000 such with one limit", 1000, 4_096),
        ):
            topic = f"old{connections}"
            create(broker.port, topic)
            with limited(broker, **{PRODUCER: LIMIT}):
                head = ("produce", broker.host, broker.port, topic, 2)
                flood = threading.Thread(
                    target=load, args=(*head, connections, 5, size, 2 * seconds + 1)
                )
                flood.start()
                while not written(broker, topic):
                    time.sleep(0.01)
                at = [0]
                for _ in range(2):
                    time.sleep(seconds)
                    at.append(written(broker, topic) * size)
                flood.join()
            told(f"{what}, at first", megabytes(at[1] / seconds))
            told(f"{what}, then", megabytes((at[2] - at[1]) / seconds))


def produced(
    bootstrap: str, client_id: str, seconds: float
) -> tuple[float, float, tuple[int, int]]:
    """Acknowledged bytes a second in the first `seconds` and in the next; how often and how long it was told to wait."""
    waits: list[int] = []
    acknowledged: list[float] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": client_id,
            "linger.ms": 5,
            "queue.buffering.max.messages": 500,
            "message.timeout.ms": 120_000,
            "throttle_cb": lambda event: waits.append(round(event.throttle_time * 1000)),
        }
    )

    ended = False

    def done(error: Any, _: Any) -> None:
        assert error is None or ended, error  # in the end what is left is thrown away
        if error is None:
            acknowledged.append(time.monotonic())

    while not acknowledged or time.monotonic() < acknowledged[0] + 2 * seconds:
        try:
            producer.produce("t", VALUE, on_delivery=done)
            producer.poll(0)
        except BufferError:
            producer.poll(0.05)
    ended = True
    producer.purge()
    producer.flush(1)
    start = acknowledged[0]
    halves = [
        sum(begin <= at - start < begin + seconds for at in acknowledged) * len(VALUE) / seconds
        for begin in (0.0, seconds)
    ]
    held = [each for each in waits if each]
    return halves[0], halves[1], (len(held), max(held, default=0))


def consumed(bootstrap: str, seconds: float) -> tuple[float, float]:
    """Bytes a second in the first `seconds` and in the next, of a consumer that begins again at the end."""
    unlimited = Producer({"bootstrap.servers": bootstrap, "client.id": "filler"})
    for _ in range(int(3 * seconds * LIMIT / len(VALUE))):
        unlimited.produce("t", VALUE, partition=0)
        unlimited.poll(0)
        if len(unlimited) > 10_000:
            unlimited.poll(0.1)
    unlimited.flush()
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "client.id": "limited", "group.id": "quota"}
    )
    consumer.assign([TopicPartition("t", 0, 0)])
    came: list[float] = []
    while not came or time.monotonic() < came[0] + 2 * seconds:
        now = time.monotonic()
        came += [now for each in consumer.consume(1000, 0.05) if each.error() is None]
    consumer.close()
    first, second = (
        sum(begin <= at - came[0] < begin + seconds for at in came) * len(VALUE) / seconds
        for begin in (0.0, seconds)
    )
    return first, second


def written(broker: LocalBroker, topic: str) -> int:
    """Records in a topic: batches of the load generator have one each."""
    wire = Wire(broker.port)
    partitions = [ListOffsetsPartition(partition_index=at, timestamp=-1) for at in range(2)]
    topics = [ListOffsetsTopic(name=topic, partitions=partitions)]
    answer = wire.ask(ListOffsetsRequest(replica_id=-1, topics=topics), 5)
    return sum(each.offset for each in answer.topics[0].partitions)


# ---------------------------------------------------------------------- neighbours


def neighbour(seconds: float) -> None:
    """A producer with a steady stream and its latency, alone and beside one that is held."""
    with LocalBroker() as broker:
        create(broker.port, "t")
        create(broker.port, "other")
        pool = multiprocessing.get_context("spawn")
        results: dict[str, list[tuple[float, float]]] = {"alone": [], "beside": [], "flood": []}
        for _ in range(3):
            for name in results:
                with limited(broker, **{PRODUCER: LIMIT} if name == "beside" else {TIME: 1000}):
                    stop = pool.Event()
                    other = pool.Process(
                        target=pour, args=(broker.bootstrap, "limited", stop), daemon=True
                    )
                    if name != "alone":
                        other.start()
                    results[name].append(steady(broker.bootstrap, seconds / 3))
                    stop.set()
                    if name != "alone":
                        other.join()
        for name, text in (
            ("alone", "unlimited producer, alone"),
            ("beside", "  beside one that is limited to 1 MB/s"),
            ("flood", "  beside the same one without a limit"),
        ):
            rate = statistics.median(each[0] for each in results[name])
            latency = statistics.median(each[1] for each in results[name])
            told(text, megabytes(rate), f"median latency {latency * 1000:.1f} ms")


def pour(bootstrap: str, client_id: str, stop: Any) -> None:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": client_id,
            "queue.buffering.max.messages": 2000,
        }
    )
    while not stop.is_set():
        try:
            producer.produce("t", VALUE)
            producer.poll(0)
        except BufferError:
            producer.poll(0.05)
    producer.purge()
    producer.flush(1)


def steady(bootstrap: str, seconds: float) -> tuple[float, float]:
    """5 MB/s for a while: bytes a second that were acknowledged, and the median latency."""
    producer = Producer({"bootstrap.servers": bootstrap, "client.id": "neighbour", "linger.ms": 0})
    latencies: list[float] = []
    start = time.monotonic()
    sent = 0
    while (now := time.monotonic()) < start + seconds:
        while sent * len(VALUE) < (now - start) * 5e6:
            producer.produce("other", VALUE, on_delivery=lambda _, m: latencies.append(m.latency()))
            sent += 1
        producer.poll(0.002)
    producer.flush()
    return sent * len(VALUE) / (time.monotonic() - start), statistics.median(latencies)


# ---------------------------------------------------------------------- cost


def cost(seconds: float) -> None:
    """Microseconds of the broker's processor time for one request, in turn."""
    cases: dict[str, tuple[object, ...]] = {
        "produce tiny, pipelined": (4, 200, 100),
        "produce tiny, one in flight": (8, 1, 100),
        "produce 16 KB": (4, 8, 16_384),
    }
    quotas: dict[str, Callable[[Admin, bool], None]] = {
        "no quota": lambda admin, on: None,
        "a quota of somebody else": lambda admin, on: admin.alter_client_quotas(
            {"client-id": "nobody"}, {PRODUCER: 1e12 if on else None}
        ),
        "a quota of bytes, not reached": lambda admin, on: admin.alter_client_quotas(
            {"client-id": LOAD_CLIENT}, {PRODUCER: 1e15 if on else None}
        ),
        "a quota of time, not reached": lambda admin, on: admin.alter_client_quotas(
            {"client-id": LOAD_CLIENT}, {TIME: 1e6 if on else None}
        ),
    }
    for name, arguments in cases.items():
        best = dict.fromkeys(quotas, float("inf"))
        with LocalBroker() as broker, Admin({"bootstrap.servers": broker.bootstrap}) as admin:
            for turn in range(6):
                for quota, switch in quotas.items():
                    topic = f"c{turn}{len(quota)}"
                    create(broker.port, topic)
                    switch(admin, True)
                    before = cpu_seconds(broker.pid)
                    head = ("produce", broker.host, broker.port, topic, 2)
                    took = max(seconds / 20, 0.5)
                    done = load(*head, *arguments, took)
                    used = cpu_seconds(broker.pid) - before
                    switch(admin, False)
                    best[quota] = min(best[quota], used / (done["requests_per_s"] * took) * 1e6)
        print(name)
        for quota, figure in best.items():
            told(f"  {quota}", f"{figure:8.2f} µs", f"{figure / best['no quota']:6.3f}")


if __name__ == "__main__":
    main()
