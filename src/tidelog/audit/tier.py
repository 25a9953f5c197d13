"""Tiers that read: one that only counts, and one to put beside a consumer or a load of your own.

`CountingTier` follows topics of a cluster and counts them without decoding; its position and its counts are one transaction,
so that it counts every message once, whatever happens to it.  `Tier` is for code that has messages in its hands:

    with Tier("billing", bootstrap_servers="…") as tier:
        for message in consumer:
            tier.count(message)
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Self

from tidelog.audit.counter import TierCounter
from tidelog.audit.encoding import EventWriter
from tidelog.audit.events import TOPIC
from tidelog.audit.topic import TOPIC_CONFIGS, ensure_topic
from tidelog.audit.windows import WINDOW_MS, window_of, windows_of_chunk
from tidelog.client.admin import Admin, AsyncAdmin
from tidelog.client.blocking_producer import Producer
from tidelog.client.consumer import AsyncConsumer
from tidelog.client.message import Message
from tidelog.client.producer import AsyncProducer
from tidelog.errors import TidelogError
from tidelog.names import TopicPartition

_log = logging.getLogger(__name__)

_PAUSE_S = 1.0


class CountingTier:
    """Counts what topics of a cluster hold, and publishes it there; lives on the running loop."""

    def __init__(
        self,
        tier: str,
        topics: Sequence[str],
        config: Mapping[str, Any],
        *,
        window_ms: int = WINDOW_MS,
        interval_s: float = 1.0,
        registry: str | None = None,
    ) -> None:
        self._tier = tier
        self._topics = list(topics)
        self._config = dict(config)
        self._window_ms = window_ms
        self._interval_s = interval_s
        self._writer = EventWriter(registry)
        self._stopping = False
        self.counted = 0

    def stop(self) -> None:
        """Publish what was counted, and return from `run`."""
        self._stopping = True

    async def run(self) -> None:
        """Count until stopped; failures are told, and tried again."""
        while not self._stopping:
            try:
                await self._session()
            except (TidelogError, OSError, TimeoutError) as error:
                _log.warning("tier %s: %s; trying again", self._tier, error)
                await asyncio.sleep(_PAUSE_S)

    async def _session(self) -> None:
        name = f"audit-{self._tier}"
        async with AsyncAdmin(self._config) as admin:
            await ensure_topic(admin)
        await asyncio.to_thread(self._writer.prepare)
        reading = {
            "group.id": name,
            "group.instance.id": name,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "metadata.max.age.ms": 5_000,
        }
        async with AsyncProducer({**self._config, "transactional.id": name}) as producer:
            await producer.init_transactions()
            async with AsyncConsumer({**self._config, **reading}) as consumer:
                await consumer.subscribe(pattern="|".join(self._topics))
                await self._count(consumer, producer)

    async def _count(self, consumer: AsyncConsumer, producer: AsyncProducer) -> None:
        counter = TierCounter(self._tier, window_ms=self._window_ms)
        ends: dict[TopicPartition, int] = {}
        due = time.monotonic() + self._interval_s
        last_round = False
        while True:
            taken = await consumer.next_chunk(max(0.0, min(due - time.monotonic(), 0.2)))
            if taken is not None:
                chunk, ends[chunk.partition] = taken[0], taken[1]
                windows = windows_of_chunk(chunk, self._window_ms)
                counter.count(chunk.partition.topic, windows)
                self.counted += sum(windows.values())
            last_round = self._stopping and taken is None
            if ends and (time.monotonic() >= due or last_round):
                async with producer.transaction():
                    for event in counter.take():
                        await producer.send(TOPIC, self._writer.write(event), key=event.key)
                    await producer.send_offsets(ends, await consumer.group_metadata())
                counter.published()
                ends = {}
            if time.monotonic() >= due:
                due = time.monotonic() + self._interval_s
            if last_round:
                return


class Tier:
    """Counts messages, or numbers of them, for a tier of your own; blocking, for one thread."""

    def __init__(
        self,
        tier: str,
        config: Mapping[str, Any] | None = None,
        *,
        window_ms: int = WINDOW_MS,
        interval_s: float = 10.0,
        registry: str | None = None,
        **options: Any,
    ) -> None:
        self._counter = TierCounter(tier, window_ms=window_ms)
        self._interval_s = interval_s
        self._writer = EventWriter(registry)
        with Admin(config, **options) as admin:
            if TOPIC not in admin.list_topics(internal=True):
                admin.create_topics({TOPIC: 1}, configs=TOPIC_CONFIGS)
        self._producer = Producer(config, **options)
        self._due = time.monotonic() + interval_s

    def count(self, *messages: Message) -> None:
        """These messages have arrived."""
        found: dict[str, Counter[int]] = {}
        for each in messages:
            start = window_of(each.timestamp, self._counter.window_ms)
            found.setdefault(each.topic, Counter())[start] += 1
        for topic, windows in found.items():
            self._counter.count(topic, windows)
        self._maybe_publish()

    def count_windows(self, topic: str, windows: Mapping[int, int]) -> None:
        """So many have arrived, by the beginning of the window in ms: for loads that count with a query."""
        self._counter.count(topic, windows)
        self._maybe_publish()

    def publish(self) -> None:
        """Publish now, and wait until it is acknowledged."""
        sent = [
            self._producer.send(TOPIC, self._writer.write(event), key=event.key)
            for event in self._counter.take()
        ]
        for each in sent:
            each.result()
        self._counter.published()

    def close(self) -> None:
        """Publish what was counted."""
        try:
            self.publish()
        finally:
            self._producer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _maybe_publish(self) -> None:
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + self._interval_s
            self.publish()
