"""A consumer far behind while another writes: what each gets."""

import subprocess

from suite.drivers.build import program
from suite.lines.fetch import drop_caches
from suite.lines.task import Task
from suite.systems.base import KAFKA, System

NAME = "backlog"
TITLE = "Far behind, while others write"
SIZE = 1000
_WRITER_S = 600
"""Longer than any reader takes; it is ended when the reader is done."""


def suits(system: System) -> bool:
    return system.protocol == KAFKA and system.name != "librdkafka's mock"


def run_line(task: Task) -> None:
    if not task.scale.backlog_gb:
        return
    count = int(task.scale.backlog_gb * 1e9 / SIZE)
    behind, busy = task.topic(), task.topic()
    fill = {"size": SIZE, "linger_ms": 5, "batch_bytes": 65_536}
    task.kafka("produce", topic=behind, count=count, **fill)
    drop_caches(task.system)
    head = ["produce", "127.0.0.1", task.system.port, busy, 1, 1, 2, 65_536, _WRITER_S]
    with subprocess.Popen(
        [str(program("raw")), *map(str, head)], stdout=subprocess.DEVNULL
    ) as writer:
        before = _bytes_of(task, busy)
        found = task.kafka("consume", topic=behind, count=count, size=SIZE)
        written = _bytes_of(task, busy) - before
        writer.kill()
    figures = {"read_mb_per_s": found["mb_per_s"]}
    figures["written_mb_per_s"] = written / found["seconds"] / 1e6
    task.note(f"{task.scale.backlog_gb:g} GB behind", figures)


def _bytes_of(task: Task, topic: str) -> int:
    """What is in the files of a topic: both systems keep Kafka's."""
    folder = task.system.directory / "data" / f"{topic}-0"
    return sum(each.stat().st_size for each in folder.glob("*.log"))
