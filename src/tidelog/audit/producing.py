"""The producer's tier: counts what a producer delivers, a batch at a time, and publishes that through the producer itself.

    Producer(bootstrap_servers="…", audit=True)
    Producer(bootstrap_servers="…", audit=ProducerAudit(tier="front-end", registry="http://…:8081", stamp=True))

A record carries the time at which it was made, its timestamp, which every tier sees, and, unless `stamp` is False, the
server's name in the header `audit.server`.  In transactions the counts are published in the transaction they count.

Absent: counting what a producer was given but could not deliver; its deliveries say so.
"""

import asyncio
import logging
import socket

from tidelog.audit.counter import TierCounter
from tidelog.audit.encoding import EventWriter
from tidelog.audit.events import TOPIC
from tidelog.audit.topic import ensure_topic
from tidelog.audit.windows import WINDOW_MS, window_of, windows_of_stamps
from tidelog.client.admin import AsyncAdmin
from tidelog.client.batch import Batch, Delivery
from tidelog.client.producer import AsyncProducer
from tidelog.client.settings import ClientSettings
from tidelog.errors import TidelogError
from tidelog.settings import declared

_log = logging.getLogger(__name__)

SERVER_HEADER = "audit.server"
"""What made the record; when, is its timestamp."""


class ProducerAudit:
    """An observer (`tidelog.client.observing`) that counts for one producer."""

    def __init__(
        self,
        tier: str = "producer",
        *,
        window_ms: int = WINDOW_MS,
        interval_s: float = 10.0,
        server: str | None = None,
        registry: str | None = None,
        stamp: bool = True,
    ) -> None:
        name = server or socket.gethostname()
        self.stamp: tuple[tuple[str, bytes], ...] = (
            ((SERVER_HEADER, name.encode()),) if stamp else ()
        )
        self._window_ms = window_ms
        self._counter = TierCounter(tier, window_ms=window_ms, server=server)
        self._interval_s = interval_s
        self._writer = EventWriter(registry)
        self._open: list[tuple[str, dict[int, int]]] = []
        """Counts of a transaction that has not ended."""
        self._task: asyncio.Task[None] | None = None
        self._ready = False

    def begin(self, producer: AsyncProducer) -> None:
        assert self._task is None, "an audit belongs to one producer"
        self._producer = producer
        self._in_transactions = producer.transactions is not None
        self._task = asyncio.ensure_future(self._publish_now_and_then())

    def delivered(self, batch: Batch) -> None:
        topic = batch.partition.topic
        if topic == TOPIC or not batch.count:
            return
        if batch.log_append_time >= 0:
            windows = {window_of(batch.log_append_time, self._window_ms): batch.count}
        elif len(batch.stamps) <= 16:  # all records have one time
            windows = {window_of(batch.base_timestamp, self._window_ms): batch.count}
        else:
            windows = windows_of_stamps(batch.stamps, batch.count, self._window_ms)
        if self._in_transactions:
            self._open.append((topic, windows))
        else:
            self._counter.count(topic, windows)

    async def committing(self) -> None:
        for topic, windows in self._open:
            self._counter.count(topic, windows)
        self._open.clear()
        await self._publish()

    def ended(self, *, committed: bool) -> None:
        if not committed:
            self._open.clear()

    async def closing(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if not self._in_transactions:
            await self._publish_quietly()

    async def _publish_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(self._interval_s)
            if not self._in_transactions:
                await self._publish_quietly()

    async def _publish_quietly(self) -> None:
        """What cannot be published now is with the next: counts are totals."""
        try:
            await self._publish()
        except (TidelogError, OSError, TimeoutError) as error:
            _log.warning("the audit's counts were not published: %s", error)

    async def _publish(self) -> None:
        events = self._counter.take()
        if not events:
            return
        try:
            await self._prepare()
            for event in events:
                written = self._writer.write(event)
                delivery = await self._producer.send_encoded(TOPIC, written, event.key)
                delivery.add_done_callback(_tell_failure)
        except BaseException:
            self._counter.put_back(events)
            raise
        self._counter.published()

    async def _prepare(self) -> None:
        if self._ready:
            return
        settings = self._producer.settings
        for_any = {
            each.spec.name: getattr(settings, each.attribute) for each in declared(ClientSettings)
        }
        async with AsyncAdmin(for_any) as admin:
            await ensure_topic(admin)
        await asyncio.to_thread(self._writer.prepare)
        self._ready = True


def _tell_failure(delivery: Delivery) -> None:
    """The audit's own records are not the user's to look after."""
    if (error := delivery.exception()) is not None:
        _log.warning("the audit's counts were not published: %s", error)
