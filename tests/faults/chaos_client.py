"""A client under chaos: writes numbers, or reads them with a group, until it is told to end; run as a child process.

Arguments: the role (produce or consume), the client to use, bootstrap addresses, the topic, a journal file, a file whose
appearance ends a producer, and a consumer when `.read` is behind its name.  A producer notes each number when it is acknowledged, a consumer each number it sees; a line is a
number, `! ` and an error, or `- ` and a number whose transaction was aborted.  Nothing is set but what the role needs: acks=all and
idempotence, a transactional id, or a group.
"""

import asyncio
import contextlib
import sys
import time
from pathlib import Path
from typing import Any, TextIO

PAUSE_S = 0.004
_IN_A_TRANSACTION = 5
_ABORTED_EVERY = 7


class Journal:
    def __init__(self, path: str) -> None:
        self._file: TextIO = open(path, "a", buffering=1)  # noqa: SIM115  (ends with the process)

    def note(self, number: int) -> None:
        self._file.write(f"{number}\n")

    def aborted(self, number: int) -> None:
        self._file.write(f"- {number}\n")

    def failed(self, number: int, error: object) -> None:
        self._file.write(f"! {number} {error!r}\n")


class Role:
    """What every client is given."""

    def __init__(self, bootstrap: str, topic: str, journal: Journal, end: Path) -> None:
        self.bootstrap = bootstrap
        self.topic = topic
        self.journal = journal
        self._end = end
        self._all_read = end.with_suffix(".read")
        self._number = 0

    @property
    def is_over(self) -> bool:
        return self._end.exists()

    def next(self) -> tuple[int, bytes, bytes]:
        """A number, its key and its value; numbers of one key go to one partition."""
        number = self._number
        self._number += 1
        return number, b"%d" % (number % 12), b"%d" % number

    def saw(self, value: bytes | None) -> None:
        self.journal.note(int(value or b"-1"))

    @property
    def is_drained(self) -> bool:
        """Whether whoever runs this has found everything in the journals, or has given up on it."""
        return self._all_read.exists()


