"""Latency from producer to consumer, at 1 %, 20 % and 60 % of a ceiling that is the same for all.

The ceiling is what the slowest of the systems takes of one producer without linger, measured once before the rounds, so that every
system gets the same load.  Producer and consumer are one process with one clock; a message counts from the time at which it was due.
What earlier lines have written is on the disk before: else the disk is measured, which is busy with it.
"""

import os

from suite.lines.task import Task
from suite.systems.base import KAFKA, System

NAME = "latency"
TITLE = "Latency, producer to consumer"
SIZE = 200
SHARES = (1, 20, 60)
CEILING = "ceiling_messages_per_s"


def suits(system: System) -> bool:
    return system.protocol == KAFKA and system.name != "librdkafka's mock"


def run_line(task: Task) -> None:
    for share in SHARES:
        os.sync()
        rate = int(task.facts[CEILING] * share / 100)
        found = task.kafka(
            "latency",
            topic=task.topic(),
            rate=rate,
            seconds=task.scale.latency_s,
            size=SIZE,
            linger_ms=0,
        )
        task.note(f"{share} % load", found)


def ceiling(task: Task) -> float:
    """Messages a second that the system takes."""
    count = task.scale.messages // 2
    found = task.kafka("produce", topic=task.topic(), count=count, size=SIZE, linger_ms=0)
    return float(found["messages_per_s"])
