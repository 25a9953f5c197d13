"""Our consumers, blocking and on a loop, in both group protocols, while members, brokers and topics come and go.

    python tests/faults/consumers.py --seconds 600

Four groups read one topic that is written all the time.  Their members come, fail on a message, are closed or cancelled, and
come again; brokers are killed and started; topics that match the subscription appear, vanish and appear again.  Judged is:

- a committed offset is never past a message that nobody is done with, at any time that anybody looks;
- in the end every group is done with every acknowledged record, once or more.
"""

import argparse
import asyncio
import json
import random
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from tidelog import Consumer, Message, TopicPartition, aio
from tidelog.errors import TidelogError
from tidelog.testing.local_cluster import LocalCluster

STEADY, PATTERN = "steady", r"steady|passing-.*"
PARTITIONS = 4
MEMBERS = 2
PATIENCE_S = 60.0
SETTINGS = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "3",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.heartbeat.interval.ms": "500",
}


class Failure(Exception):
    """What a reader's own code raises."""


class Group:
    """One group: what its members are done with, in the words of the contract."""

    def __init__(self, face: str, protocol: str) -> None:
        self.name = f"{face}-{protocol}"
        self.face = face
        self.protocol = protocol
        self.done: dict[TopicPartition, set[int]] = defaultdict(set)
        self.deliveries = 0

    def settings(self, bootstrap: str) -> dict[str, Any]:
        classic = {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 500}
        return {
            "bootstrap.servers": bootstrap,
            "group.id": self.name,
            "group.protocol": self.protocol,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 100,
            "metadata.max.age.ms": 2_000,
            "max.poll.records": 50,
            **(classic if self.protocol == "classic" else {}),
        }

    def finish(self, message: Message) -> None:
        """The reader is done with it, and is about to ask for the next."""
        self.deliveries += 1
        if message.topic == STEADY:
            self.done[message.topic_partition].add(message.offset)

    def violations(self, committed: Iterable[tuple[TopicPartition, int]]) -> list[str]:
        found = []
        for tp, offset in committed:
            if tp.topic == STEADY:
                missing = [at for at in range(offset) if at not in self.done[tp]]
                if missing:
                    found.append(f"{self.name}: {tp} committed {offset}, not done {missing[:5]}")
        return found