def produce_confluent(role: Role) -> None:
    from confluent_kafka import Producer

    producer = Producer(
        {"bootstrap.servers": role.bootstrap, "enable.idempotence": True, "log_level": 0}
    )

    def delivered(error: Any, message: Any) -> None:
        number = int(message.value())
        role.journal.note(number) if error is None else role.journal.failed(number, error)

    while not role.is_over:
        _, key, value = role.next()
        while True:
            try:
                producer.produce(role.topic, value, key, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(PAUSE_S)
    producer.flush(120)


def consume_confluent(role: Role) -> None:
    from confluent_kafka import Consumer

    consumer = Consumer(
        {
            "bootstrap.servers": role.bootstrap,
            "group.id": f"chaos-{role.topic}",
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    consumer.subscribe([role.topic])
    while not role.is_drained:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            role.saw(message.value())
    consumer.close()


def produce_kafka_python(role: Role) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=role.bootstrap.split(","), acks="all")
    while not role.is_over:
        number, key, value = role.next()
        try:
            future = producer.send(role.topic, value, key)
        except Exception as error:  # noqa: BLE001  (the buffer is full: nothing was sent)
            role.journal.failed(number, error)
            continue
        future.add_callback(lambda _, number=number: role.journal.note(number))
        future.add_errback(lambda error, number=number: role.journal.failed(number, error))
        time.sleep(PAUSE_S)
    producer.flush(120)
    producer.close()


def consume_kafka_python(role: Role) -> None:
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(
        role.topic,
        bootstrap_servers=role.bootstrap.split(","),
        group_id=f"chaos-{role.topic}",
        auto_offset_reset="earliest",
    )
    while not role.is_drained:
        for messages in consumer.poll(timeout_ms=200).values():
            for each in messages:
                role.saw(each.value)
    consumer.close()


async def produce_aiokafka(role: Role) -> None:
    from aiokafka import AIOKafkaProducer

    async with AIOKafkaProducer(
        bootstrap_servers=role.bootstrap, enable_idempotence=True
    ) as producer:
        waiting: set[asyncio.Task[None]] = set()

        async def settle(number: int, future: Any) -> None:
            try:
                await future
                role.journal.note(number)
            except Exception as error:  # noqa: BLE001  (whatever it was, it is not acknowledged)
                role.journal.failed(number, error)

        while not role.is_over:
            number, key, value = role.next()
            try:
                future = await producer.send(role.topic, value, key)
            except Exception as error:  # noqa: BLE001
                role.journal.failed(number, error)
                continue
            task = asyncio.ensure_future(settle(number, future))
            waiting.add(task)
            task.add_done_callback(waiting.discard)
            await asyncio.sleep(PAUSE_S)
        await asyncio.gather(*waiting)


async def consume_aiokafka(role: Role) -> None:
    from aiokafka import AIOKafkaConsumer

    async with AIOKafkaConsumer(
        role.topic,
        bootstrap_servers=role.bootstrap,
        group_id=f"chaos-{role.topic}",
        auto_offset_reset="earliest",
    ) as consumer:
        while not role.is_drained:
            for messages in (await consumer.getmany(timeout_ms=200)).values():
                for each in messages:
                    role.saw(each.value)


def produce_tidelog(role: Role) -> None:
    from tidelog import Producer

    with Producer(bootstrap_servers=role.bootstrap) as producer:
        while not role.is_over:
            number, key, value = role.next()
            try:
                delivery = producer.send(role.topic, value, key=key)
            except Exception as error:  # noqa: BLE001  (no memory: nothing was sent)
                role.journal.failed(number, error)
                continue
            delivery.add_done_callback(lambda done, number=number: _settled(role, number, done))
            time.sleep(PAUSE_S)


def _settled(role: Role, number: int, done: Any) -> None:
    error = done.exception()
    role.journal.note(number) if error is None else role.journal.failed(number, error)


def consume_tidelog(role: Role, **more: str) -> None:
    from tidelog import Consumer

    with Consumer(
        topics=role.topic,
        bootstrap_servers=role.bootstrap,
        group_id=f"chaos-{role.topic}",
        auto_offset_reset="earliest",
    ) as consumer:
        while not role.is_drained:
            for each in consumer.poll(max_records=500, timeout=0.2):
                role.saw(each.value)


class _ChangedItsMind(Exception):
    """The transaction is to be aborted, though nothing failed."""


def produce_transactional(role: Role) -> None:
    """Transactions of a few numbers with our client; every seventh is aborted."""
    from tidelog import Producer
    from tidelog.errors import TidelogError, TransactionFailed

    producer: Producer | None = None
    count = 0
    while not role.is_over:
        count += 1
        numbers = [role.next() for _ in range(_IN_A_TRANSACTION)]
        try:
            if producer is None:
                producer = Producer(bootstrap_servers=role.bootstrap, transactional_id=role.topic)
            with producer.transaction():
                for _, key, value in numbers:
                    producer.send(role.topic, value, key=key)
                if count % _ABORTED_EVERY == 0:
                    producer.flush()
                    raise _ChangedItsMind
            for number, _, _ in numbers:
                role.journal.note(number)
        except (TransactionFailed, _ChangedItsMind):
            for number, _, _ in numbers:
                role.journal.aborted(number)
        except (
            TidelogError
        ) as error:  # it may be committed: the next producer ends it, one way or the other
            for number, _, _ in numbers:
                role.journal.failed(number, error)
            if producer is not None:
                with contextlib.suppress(TidelogError):
                    producer.close()
            producer = None
        time.sleep(_IN_A_TRANSACTION * PAUSE_S)
    if producer is not None:
        producer.close()


def consume_transactional(role: Role) -> None:
    consume_tidelog(role, isolation_level="read_committed")


def main() -> None:
    what, client, bootstrap, topic, journal, end = sys.argv[1:]
    run = globals()[f"{what}_{client.replace('-', '_')}"]
    made = run(Role(bootstrap, topic, Journal(journal), Path(end)))
    if asyncio.iscoroutine(made):
        asyncio.run(made)


if __name__ == "__main__":
    main()
