"""SimpleConsumer: reads a partition from an offset that the caller keeps; no state but its connections.

with SimpleConsumer(bootstrap_servers="localhost:9092") as consumer:
    messages = consumer.fetch("orders", 0, offset=42, max_bytes=65_536)
"""

from collections.abc import Mapping
from typing import Any, Unpack, cast

from tidelog.client.background import Blocking, blocking
from tidelog.client.closing import Closing
from tidelog.client.cluster import FETCH, Cluster
from tidelog.client.decoding import Chunk, decode_chunk
from tidelog.client.fetching import fetch_request, fetched
from tidelog.client.keywords import Keywords
from tidelog.client.message import Message
from tidelog.client.offsets import EARLIEST, LATEST, find_offsets
from tidelog.client.options import ConsumerOptions
from tidelog.client.settings import ConsumerSettings, load
from tidelog.errors import KafkaError, OffsetOutOfRange, error_of
from tidelog.names import TopicPartition
from tidelog.protocol.messages.fetch import FetchResponse
from tidelog.records.batch import iterate_batches


class AsyncSimpleConsumer(Closing):
    """Stateless reading on the running loop."""

    __signature__ = Keywords(ConsumerSettings)

    def __init__(
        self, config: Mapping[str, Any] | None = None, **options: Unpack[ConsumerOptions]
    ) -> None:
        self.settings = load(ConsumerSettings, config, options)
        self._cluster = Cluster(self.settings)

    async def fetch(
        self, topic: str, partition: int, offset: int, max_bytes: int = 1_048_576
    ) -> list[Message]:
        """The messages from `offset` on, about `max_bytes` of them but one batch at least; waits for the first a moment."""
        while True:
            chunk = await self.fetch_chunk(topic, partition, offset, max_bytes)
            messages, offset = _read(chunk)
            if messages or offset == chunk.fetch_offset:
                return messages

    async def fetch_chunk(self, topic: str, partition: int, offset: int, max_bytes: int) -> Chunk:
        """The same, not decoded."""
        tp = TopicPartition(topic, partition)

        async def ask() -> Chunk:
            leader = await self._cluster.leader(topic, partition)
            request, at_most = fetch_request(
                self._cluster, self.settings, {tp: offset}, max_bytes, max_bytes
            )
            answer = await self._cluster.ask(leader.node, request, purpose=FETCH, at_most=at_most)
            try:
                return _only(self._cluster, cast(FetchResponse, answer), tp, offset)
            except KafkaError as error:
                if error.retriable:
                    await self._cluster.refresh([topic])
                raise

        return await self._cluster.retrying(ask)

    async def offsets_before(
        self, topic: str, partition: int, time: int, max_num_offsets: int = 1
    ) -> list[int]:
        """Valid offsets before a time in ms, latest first; -1 stands for the latest time, -2 for the earliest.

        The broker's current protocol finds one offset for a time; the partition's first offset follows it when two are asked.
        """
        tp = TopicPartition(topic, partition)
        wanted = {time} | ({EARLIEST} if max_num_offsets > 1 else set())
        found = {
            each: (await find_offsets(self._cluster, {tp: each}))[tp].offset for each in wanted
        }
        if found[time] < 0:  # nothing is that young: everything is before it
            found[time] = (await find_offsets(self._cluster, {tp: LATEST}))[tp].offset
        return sorted(set(found.values()), reverse=True)[:max_num_offsets]

    async def finish(self) -> None:
        """Nothing is left open."""

    async def let_go(self) -> None:
        """Close the connections."""
        await self._cluster.close()

    def abandon(self) -> None:
        self._cluster.abandon()


class SimpleConsumer(Blocking[AsyncSimpleConsumer]):
    """Stateless reading, blocking."""

    __signature__ = Keywords(ConsumerSettings)

    def __init__(
        self, config: Mapping[str, Any] | None = None, **options: Unpack[ConsumerOptions]
    ) -> None:
        super().__init__(lambda: AsyncSimpleConsumer(config, **options), "tidelog-simple-consumer")

    def fetch(
        self, topic: str, partition: int, offset: int, max_bytes: int = 1_048_576
    ) -> list[Message]:
        """The messages from `offset` on, about `max_bytes` of them but one batch at least; waits for the first a moment."""
        while True:
            chunk = self._thread.run(self._core.fetch_chunk(topic, partition, offset, max_bytes))
            messages, offset = _read(chunk)
            if messages or offset == chunk.fetch_offset:
                return messages

    offsets_before = blocking(AsyncSimpleConsumer.offsets_before)


def _read(chunk: Chunk) -> tuple[list[Message], int]:
    """The messages, and where the next chunk begins: one may hold nothing but what was aborted, and markers."""
    end = chunk.fetch_offset
    for _, header in iterate_batches(chunk.records):
        end = max(end, header.last_offset + 1)
    return decode_chunk(chunk), end


def _only(cluster: Cluster, answer: FetchResponse, tp: TopicPartition, offset: int) -> Chunk:
    if answer.error_code:
        raise error_of(answer.error_code)
    for found, data in fetched(cluster, answer):
        if found != tp:
            continue
        if data.error_code == OffsetOutOfRange.code:
            raise OffsetOutOfRange(
                f"{tp} has no offset {offset}; offsets_before tells where it begins"
            )
        if data.error_code:
            raise error_of(data.error_code, f"fetch from {tp}: {error_of(data.error_code)}")
        aborted = None
        if data.aborted_transactions is not None and data.last_stable_offset >= 0:
            aborted = tuple(
                (each.producer_id, each.first_offset) for each in data.aborted_transactions
            )
        return Chunk(tp, offset, memoryview(data.records or b""), aborted, data.high_watermark)
    raise error_of(-1, f"the broker's answer does not speak of {tp}")
