"""Producing: tiny requests and large batches, codecs, acknowledgements, partitions, connections, an fsync for each.

Two clients: librdkafka, and a raw load generator (`suite/drivers/raw.c`) that does less than any client and so leaves
more of the machine to the broker.
"""

from suite.lines.task import Task
from suite.systems.base import KAFKA, System

NAME = "produce"
TITLE = "Produce"
PARTITIONS = 2

# name: (connections, requests in flight on each, bytes of a batch); the first six are always run
RAW = {
    "raw, tiny, pipelined": (4, 200, 100),
    "raw, tiny, five in flight, idempotent": (16, 5, 100),
    "raw, tiny, one in flight": (8, 1, 100),
    "raw, 16 KB": (4, 8, 16_384),
    "raw, 64 KB": (4, 5, 65_536),
    "raw, 1 MB": (4, 3, 1_000_000),
    "raw, 64 KB, 1 connection": (1, 5, 65_536),
    "raw, 64 KB, 16 connections": (16, 2, 65_536),
    "raw, 64 KB, 256 connections": (256, 1, 65_536),
}
FEW_RAW = 6
MOCK_PARTITIONS = 4
PRODUCER_ID = 1_000_000
"""Of the first raw connection, far from those that a broker gives out."""
ALONE_SHARE = 5
"""librdkafka has five requests in flight when it is idempotent, so this is slow, and gets less to do."""


def suits(system: System) -> bool:
    return system.protocol == KAFKA


def run_line(task: Task) -> None:
    scale = task.scale
    if task.system.name != "librdkafka's mock":
        for name in list(RAW)[: None if scale.thorough else FEW_RAW]:
            connections, in_flight, size = RAW[name]
            topic = task.topic(PARTITIONS)
            head = (topic, PARTITIONS, connections, in_flight, size)
            more = (-1, PRODUCER_ID) if "idempotent" in name else ()
            task.note(name, task.raw("produce", *head, scale.seconds, *more))
    for name, (size, settings) in cases(scale.thorough).items():
        options = dict(settings)
        partitions = int(str(options.get("partitions", 1)))
        config = {"flush.messages": "1"} if options.pop("fsync", False) else None
        if task.system.name == "librdkafka's mock" and (config or partitions > MOCK_PARTITIONS):
            continue
        topic = task.topic(partitions, config)
        megabytes = scale.produce_mb / (20 if config else 4 if size < 1000 else 1)
        count = max(int(megabytes * 1e6 / size), 1000)
        if options.get("batch") == 1:
            count = max(scale.messages_alone // ALONE_SHARE, 1000)
        task.note(name, task.kafka("produce", topic=topic, count=count, size=size, **options))


def cases(thorough: bool) -> dict[str, tuple[int, dict[str, object]]]:
    """Name → bytes of a record, and librdkafka's settings."""
    kilobyte: dict[str, object] = {"linger_ms": 5, "batch_bytes": 65_536}
    found: dict[str, tuple[int, dict[str, object]]] = {
        "100 B": (100, dict(kilobyte)),
        "1 KB": (1000, dict(kilobyte)),
        "10 KB": (10_000, dict(kilobyte)),
        "1 KB, lz4": (1000, {**kilobyte, "codec": "lz4"}),
        "1 KB, acks=all, idempotent": (1000, {**kilobyte, "acks": "all", "idempotence": "true"}),
        "1 KB, 64 partitions": (1000, {**kilobyte, "partitions": 64}),
        "1 KB, fsync for each acknowledgement": (1000, {**kilobyte, "fsync": True}),
        "200 B alone, idempotent": (
            200,
            {"linger_ms": 0, "batch": 1, "acks": "all", "idempotence": "true"},
        ),
    }
    if thorough:
        found["1 KB, 16 KB batches"] = (1000, {**kilobyte, "batch_bytes": 16_384})
        found["1 KB, 1 MB batches"] = (1000, {**kilobyte, "batch_bytes": 1_000_000})
        found["1 KB, zstd"] = (1000, {**kilobyte, "codec": "zstd"})
        found["1 KB, acks=all"] = (1000, {**kilobyte, "acks": "all"})
        found["1 KB, 8 partitions"] = (1000, {**kilobyte, "partitions": 8})
        found["1 KB, 1000 partitions"] = (1000, {**kilobyte, "partitions": 1000})
    return found
