"""The broker under load, as a client sees it: one broker process, one load generator, one machine.

    python benchmarks/broker.py [--seconds 3] [--only fetch] [--json results.json]

Produces with acks=1 into two partitions and fetches from them; then start-up time and memory.  On a machine that others
use too, the time that the broker was on a processor for each request (`cpu_us`) tells more than requests per second;
believe ratios, and repeat.
"""

import argparse
import json
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from suite.drivers.build import program

from tidelog.protocol.frame import decode_response, encode_request
from tidelog.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tidelog.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tidelog.protocol.schema import Request, Response
from tidelog.records.builder import build_batch
from tidelog.testing.local_broker import LocalBroker

PARTITIONS = 2

# name: (connections, requests in flight on each, bytes of a batch)
PRODUCE = {
    "produce tiny, pipelined": (4, 200, 100),
    "produce tiny, one in flight": (8, 1, 100),
    "produce 16 KB": (4, 8, 16_384),
    "produce 64 KB": (4, 5, 65_536),
    "produce 1 MB": (4, 3, 1_000_000),
}
# name: (connections, bytes of a fetch, bytes of the batches that are fetched)
FETCH = {
    "fetch 1 MB": (4, 1 << 20, 65_536),
    "fetch 64 KB": (4, 1 << 16, 16_384),
    "fetch one small batch": (8, 200, 100),
}


class Wire:
    """A client that asks one thing at a time."""

    def __init__(self, port: int) -> None:
        self._sock = socket.create_connection(("127.0.0.1", port))

    def ask(self, request: Request, version: int) -> Response:
        self._sock.sendall(encode_request(request, version, 1, "bench"))
        (size,) = struct.unpack(">i", self._read(4))
        return decode_response(request.response, self._read(size), version)[1]

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            got = self._sock.recv(size - len(data))
            if not got:
                raise ConnectionError("the broker closed the connection")
            data += got
        return data


def create(port: int, topic: str) -> None:
    new = CreatableTopic(name=topic, num_partitions=PARTITIONS, replication_factor=1)
    response = Wire(port).ask(CreateTopicsRequest(topics=[new], timeout_ms=10_000), 5)
    assert response.topics[0].error_code == 0, response


def load(*arguments: object) -> dict[str, float]:
    done = subprocess.run(
        [str(program("raw")), *map(str, arguments)], check=True, capture_output=True, text=True
    )
    measured: dict[str, float] = json.loads(done.stdout)
    assert not measured.get("errors"), measured
    return measured


def cpu_seconds(pid: int) -> float:
    """Time on a processor so far, of all threads."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((each / "schedstat").read_text().split()[0]) for each in tasks) / 1e9


def memory_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("no memory figure")


def measured(broker: LocalBroker, *arguments: object) -> dict[str, float]:
    """Run the load; add the share of a core that the broker used, and its time for each request."""
    before, start = cpu_seconds(broker.pid), time.monotonic()
    result = load(*arguments)
    used, took = cpu_seconds(broker.pid) - before, time.monotonic() - start
    result["broker_cpu"] = round(used / took, 2)
    result["cpu_us"] = round(used / max(result["requests_per_s"] * took, 1) * 1e6, 2)
    return result


def produce(broker: LocalBroker, name: str, seconds: float) -> dict[str, float]:
    connections, in_flight, size = PRODUCE[name]
    topic = "p" + str(size) + "x" + str(in_flight)
    create(broker.port, topic)
    head = ("produce", broker.host, broker.port, topic, PARTITIONS)
    return measured(broker, *head, connections, in_flight, size, seconds)


def fetch(broker: LocalBroker, name: str, seconds: float) -> dict[str, float]:
    connections, max_bytes, size = FETCH[name]
    topic = "f" + str(max_bytes)
    create(broker.port, topic)
    batches = max(200, min(200_000, (200 << 20) // size))
    wire = Wire(broker.port)
    value = b"x" * max(size - 80, 1)
    batch = build_batch([(int(time.time() * 1000), None, value, ())])
    many = max(1, min(batches, 512))
    for _ in range(0, batches if size > 1000 else 4 * many, PARTITIONS):
        for index in range(PARTITIONS):
            data = PartitionProduceData(index=index, records=batch)
            topics = [TopicProduceData(name=topic, partition_data=[data])]
            wire.ask(ProduceRequest(acks=1, timeout_ms=1000, topic_data=topics), 9)
    last = (batches if size > 1000 else 4 * many) // PARTITIONS - 64
    head = ("fetch", broker.host, broker.port, topic, PARTITIONS)
    return measured(broker, *head, connections, 1, max_bytes, seconds, max(last, 1))


def first_acknowledgement() -> dict[str, float]:
    """From exec to the first acknowledged record on a fresh directory, topic creation included."""
    took = []
    for _ in range(5):
        with tempfile.TemporaryDirectory() as directory:
            start = time.monotonic()
            with LocalBroker(directory) as broker:
                ready = time.monotonic() - start
                create(broker.port, "first")
                batch = build_batch([(int(time.time() * 1000), None, b"x", ())])
                data = PartitionProduceData(index=0, records=batch)
                topics = [TopicProduceData(name="first", partition_data=[data])]
                request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=topics)
                response = Wire(broker.port).ask(request, 9)
                assert response.responses[0].partition_responses[0].error_code == 0
                took.append((time.monotonic() - start, ready))
    first, ready = min(took)
    return {"first_ack_ms": round(first * 1000), "ready_ms": round(ready * 1000)}


def memory() -> dict[str, float]:
    with LocalBroker() as broker:
        create(broker.port, "m")
        idle = memory_mb(broker.pid)
        command = [str(program("raw")), "idle", broker.host, broker.port, "-", 1, 1000, 1, 1, 3]
        with subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            Wire(broker.port)  # accepted after all others
            time.sleep(1)
            crowded = memory_mb(broker.pid)
            process.terminate()
    return {"idle_mb": round(idle, 1), "1000_connections_mb": round(crowded - idle, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each run")
    parser.add_argument("--only", default="", help="run what has this in its name")
    parser.add_argument("--json", type=Path, help="write the results here too")
    options = parser.parse_args()
    results: dict[str, dict[str, float]] = {}

    def note(name: str, result: dict[str, float]) -> None:
        results[name] = result
        print(
            f"{name:30}", "  ".join(f"{key} {value:,}" for key, value in result.items()), flush=True
        )

    for runs, run in ((PRODUCE, produce), (FETCH, fetch)):
        for name in runs:
            if options.only in name:
                with LocalBroker() as broker:
                    note(name, run(broker, name, options.seconds))
    if options.only in "start":
        note("start", first_acknowledgement())
    if options.only in "memory":
        note("memory", memory())
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
