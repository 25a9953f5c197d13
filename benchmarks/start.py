"""What a broker costs before anybody uses it: time to the first acknowledged produce, idle CPU, memory.

    python benchmarks/start.py [--rounds 10] [--idle-seconds 30] [--connections 1000] [--messages 1000000] [--json FILE]

A start is measured from exec to the answer of the first produce, to a topic that is created by asking for it: wall-clock
time, and the time that the broker was on a processor, which a busy machine disturbs less.  The first round, which
writes the bytecode, is not counted.
"""

import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from broker import Wire, memory_mb

from tidelog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tidelog.records.builder import build_batch

ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


class Started:
    """A broker process and the file that tells its port."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.ready = directory / "ready"
        command = [sys.executable, "-m", "tidelog", "serve", "--port", "0"]
        command += ["--data", str(directory / "data"), "--ready-file", str(self.ready)]
        self.began = time.monotonic()
        with open(directory / "log", "ab") as output:
            self.process = subprocess.Popen(
                command, stdout=output, stderr=output, env=ENVIRONMENT, cwd=directory
            )
        while not self.ready.exists():
            if self.process.poll() is not None:
                raise SystemExit((directory / "log").read_text())
            time.sleep(0.001)
        self.port = int(self.ready.read_text().split()[0].rpartition(":")[2])

    def cpu_seconds(self) -> float:
        """Time on a processor so far, of all threads."""
        tasks = Path(f"/proc/{self.process.pid}/task").iterdir()
        return sum(int((each / "schedstat").read_text().split()[0]) for each in tasks) / 1e9

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()


def produce(wire: Wire, topic: str, messages: int) -> None:
    now = int(time.time() * 1000)
    batch = build_batch([(now, None, b"x" * 100, ())] * messages)
    data = TopicProduceData(
        name=topic, partition_data=[PartitionProduceData(index=0, records=batch)]
    )
    answer = wire.ask(ProduceRequest(acks=1, timeout_ms=5000, topic_data=[data]), 9)
    assert answer.responses[0].partition_responses[0].error_code == 0, answer


def create(wire: Wire, topic: str) -> None:
    """Ask for the topic until it is there."""
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=True
    )
    while wire.ask(request, 9).topics[0].error_code:
        time.sleep(0.001)


def first_acknowledgement(fresh: bool) -> tuple[float, float, float]:
    """Milliseconds to ready, and to the first acknowledgement: wall, and on a processor."""
    directory = Path(tempfile.mkdtemp(prefix="tidelog-start-"))
    try:
        if not fresh:
            broker = Started(directory)
            create(Wire(broker.port), "first")
            broker.stop()
            (directory / "ready").unlink()
        broker = Started(directory)
        ready = time.monotonic() - broker.began
        wire = Wire(broker.port)
        create(wire, "first")
        produce(wire, "first", 1)
        took, cpu = time.monotonic() - broker.began, broker.cpu_seconds()
        broker.stop()
    finally:
        shutil.rmtree(directory)
    return ready * 1000, took * 1000, cpu * 1000


def start(rounds: int, fresh: bool) -> dict[str, float]:
    first_acknowledgement(fresh)
    found = [first_acknowledgement(fresh) for _ in range(rounds)]
    figures: dict[str, float] = {}
    for name, values in zip(
        ("ready", "acknowledged", "cpu"), zip(*found, strict=True), strict=True
    ):
        figures |= {
            f"{name} ms, best": round(min(values)),
            f"{name} ms, median": round(statistics.median(values)),
        }
    return figures


def idle(seconds: float, connections: int, messages: int) -> dict[str, float]:
    directory = Path(tempfile.mkdtemp(prefix="tidelog-idle-"))
    broker = Started(directory)
    try:
        time.sleep(3)  # what is done after the start is done
        figures = {"memory MB": round(memory_mb(broker.process.pid), 1)}
        before = broker.cpu_seconds()
        time.sleep(seconds)
        figures["idle CPU %"] = round((broker.cpu_seconds() - before) / seconds * 100, 3)
        held = [socket.create_connection(("127.0.0.1", broker.port)) for _ in range(connections)]
        create(Wire(broker.port), "many")
        figures[f"memory MB, {connections} connections"] = round(memory_mb(broker.process.pid), 1)
        for each in held:
            each.close()
        wire, step = Wire(broker.port), 1000
        for done in range(0, messages, step):
            produce(wire, "many", step)
            if done + step == messages // 10:
                after_tenth = memory_mb(broker.process.pid)
        if messages >= 10 * step:
            figures[f"memory MB, {messages // 10} messages"] = round(after_tenth, 1)
            figures[f"memory MB, {messages} messages"] = round(memory_mb(broker.process.pid), 1)
    finally:
        broker.stop()
        shutil.rmtree(directory)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--idle-seconds", type=float, default=30)
    parser.add_argument("--connections", type=int, default=1000)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    figures: dict[str, dict[str, float]] = {}

    def note(name: str, found: dict[str, float]) -> None:
        figures[name] = found
        print(
            f"{name:<28}", "  ".join(f"{key} {value}" for key, value in found.items()), flush=True
        )

    if options.rounds:
        note("start, new data", start(options.rounds, fresh=True))
        note("start, data that is there", start(options.rounds, fresh=False))
    if options.idle_seconds:
        note("idle", idle(options.idle_seconds, options.connections, options.messages))
    if options.json:
        Path(options.json).write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
