"""The transactional clients of a run: a producer of transactions, and a copier that reads, writes and commits its place in one.

Everything of theirs goes to one topic.  A transaction is there as a whole or not at all; and every value of the topic
that is copied is in the copy once, whatever happened (exactly once).
"""

import asyncio
from typing import Any

from tidelog import aio
from tidelog.client.offsets import LATEST, READ_COMMITTED, find_offsets
from tidelog.errors import KafkaError, TidelogError, TransactionFailed
from tidelog.names import TopicPartition

from .history import Polled, Transaction
from .workload import Workload, read_on

OWN = "x"
"""Where the producer of transactions writes."""
COPY = "y"
"""Where the copier writes what it reads."""
_ABORTS = 0.25
_TIMEOUT_MS = 4_000


class TransactionalWorkload:
    """The roles that use transactions."""

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._history = workload.history
        self._chance = workload.cluster.loop.chance_for("transactions")

    async def produce(self, name: str) -> None:
        """One transaction after the other, some of them aborted on purpose."""
        number = 0
        producer = self._producer(name)
        while self._workload.producing:
            values = [f"{name}-{number + each}" for each in range(self._chance.randint(1, 6))]
            number += len(values)
            self._history.sent.update(dict.fromkeys(values))
            place = len(self._history.transactions)
            self._history.transactions.append(Transaction(tuple(values), "unknown"))
            try:
                outcome = await self._transaction(producer, values)
            except TidelogError as error:
                self._tell(name, f"does not know what became of {values[0]}: {error!r}")
                await self._close(producer)
                producer = self._producer(name)
            else:
                self._history.transactions[place] = Transaction(tuple(values), outcome)
                self._tell(name, f"{outcome}: {values[0]} … {values[-1]}")
            await asyncio.sleep(self._chance.choice((0.05, 0.2, 0.6)))
        await self._close(producer)
        self._workload.ended(name)

    async def _transaction(self, producer: aio.Producer, values: list[str]) -> str:
        await producer.begin_transaction()
        for value in values:
            await producer.send(OWN, value.encode(), key=value.encode())
        if self._chance.random() < _ABORTS:
            await producer.abort_transaction()
            return "aborted"
        try:
            await producer.commit_transaction()
        except TransactionFailed:
            await producer.abort_transaction()
            return "aborted"
        return "committed"

    async def copy(self, name: str, topic: str) -> None:
        """Copy a topic, exactly once: what is read and what is written is committed together."""
        consumer = await self._reader(name, topic)
        producer = self._producer(name)
        while self._workload.consuming:
            try:
                messages = await consumer.poll(timeout=0.5, max_records=100)
                if not messages:
                    continue
                self._tell(name, f"copies {len(messages)} from {messages[0].value!r}")
                await self._copy(producer, consumer, messages)
                await asyncio.sleep(self._chance.choice((0.0, 0.2, 0.4)))
            except TidelogError as error:
                self._tell(name, f"begins anew: {type(error).__name__}: {error}")
                await self._close(producer)
                await self._close(consumer)
                await asyncio.sleep(0.1)
                consumer = await self._reader(name, topic)
                producer = self._producer(name)
        await self._close(producer)
        await self._close(consumer)
        self._workload.ended(name)

    async def _copy(
        self, producer: aio.Producer, consumer: aio.Consumer, messages: list[Any]
    ) -> None:
        await producer.begin_transaction()
        ends: dict[TopicPartition, int] = {}
        for each in messages:
            await producer.send(COPY, each.value, key=each.value)
            ends[each.topic_partition] = each.offset + 1
        await producer.send_offsets(ends, await consumer.group_metadata())
        if self._chance.random() < _ABORTS / 2:
            await producer.abort_transaction()
            raise KafkaError("aborted on purpose")
        await producer.commit_transaction()

    async def watch(self, name: str, topic: str) -> None:
        """Read a topic as those do who want only what is committed."""
        polls = self._history.committed_polls.setdefault(name, [])
        config = {"isolation.level": "read_committed", "auto.offset.reset": "earliest"}
        consumer = aio.Consumer(self._workload.config(name, **config))
        await consumer.subscribe(topic)
        while self._workload.consuming:
            try:
                messages = await consumer.poll(timeout=0.5)
            except KafkaError as error:
                self._tell(name, f"poll failed: {error}")
                if not error.retriable:
                    self._workload.start_again_later(name)
                    return
                continue
            self._workload.note_polled(name, polls, messages)
        await self._close(consumer)
        self._workload.ended(name)

    async def read_all(self, topic: str, name: str) -> list[Polled]:
        """Every partition from its first offset, as one reads who wants only what is committed."""
        found: list[Polled] = []
        config = self._workload.config(
            name, **{"isolation.level": "read_committed", "fetch.max.wait.ms": 50}
        )
        async with aio.Admin(self._workload.config(name)) as admin:
            marks = await admin.watermarks(topic)
        async with aio.SimpleConsumer(config) as reader:
            for tp, (at, end) in sorted(marks.items()):
                while at < end:
                    messages, at = await read_on(reader, tp, at)
                    found += [
                        Polled(0.0, tp, each.offset, each.value.decode()) for each in messages
                    ]
        return found

    async def held_back(self, name: str) -> list[str]:
        """The partitions where a transaction still holds back who wants only what is committed."""
        async with aio.Admin(self._workload.config(name)) as admin:
            parts = [tp for topic in (OWN, COPY) for tp in await admin.watermarks(topic)]
            ends = await admin.list_offsets(dict.fromkeys(parts, LATEST))
            times = dict.fromkeys(parts, LATEST)
            stable = await find_offsets(admin._cluster, times, READ_COMMITTED)
        return [f"{tp}" for tp in parts if stable[tp].offset < ends[tp].offset]

    def _producer(self, name: str) -> aio.Producer:
        # The id is the role's: each life fences the ones before it.
        config = self._workload.config(
            name,
            **{
                "transactional.id": name.split(".")[0],
                "transaction.timeout.ms": _TIMEOUT_MS,
                "delivery.timeout.ms": 6_000,
                "max.block.ms": 6_000,
                "linger.ms": 2,
            },
        )
        return aio.Producer(config, clock=self._workload.clock)

    async def _reader(self, name: str, topic: str) -> aio.Consumer:
        config = self._workload.config(
            name,
            **{
                "group.id": "copier",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": 6_000,
                "heartbeat.interval.ms": 500,
                "isolation.level": "read_committed",
            },
        )
        consumer = aio.Consumer(config)
        await consumer.subscribe(topic)
        return consumer

    async def _close(self, client: Any) -> None:
        try:
            await client.close()
        except TidelogError as error:
            self._tell("closing", str(error))

    def _tell(self, who: str, what: str) -> None:
        self._workload.cluster.story.tell(who, what, detail=True)
