"""Fetching: from the page cache, from a cold disk, by many at once, from many small partitions."""

import contextlib
import os

from suite.lines.task import Task
from suite.systems.base import KAFKA, System

NAME = "fetch"
TITLE = "Fetch"
PARTITIONS = 2
SIZE = 1000


def suits(system: System) -> bool:
    return system.protocol == KAFKA and system.name != "librdkafka's mock"


def run_line(task: Task) -> None:
    scale = task.scale
    count = int(scale.fetch_mb * 1e6 / SIZE) // (16 * PARTITIONS) * 16 * PARTITIONS
    topic = task.topic(PARTITIONS)
    fill = {"size": SIZE, "linger_ms": 5, "batch_bytes": 65_536}
    task.kafka("produce", topic=topic, count=count, partitions=PARTITIONS, **fill)
    reading = {"topic": topic, "count": count, "size": SIZE, "partitions": PARTITIONS}
    task.note("librdkafka, page cache", task.kafka("consume", **reading))
    drop_caches(task.system)
    task.note("librdkafka, cold disk", task.kafka("consume", **reading))
    last = count // PARTITIONS * 9 // 10
    for name, connections, fetch_bytes in (
        ("raw, 1 MB, 1 consumer", 1, 1 << 20),
        ("raw, 1 MB, 8 consumers", 8, 1 << 20),
        ("raw, 1 MB, 64 consumers", 64, 1 << 20),
        ("raw, 64 KB, 8 consumers", 8, 1 << 16),
        ("raw, one small batch, 8 consumers", 8, 200),
    ):
        head = (topic, PARTITIONS, connections, 1, fetch_bytes, scale.seconds, last)
        task.note(name, task.raw("fetch", *head))
    if scale.thorough:
        many = 1000
        topic = task.topic(many)
        count = count // (16 * many) * 16 * many or 16 * many
        task.kafka("produce", topic=topic, count=count, partitions=many, **fill)
        reading = {"topic": topic, "count": count, "size": SIZE, "partitions": many}
        task.note("librdkafka, 1000 partitions", task.kafka("consume", **reading))


def drop_caches(system: System) -> None:
    """Write back the system's files and let the page cache forget them, which needs no rights."""
    os.sync()
    for path in (system.directory / "data").rglob("*.log"):
        with contextlib.suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)
