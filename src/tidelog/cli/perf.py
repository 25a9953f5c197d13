"""`tidelog perf`: how fast a cluster takes and gives messages, in the lines of Kafka's own perf tests.

`produce` sends as fast as it can, or as told, and measures each message until it is acknowledged; `consume` reads from
the beginning; `latency` sends one message at a time and waits until it has come back.
"""

import argparse
import random
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import field
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from tidelog.cli._options import (
    add_actions,
    add_client_options,
    add_json,
    add_topics,
    client_config,
    one_topic,
    pairs,
)
from tidelog.cli._output import print_json
from tidelog.cli._progress import Progress
from tidelog.dataclass import dataclass
from tidelog.errors import RequestTimedOut, SettingsError

if TYPE_CHECKING:
    from tidelog.client.batch import Delivery

HELP = "measure a cluster"
EXAMPLE = "example: tidelog perf produce test --num-records 1000000 --record-size 200"

_MEGABYTE = 1024 * 1024
_WINDOW_MS = 5_000
_LATEST = -1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(
        parser,
        [
            ("produce", "write messages", "tidelog perf produce test --num-records 1000000"),
            ("consume", "read messages", "tidelog perf consume test --messages 1000000"),
            ("latency", "there and back", "tidelog perf latency test --messages 1000"),
        ],
    )
    for each in actions.values():
        add_client_options(each)
        add_json(each)
        add_topics(each, "the topic")
    add = actions["produce"].add_argument
    add("-n", "--num-records", type=int, default=1_000_000, help="how many (1000000)")
    add("-s", "--record-size", type=int, default=100, metavar="BYTES", help="how large (100)")
    add("--throughput", type=float, default=-1, metavar="N", help="a second at most (-1: no limit)")
    add("--producer-props", nargs="+", action="extend", metavar="NAME=VALUE", help="like -X")
    add = actions["consume"].add_argument
    add("-n", "--messages", type=int, default=1_000_000, help="how many (1000000)")
    add("-g", "--group", help="read as a member of this group")
    add("--timeout", type=int, default=10_000, metavar="MS", help="end when none came so long")
    add("--show-detailed-stats", action="store_true", help="a line every reporting interval")
    add("--reporting-interval", type=int, default=_WINDOW_MS, metavar="MS", help="(5000)")
    add("--hide-header", action="store_true", help="no line that names the columns")
    add = actions["latency"].add_argument
    add("-n", "--messages", type=int, default=1_000, help="how many (1000)")
    add("-s", "--record-size", type=int, default=100, metavar="BYTES", help="how large (100)")


def run(arguments: argparse.Namespace) -> int:
    return _ACTIONS[arguments.action](arguments)


@dataclass(slots=True)
class Window:
    """What was acknowledged since a moment."""

    started_ms: float
    size: int
    latencies: list[int] = field(default_factory=list)

    def rates(self, now_ms: float) -> str:
        elapsed_s = max(now_ms - self.started_ms, 1) / 1000
        count = len(self.latencies)
        megabytes = count * self.size / _MEGABYTE
        return (
            f"{count} records sent, {count / elapsed_s:.1f} records/sec "
            f"({megabytes / elapsed_s:.2f} MB/sec)"
        )

    def line(self, now_ms: float) -> str:
        """The line of a report on the way."""
        average = sum(self.latencies) / len(self.latencies)
        return f"{self.rates(now_ms)}, {average:.1f} ms avg latency, {max(self.latencies):.1f} ms max latency."

    def figures(self, now_ms: float) -> dict[str, Any]:
        """The same for scripts."""
        elapsed_s = max(now_ms - self.started_ms, 1) / 1000
        return _rates(len(self.latencies), len(self.latencies) * self.size, elapsed_s) | {
            "latency_ms": _spread(self.latencies)
        }

    def total(self, now_ms: float) -> str:
        """The line at the end."""
        average = sum(self.latencies) / len(self.latencies)
        p50, p95, p99, p999 = percentiles(self.latencies, (0.5, 0.95, 0.99, 0.999))
        return (
            f"{self.rates(now_ms)}, {average:.2f} ms avg latency, {max(self.latencies):.2f} ms max latency, "
            f"{p50} ms 50th, {p95} ms 95th, {p99} ms 99th, {p999} ms 99.9th."
        )


