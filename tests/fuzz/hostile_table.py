"""The table of hostile requests: what the worst of each API costs a broker, with access rules and without.

    python tests/fuzz/hostile_table.py [--megabytes 10] [--only Metadata] [--rules]

For every request it says how long it held the loop at most (processor time, from the broker's own watchdog, which tells of
what is longer than 50 ms), what the broker's process needed in all, by how much its memory grew meanwhile, and how long a
bystander waited for the answer to the smallest of requests.  `test_hostile.py` runs it and judges.
"""

import argparse
import struct
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

from hostile import hostile_bodies
from wire import Closed, Wire, framed

from tidelog.protocol.messages import request_for
from tidelog.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tidelog.protocol.schema import Request
from tidelog.testing.local_broker import LocalBroker

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "num.partitions": "1",
    "auto.create.topics.enable": "false",
    "log.index.size.max.bytes": "4096",
}
RULES = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
_API_VERSIONS = 18


class Cost(NamedTuple):
    """What one request did to the broker."""

    api: str
    title: str
    held_s: float
    """Longest turn of the loop, in processor time; 0 below 50 ms."""
    processor_s: float
    memory_bytes: int
    """By how much more the broker held at its peak than before."""
    logged_bytes: int
    ping_s: float
    """The longest that a bystander waited, by the clock."""


class WatchedBroker(LocalBroker):
    """A broker that writes down what holds its loop."""

    def __init__(self, *, settings: dict[str, str]) -> None:
        super().__init__(settings=settings)
        self.held_file = self.directory / "held"
        self.environment["TIDELOG_HELD"] = str(self.held_file)

    def command(self) -> list[str]:
        python, _, _, *rest = super().command()
        return [python, str(Path(__file__).with_name("watched_broker.py")), *rest]

    def held(self) -> list[str]:
        """Lines so far."""
        return self.held_file.read_text().splitlines() if self.held_file.exists() else []

    def processor_s(self) -> float:
        """Of all its threads so far."""
        total = 0
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            try:
                total += int((task / "schedstat").read_text().split()[0])
            except FileNotFoundError:  # a thread that has just ended
                continue
        return total / 1e9

    def memory_bytes(self, what: str) -> int:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(what + ":"):
                return int(line.split()[1]) * 1024
        raise AssertionError(what)

    def forget_peak(self) -> None:
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")


class Bystander:
    """Asks the smallest of questions, one after the other, and notes the longest wait."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._longest = 0.0
        self._pings = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def longest(self) -> float:
        """Since the last call; waits for the ping that is under way."""
        seen = self._pings
        while self._pings == seen and self._thread.is_alive():
            time.sleep(0.001)
        found, self._longest = self._longest, 0.0
        return found

    def close(self) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        with Wire(self._port) as wire:
            while not self._ended.wait(0.002):
                began = time.monotonic()
                assert wire.is_alive(), "the bystander was cut off"
                self._longest = max(self._longest, time.monotonic() - began)
                self._pings += 1


def table(
    broker: WatchedBroker,
    limit_bytes: int,
    only: str = "",
    *,
    oldest: bool = True,
    kinds: tuple[str, ...] = ("",),
) -> Iterator[Cost]:
    """Send every hostile request of these kinds, in the newest version of its API and in the `oldest`."""
    with Wire(broker.port) as wire:
        answer = wire.call(ApiVersionsRequest(), 0, ApiVersionsResponse)
    bystander = Bystander(broker.port)
    try:
        for each in answer.api_keys:
            request = request_for(each.api_key)
            if request is None or only not in request.__name__:
                continue
            first = max(each.min_version, request.versions.first)
            for version in sorted({first if oldest else each.max_version, each.max_version})[::-1]:
                _make_topic(broker)
                for title, make in hostile_bodies(request, version, limit_bytes):
                    if title.endswith(kinds):
                        yield _cost(broker, bystander, request, version, title, make())
    finally:
        bystander.close()


def _cost(
    broker: WatchedBroker,
    bystander: Bystander,
    request: type[Request],
    version: int,
    title: str,
    body: bytes,
) -> Cost:
    name = f"{request.__name__.removesuffix('Request')} v{version}"
    broker.forget_peak()
    lines, used = len(broker.held()), broker.processor_s()
    memory, logged = broker.memory_bytes("VmRSS"), len(broker.log())
    bystander.longest()
    with Wire(broker.port) as wire:
        try:
            wire.send(framed(_header(request, version) + body))
            wire.is_alive()
        except Closed:
            pass
        except TimeoutError:
            raise AssertionError(f"stuck on {name}: {title}") from None
    with Wire(broker.port) as wire:
        assert wire.is_alive(), f"{name}: {title}"
    ping = bystander.longest()
    held = [float(line.split()[0]) for line in broker.held()[lines:]]
    return Cost(
        name,
        title,
        max(held, default=0.0),
        broker.processor_s() - used,
        broker.memory_bytes("VmHWM") - memory,
        len(broker.log()) - logged,
        ping,
    )


def _header(request: type[Request], version: int) -> bytes:
    head = struct.pack(">hhih", request.api_key, version, 5, 4) + b"evil"
    return head + b"\0" if version in request.flexible else head


def _make_topic(broker: WatchedBroker) -> None:
    topic = CreatableTopic(name="fuzz", num_partitions=1, replication_factor=1)
    with Wire(broker.port) as wire:
        wire.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 5, CreateTopicsResponse)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, default=10)
    parser.add_argument("--only", default="")
    parser.add_argument("--rules", action="store_true", help="with access rules, alone")
    options = parser.parse_args()
    kinds = {"with rules": SETTINGS | RULES} if options.rules else {
        "without rules": SETTINGS, "with rules": SETTINGS | RULES
    }  # fmt: skip
    print("| broker | API | request | longest turn | processor | memory | log | ping |")
    print("|---|---|---|---:|---:|---:|---:|---:|")
    for kind, settings in kinds.items():
        with WatchedBroker(settings=settings) as broker:
            for cost in table(broker, int(options.megabytes * (1 << 20)), options.only):
                held = f"{cost.held_s * 1000:.0f} ms" if cost.held_s else "< 50 ms"
                print(
                    f"| {kind} | {cost.api} | {cost.title} | {held} | {cost.processor_s * 1000:.0f} ms "
                    f"| {cost.memory_bytes / (1 << 20):.0f} MB | {cost.logged_bytes} B | {cost.ping_s * 1000:.0f} ms |",
                    flush=True,
                )
            print(*broker.held(), sep="\n", file=sys.stderr)


if __name__ == "__main__":
    main()
