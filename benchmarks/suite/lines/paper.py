"""The experiment of the Kafka paper (figures 4 and 5): one producer, one consumer, messages of 200 bytes.

Kafka's protocol is driven by librdkafka with batches of 1 and of 50 messages; RabbitMQ, ActiveMQ and NATS have no batches.
A producer that wants no answer, and one that wants each acknowledged.  The consumer takes about 200 KB a pull, the
queues send 1000 messages ahead and take them as acknowledged when they are sent.
"""

from suite.drivers.build import jms_classes, run, run_command
from suite.lines.task import Task
from suite.systems.base import KAFKA, System

NAME = "paper"
TITLE = "The paper's experiment"
SIZE = 200
PULL_BYTES = 200_000
SYNC_SHARE = 10
"""ActiveMQ's client waits for each answer, and is given this much less to do."""


def suits(system: System) -> bool:
    return True


def run_line(task: Task) -> None:
    {KAFKA: _kafka, "amqp": _amqp, "openwire": _openwire, "nats": _nats}[task.system.protocol](task)


def _kafka(task: Task) -> None:
    scale = task.scale
    for batch, count in ((1, scale.messages_alone), (50, scale.messages)):
        for acks in (0, 1):
            topic = task.topic()
            linger = 0 if batch == 1 else 5
            found = task.kafka(
                "produce",
                topic=topic,
                count=count,
                size=SIZE,
                acks=acks,
                batch=batch,
                linger_ms=linger,
            )
            task.note(f"produce, batch {batch}, {_acks(acks)}", found)
    if task.system.name != "librdkafka's mock":
        found = task.kafka(
            "consume", topic=topic, count=scale.messages, size=SIZE, fetch_bytes=PULL_BYTES
        )
        task.note("consume", found)


def _amqp(task: Task) -> None:
    where = {"host": "127.0.0.1", "port": task.system.port}
    count = task.scale.messages_alone
    for acks in (0, 1):
        queue = f"bench-{acks}"
        found = run("amqp", "produce", **where, queue=queue, count=count, size=SIZE, confirms=acks)
        task.note(f"produce, batch 1, {_acks(acks)}", found)
    task.note("consume", run("amqp", "consume", **where, queue=queue, count=count, size=SIZE))


def _openwire(task: Task) -> None:
    def jms(mode: str, queue: str, count: int, *more: str) -> dict[str, float]:
        url = f"tcp://127.0.0.1:{task.system.port}"
        java = ["java", "-Xmx512m", "-cp", jms_classes(), "Jms"]
        return run_command([*java, mode, url, queue, str(count), str(SIZE), *more])

    count = task.scale.messages_alone
    task.note("produce, batch 1, no acks", jms("produce", "bench", count, "true"))
    task.note("produce, batch 1, acks=1", jms("produce", "sync", count // SYNC_SHARE, "false"))
    task.note("consume", jms("consume", "bench", count))


def _nats(task: Task) -> None:
    where = {"host": "127.0.0.1", "port": task.system.port}
    count = task.scale.messages_alone
    for acks in (0, 1):
        stream = f"bench{acks}"
        found = run("nats", "produce", **where, stream=stream, count=count, size=SIZE, acks=acks)
        task.note(f"produce, batch 1, {_acks(acks)}", found)
    task.note("consume", run("nats", "consume", **where, stream=stream, count=count, size=SIZE))


def _acks(acks: int) -> str:
    return "acks=1" if acks else "no acks"