def _rates(count: int, octets: int, seconds: float) -> dict[str, Any]:
    return {
        "records": count,
        "bytes": octets,
        "seconds": round(seconds, 3),
        "records_per_second": round(count / seconds, 1),
        "megabytes_per_second": round(octets / _MEGABYTE / seconds, 2),
    }


def _spread(latencies: Sequence[float]) -> dict[str, float]:
    ordered = sorted(latencies)
    shares = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999}
    picked = {name: ordered[int(share * len(ordered))] for name, share in shares.items()}
    average = sum(ordered) / len(ordered)
    figures = {"average": average, **picked, "max": ordered[-1]}
    return {name: round(value, 3) for name, value in figures.items()}


def percentiles(latencies: Sequence[int], wanted: Sequence[float]) -> list[int]:
    """The values below which these shares lie, picked as Kafka's tool picks them."""
    ordered = sorted(latencies)
    return [ordered[int(share * len(ordered))] for share in wanted]


def _produce(arguments: argparse.Namespace) -> int:
    from tidelog.client.blocking_producer import Producer

    topic = one_topic(arguments)
    _check_positive("--num-records", arguments.num_records)
    size = arguments.record_size
    payload = random.Random(0).randbytes(size)
    # Filled by the client's thread, emptied by ours: (milliseconds, what went wrong) of each message.
    settled: deque[tuple[float, Exception | None]] = deque()

    def done(started: float, delivery: "Delivery") -> None:
        settled.append(((time.perf_counter() - started) * 1000, delivery.exception()))

    config = client_config(arguments) | pairs("--producer-props", arguments.producer_props)
    with Producer(config) as producer:
        producer.partitions_for(topic)
        begun_ms = _now_ms()
        everything, window = Window(begun_ms, size), Window(begun_ms, size)
        for sent in range(arguments.num_records):
            started = time.perf_counter()
            producer.send(topic, payload).add_done_callback(partial(done, started))
            _throttle(sent + 1, begun_ms, arguments.throughput)
            if len(settled) >= 1_000:
                window = _drain(settled, everything, window, quiet=arguments.json)
        producer.flush()
        now_ms = _now_ms()
    # Not before: with the last acknowledgement the client's thread may still be telling of it.
    _drain(settled, everything, window, quiet=True)
    if arguments.json:
        print_json(everything.figures(now_ms))
    else:
        print(everything.total(now_ms))
    return 0


def _drain(
    settled: "deque[tuple[float, Exception | None]]",
    everything: Window,
    window: Window,
    *,
    quiet: bool,
) -> Window:
    """Count what was settled; print the window and return a new one when its time is over."""
    while settled:
        latency_ms, error = settled.popleft()
        if error is not None:
            raise error
        everything.latencies.append(int(latency_ms))
        window.latencies.append(int(latency_ms))
    now = _now_ms()
    if quiet or now - window.started_ms < _WINDOW_MS or not window.latencies:
        return window
    print(window.line(now), flush=True)
    return Window(now, window.size)


def _throttle(sent: int, begun_ms: float, per_second: float) -> None:
    if per_second > 0:
        ahead_s = sent / per_second - (_now_ms() - begun_ms) / 1000
        if ahead_s > 0.002:
            time.sleep(ahead_s)


def _consume(arguments: argparse.Namespace) -> int:
    from tidelog.client.blocking_consumer import Consumer

    topic = one_topic(arguments)
    _check_positive("--messages", arguments.messages)
    config = {"auto.offset.reset": "earliest", **client_config(arguments)}
    if arguments.group:
        config["group.id"] = arguments.group
    if not (arguments.hide_header or arguments.json):
        first = "time, threadId" if arguments.show_detailed_stats else "start.time, end.time"
        print(
            f"{first}, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, "
            "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
        )
    count = octets = 0
    joined_ms = None
    with Consumer(config, topics=[topic]) as consumer, Progress(arguments.messages) as progress:
        begun_ms = heard_ms = _now_ms()
        reported = (begun_ms, 0, 0)
        while count < arguments.messages and _now_ms() - heard_ms <= arguments.timeout:
            messages = consumer.poll(
                max_records=min(5_000, arguments.messages - count), timeout=0.1
            )
            if joined_ms is None and (messages or consumer.assigned()):
                joined_ms = _now_ms() - begun_ms
            if not messages:
                continue
            heard_ms = _now_ms()
            count += len(messages)
            progress.update(count)
            octets += sum(len(each.value or b"") + len(each.key or b"") for each in messages)
            if (
                arguments.show_detailed_stats
                and not arguments.json
                and heard_ms - reported[0] >= arguments.reporting_interval
            ):
                print(_detail(reported, (heard_ms, count, octets)), flush=True)
                reported = (heard_ms, count, octets)
        ended_ms = _now_ms()
    if arguments.json:
        elapsed_s = max(ended_ms - begun_ms, 1) / 1000
        print_json(_rates(count, octets, elapsed_s) | {"rebalance_ms": round(joined_ms or 0)})
        return 0
    if count < arguments.messages:
        print(
            "WARNING: Exiting before consuming the expected number of messages: timeout "
            f"({arguments.timeout} ms) exceeded. You can use the --timeout option to increase the timeout."
        )
    if not arguments.show_detailed_stats:
        print(_summary(begun_ms, ended_ms, joined_ms or 0, count, octets))
    return 0