class Run:
    """One run over one cluster."""

    def __init__(self, cluster: LocalCluster, seconds: float, seed: int) -> None:
        self.cluster = cluster
        self.seconds = seconds
        self.chance = random.Random(seed)
        self.groups = [Group(f, p) for f in ("blocking", "aio") for p in ("classic", "consumer")]
        self.acknowledged: dict[TopicPartition, set[int]] = defaultdict(set)
        self.violations: list[str] = []
        self.counts: Counter[str] = Counter()
        self.blocking: set[Consumer] = set()
        self.ending = False
        self.complete = False

    async def run(self) -> dict[str, Any]:
        bootstrap = self.cluster.bootstrap
        async with aio.Admin(bootstrap_servers=bootstrap) as admin:
            await admin.create_topics({STEADY: PARTITIONS}, replication_factor=3)
            tasks = [
                asyncio.ensure_future(self._member(group))
                for group in self.groups
                for _ in range(MEMBERS)
            ]
            judge = asyncio.ensure_future(self._judge(admin))
            troubles = [
                asyncio.ensure_future(each)
                for each in (self._produce(), self._strike(), self._change_topics(admin))
            ]
            await asyncio.sleep(self.seconds)
            self.ending = True
            await asyncio.gather(*troubles)
            left = await self._wait_until_done()
            self.complete = True
            for consumer in list(self.blocking):  # their iterations wait, and end with this
                await asyncio.to_thread(consumer.close)
            await asyncio.gather(*tasks)
            await judge
        return {
            "seconds": self.seconds,
            "acknowledged": sum(map(len, self.acknowledged.values())),
            "deliveries": {group.name: group.deliveries for group in self.groups},
            "not delivered": left,
            "violations": self.violations,
            **self.counts,
        }

    async def _wait_until_done(self) -> dict[str, int]:
        until = time.monotonic() + PATIENCE_S
        while True:
            left = {
                group.name: sum(len(at - group.done[tp]) for tp, at in self.acknowledged.items())
                for group in self.groups
            }
            if not any(left.values()) or time.monotonic() > until:
                return left
            await asyncio.sleep(0.2)

    # What is written.

    async def _produce(self) -> None:
        number = 0
        async with aio.Producer(
            bootstrap_servers=self.cluster.bootstrap, linger_ms=5, delivery_timeout_ms=60_000
        ) as producer:
            while not self.ending:
                sent = [
                    await producer.send(STEADY, b"%d" % (number + place), partition=place)
                    for place in range(PARTITIONS)
                ]
                number += PARTITIONS
                for delivery in sent:
                    with suppress(TidelogError):
                        where = await delivery
                        tp = TopicPartition(STEADY, where.partition)
                        self.acknowledged[tp].add(where.offset)
                await asyncio.sleep(0.01)

    # Who reads.

    async def _member(self, group: Group) -> None:
        """A member after the other, until everything is done."""
        while not self.complete:
            self.counts["members"] += 1
            try:
                if group.face == "aio":
                    await self._read_on_the_loop(group)
                else:
                    await asyncio.to_thread(self._read_in_a_thread, group)
            except Failure:
                self.counts["failures"] += 1
            except TidelogError as error:
                self.counts[f"raised {type(error).__name__}"] += 1
            await asyncio.sleep(0.2 * self.chance.random())

    def _fate(self) -> tuple[float, str]:
        """How long a member lives, and how it ends."""
        ends = ("block", "failure", "close", "cancel")
        return time.monotonic() + 1 + 4 * self.chance.random(), self.chance.choice(ends)

    def _over(self, until: float) -> bool:
        return self.complete or (time.monotonic() > until and not self.ending)

    async def _read_on_the_loop(self, group: Group) -> None:
        until, end = self._fate()
        async with aio.Consumer(group.settings(self.cluster.bootstrap)) as consumer:
            await consumer.subscribe(pattern=PATTERN)
            messages = aiter(consumer)
            while not self._over(until):
                if self.chance.random() < 0.02:
                    for message in await consumer.poll(0.2):
                        if end == "failure" and self._over(until):
                            raise Failure
                        group.finish(message)
                    continue
                try:
                    async with asyncio.timeout(0.5):
                        message = await anext(messages)
                except TimeoutError:
                    continue
                if end == "failure" and self._over(until):
                    raise Failure
                await asyncio.sleep(0)
                group.finish(message)
            if end == "close":
                await consumer.close()
            elif end == "cancel":
                with suppress(TimeoutError):
                    async with asyncio.timeout(0.001):
                        await consumer.close()

    def _read_in_a_thread(self, group: Group) -> None:
        until, end = self._fate()
        with Consumer(group.settings(self.cluster.bootstrap)) as consumer:
            consumer.subscribe(pattern=PATTERN)
            self.blocking.add(consumer)
            while not self._over(until):
                batch = consumer.poll(0.2)
                for message in batch:
                    if end == "failure" and self._over(until):
                        raise Failure
                    group.finish(message)
                if not batch:
                    continue
                for place, message in enumerate(consumer):
                    if end == "failure" and self._over(until):
                        raise Failure
                    group.finish(message)
                    if place == 30 or self._over(until):
                        break
            self.blocking.discard(consumer)
            if end == "close":
                consumer.close()

    # What goes wrong.

    async def _strike(self) -> None:
        while not self.ending:
            await asyncio.sleep(2 + 2 * self.chance.random())
            broker = self.chance.choice(self.cluster.brokers)
            kill = self.chance.random() < 0.7
            self.counts["brokers killed" if kill else "brokers stopped"] += 1
            if kill:
                await asyncio.to_thread(broker.kill)
                await asyncio.sleep(4 * self.chance.random())
                await asyncio.to_thread(broker.start)
            else:
                await asyncio.to_thread(broker.restart)

    async def _change_topics(self, admin: aio.Admin) -> None:
        """They appear, are written to, vanish, and appear again under the same name."""
        async with aio.Producer(
            bootstrap_servers=self.cluster.bootstrap,
            delivery_timeout_ms=3_000,
            request_timeout_ms=2_000,
        ) as producer:
            while not self.ending:
                name = f"passing-{self.chance.randrange(3)}"
                try:
                    async with asyncio.timeout(5):
                        await admin.create_topics({name: 2}, replication_factor=2)
                        await (await producer.send(name, b"x"))
                    await asyncio.sleep(self.chance.random())
                    async with asyncio.timeout(5):
                        await admin.delete_topics([name])
                    self.counts["topics"] += 1
                except (TidelogError, TimeoutError):
                    self.counts["topics in vain"] += 1
                    with suppress(TidelogError, TimeoutError):
                        async with asyncio.timeout(5):
                            await admin.delete_topics([name])
                await asyncio.sleep(1 + self.chance.random())

    # Who judges.

    async def _judge(self, admin: aio.Admin) -> None:
        while not self.complete:
            for group in self.groups:
                try:
                    async with asyncio.timeout(5):
                        committed = await admin.group_offsets(group.name)
                except (TidelogError, TimeoutError):
                    continue
                self.counts["looks"] += 1
                offsets = [(tp, each.offset) for tp, each in committed.items()]
                self.violations += group.violations(offsets)
            await asyncio.sleep(0.2)


def run(seconds: float, seed: int) -> dict[str, Any]:
    """One run over a cluster of its own; what it found."""
    cluster = LocalCluster(3, settings=SETTINGS)
    try:
        cluster.start()
        return asyncio.run(Run(cluster, seconds, seed).run())
    finally:
        for broker in cluster.brokers:
            broker.kill()
        cluster.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    print(json.dumps(run(arguments.seconds, arguments.seed), indent=1))
