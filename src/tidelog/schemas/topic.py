"""The topic `_schemas`: made if it is not there, and read from its first record on without end.

Every instance reads it into its state; `reached` waits until a record has been taken in.  A topic that was cut or made
anew is read again from its beginning.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from tidelog.client.admin import AsyncAdmin
from tidelog.client.cluster import Cluster
from tidelog.client.decoding import decode_chunk
from tidelog.client.offsets import EARLIEST, LATEST, find_offsets
from tidelog.client.simple import AsyncSimpleConsumer
from tidelog.errors import (
    KafkaError,
    OffsetOutOfRange,
    SettingsError,
    TidelogError,
    TopicAlreadyExists,
)
from tidelog.names import TopicPartition
from tidelog.records.batch import iterate_batches
from tidelog.schemas.journal import Entry, UnreadableRecord, decode

_log = logging.getLogger(__name__)

_FETCH_BYTES = 4 * 1024 * 1024
_PAUSE_S = 0.5


class SchemasTopic:
    """Reads the topic into `replay`; `restart` is called before it is read again from the beginning."""

    def __init__(
        self,
        config: Mapping[str, Any],
        cluster: Cluster,
        name: str,
        *,
        replay: Callable[[Entry], None],
        restart: Callable[[], None],
    ) -> None:
        self._config = dict(config)
        self._cluster = cluster
        self._tp = TopicPartition(name, 0)
        self._replay = replay
        self._restart = restart
        self._consumer: AsyncSimpleConsumer | None = None
        self._task: asyncio.Task[None] | None = None
        self._next = 0
        """The offset to be read next.  Invariant: every record before it has been replayed."""
        self._moved = asyncio.Condition()

    async def start(self) -> None:
        """Make the topic if need be, and return when all that it holds has been read."""
        await self._create()
        self._consumer = AsyncSimpleConsumer(self._config)
        self._next = await self._edge(EARLIEST)
        self._task = asyncio.ensure_future(self._read_for_ever())
        await self.reached(await self.end() - 1)

    async def reached(self, offset: int) -> None:
        """Wait until the record at this offset has been taken in."""
        async with self._moved:
            await self._moved.wait_for(lambda: self._next > offset)

    async def end(self) -> int:
        """The offset after the last record, asked of the broker."""
        return await self._edge(LATEST)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._consumer is not None:
            await self._consumer.close()

    async def _edge(self, which: int) -> int:
        return (await find_offsets(self._cluster, {self._tp: which}))[self._tp].offset

    async def _create(self) -> None:
        topic = self._tp.topic
        async with AsyncAdmin(self._config) as admin:
            with suppress(TopicAlreadyExists):
                await admin.create_topics({topic: 1}, configs={"cleanup.policy": "compact"})
            policy = (await admin.describe_topic_configs(topic))["cleanup.policy"].value or ""
            if "compact" not in policy:
                raise SettingsError(
                    f"topic {topic} has cleanup.policy={policy} and would lose schemas: "
                    f"tidelog topic alter {topic} --config cleanup.policy=compact"
                )
            if len((await admin.describe_topics([topic]))[topic].partitions) != 1:
                raise SettingsError(
                    f"topic {topic} must have one partition; give the registry another topic"
                )

    async def _read_for_ever(self) -> None:
        while True:
            try:
                await self._read()
                continue
            except OffsetOutOfRange:
                await self._begin_again()
            except KafkaError as error:
                _log.warning("reading %s: %s; trying again", self._tp.topic, error)
            except TidelogError:
                _log.exception("reading %s failed", self._tp.topic)
            await asyncio.sleep(_PAUSE_S)

    async def _begin_again(self) -> None:
        try:
            first = await self._edge(EARLIEST)
        except KafkaError as error:
            _log.warning("reading %s: %s; trying again", self._tp.topic, error)
            return
        _log.warning("%s does not reach offset %d any more: reading it anew", self._tp, self._next)
        self._restart()
        self._next = first

    async def _read(self) -> None:
        assert self._consumer is not None
        chunk = await self._consumer.fetch_chunk(*self._tp, self._next, _FETCH_BYTES)
        following = self._next
        for _, header in iterate_batches(chunk.records):
            following = max(following, header.last_offset + 1)
        if following == self._next:
            return
        for message in decode_chunk(chunk):
            try:
                entry = decode(message.key, message.value)
            except UnreadableRecord as error:
                _log.warning("%s offset %d is skipped: %s", self._tp, message.offset, error)
                continue
            if entry is not None:
                self._replay(entry)
        async with self._moved:
            self._next = following
            self._moved.notify_all()