def _summary(begun_ms: float, ended_ms: float, joined_ms: float, count: int, octets: int) -> str:
    elapsed_s = max(ended_ms - begun_ms, 1) / 1000
    fetch_ms = max(ended_ms - begun_ms - joined_ms, 1)
    megabytes = octets / _MEGABYTE
    return (
        f"{_date(begun_ms)}, {_date(ended_ms)}, {megabytes:.4f}, {megabytes / elapsed_s:.4f}, "
        f"{count}, {count / elapsed_s:.4f}, {joined_ms:.0f}, {fetch_ms:.0f}, "
        f"{megabytes / fetch_ms * 1000:.4f}, {count / fetch_ms * 1000:.4f}"
    )


def _detail(before: tuple[float, int, int], now: tuple[float, int, int]) -> str:
    elapsed_ms = max(now[0] - before[0], 1)
    count = (now[1] - before[1]) / elapsed_ms * 1000
    megabytes = (now[2] - before[2]) / _MEGABYTE / elapsed_ms * 1000
    return (
        f"{_date(now[0])}, 0, {now[2] / _MEGABYTE:.4f}, {megabytes:.4f}, {now[1]}, {count:.4f}, "
        f"0, {elapsed_ms:.0f}, {megabytes:.4f}, {count:.4f}"
    )


def _latency(arguments: argparse.Namespace) -> int:
    from tidelog.client.blocking_consumer import Consumer
    from tidelog.client.blocking_producer import Producer
    from tidelog.names import TopicPartition

    topic = one_topic(arguments)
    _check_positive("--messages", arguments.messages)
    payload = random.Random(0).randbytes(arguments.record_size)
    config = client_config(arguments)
    with Producer({"linger.ms": "0", **config}) as producer, Consumer(config) as consumer:
        places = [TopicPartition(topic, each) for each in producer.partitions_for(topic)]
        ends = consumer.find_offsets(dict.fromkeys(places, _LATEST))
        consumer.assign(places)
        for place, end in ends.items():
            consumer.seek(*place, end.offset)
        times_ms: list[float] = []
        for number in range(arguments.messages):
            started = time.perf_counter()
            producer.send(topic, payload).result()
            if not consumer.poll(max_records=1, timeout=30.0):
                raise RequestTimedOut(f"message {number} to {topic} did not come back within 30 s")
            times_ms.append((time.perf_counter() - started) * 1000)
            if number % 1_000 == 0 and not arguments.json:
                print(f"{number}\t{times_ms[-1]:.4f}", flush=True)
    if arguments.json:
        print_json({"messages": len(times_ms), "latency_ms": _spread(times_ms)})
        return 0
    print(f"Avg latency: {sum(times_ms) / len(times_ms):.4f} ms\n")
    p50, p99, p999 = percentiles([int(each) for each in times_ms], (0.5, 0.99, 0.999))
    print(f"Percentiles: 50th = {p50}, 99th = {p99}, 99.9th = {p999}")
    return 0


def _check_positive(option: str, number: int) -> None:
    if number < 1:
        raise SettingsError(f"{option} {number}: at least 1 is needed")


def _now_ms() -> float:
    return time.time() * 1000


def _date(moment_ms: float) -> str:
    """As Kafka's tool writes it: local time, milliseconds after a colon."""
    when = datetime.fromtimestamp(moment_ms / 1000).astimezone()
    return when.strftime("%Y-%m-%d %H:%M:%S:") + f"{when.microsecond // 1000:03}"


_ACTIONS: dict[str, Callable[[argparse.Namespace], int]] = {
    "produce": _produce,
    "consume": _consume,
    "latency": _latency,
}
