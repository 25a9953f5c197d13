"""The same figures with more history and more partitions: flat, or explained.

What was written to get there is on the disk before anything is measured: else the disk is.
"""

import os

from suite.lines.task import Task
from suite.systems.base import KAFKA, System

NAME = "growth"
TITLE = "Growth"
SIZE = 1000


def suits(system: System) -> bool:
    return system.protocol == KAFKA and system.name != "librdkafka's mock"


def run_line(task: Task) -> None:
    """Only in the first round: it fills the disk."""
    scale = task.scale
    if task.round:
        return
    done = 0.0
    topic = task.topic(2) if scale.history_gb else ""
    for wanted in scale.history_gb:
        count = int((wanted - done) * 1e9 / SIZE) // 32 * 32
        fill = {"linger_ms": 5, "batch_bytes": 65_536, "partitions": 2}
        task.kafka("produce", topic=topic, count=count, size=SIZE, **fill)
        done = wanted
        _figures(task, f"{wanted:g} GB of history", topic, int(wanted * 1e9 / SIZE / 2 * 0.9))
    made = 0
    for wanted in scale.partitions:
        task.topic(wanted - made)
        made = wanted
        topic = task.topic(2)
        task.kafka("produce", topic=topic, count=64_000, size=SIZE, linger_ms=5, partitions=2)
        _figures(task, f"{wanted:,} partitions", topic, 28_000)


def _figures(task: Task, name: str, topic: str, last: int) -> None:
    os.sync()
    seconds = task.scale.seconds
    figures = {}
    tiny = task.raw("produce", topic, 2, 4, 200, 100, seconds)
    figures["produce_requests_per_s"] = tiny["requests_per_s"]
    figures["produce_mb_per_s"] = task.raw("produce", topic, 2, 4, 5, 65_536, seconds)["mb_per_s"]
    figures["fetch_mb_per_s"] = task.raw("fetch", topic, 2, 4, 1, 1 << 20, seconds, last)[
        "mb_per_s"
    ]
    figures["memory_mb"] = task.system.memory_mb()
    task.note(name, figures)
