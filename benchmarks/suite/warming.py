"""Before anything is measured a system does the same work for a while: a JVM compiles what is hot, caches fill."""

from suite.lines.task import Task
from suite.systems.base import KAFKA


def warm_up(task: Task) -> None:
    """Messages alone and in batches, and their way back, over librdkafka; queues warm up within their own runs."""
    if task.system.protocol != KAFKA:
        return
    count, topic = task.scale.warm_up_messages, task.topic()
    task.kafka("produce", topic=topic, count=count, size=200, batch=1, linger_ms=0)
    task.kafka("produce", topic=topic, count=10 * count, size=200, linger_ms=5)
    if task.system.name != "librdkafka's mock":
        task.kafka("consume", topic=topic, count=10 * count, size=200)
