"""The compacted topic at the target in which the offset map of one source is kept."""

from contextlib import suppress
from typing import Any

from tidelog.client.admin import AsyncAdmin
from tidelog.client.consumer import AsyncConsumer
from tidelog.errors import TopicAlreadyExists
from tidelog.mirror.offset_map import OffsetMap
from tidelog.mirror.options import OFFSETS_PREFIX
from tidelog.names import TopicPartition

_END = -1


class OffsetTopic:
    """Where a map is read from, and which of its entries are still to be written."""

    def __init__(self, source: str, config: dict[str, Any]) -> None:
        self.topic = OFFSETS_PREFIX + source
        self._config = config
        self._due: dict[TopicPartition, None] = {}
        self._read_to = 0

    async def create(self, target: AsyncAdmin) -> None:
        """Make the topic if it is not there; one partition, because order matters."""
        if self.topic in await target.list_topics(internal=True):
            return
        with suppress(TopicAlreadyExists):  # another mirror was faster
            await target.create_topics({self.topic: 1}, configs={"cleanup.policy": "compact"})

    async def replay(self, map: OffsetMap) -> None:
        """Bring the map up to date with what is in the topic now."""
        place = TopicPartition(self.topic, 0)
        config = {**self._config, "isolation.level": "read_committed", "fetch.max.wait.ms": 50}
        async with AsyncConsumer(config) as consumer:
            await consumer.assign([place])
            found = await consumer.find_offsets({place: _END})
            end = found[place].offset
            if end <= self._read_to:
                return
            await consumer.seek(*place, self._read_to)
            while await consumer.position(*place) < end:
                before = await consumer.position(*place)
                for message in await consumer.poll(timeout=1.0):
                    map.replay(message.key, message.value)
                if await consumer.position(*place) == before:
                    return  # an open transaction is in the way; the next time will do
            self._read_to = end

    def due(self, tp: TopicPartition) -> None:
        """The map has a new entry for this partition."""
        self._due[tp] = None

    @property
    def has_due(self) -> bool:
        return bool(self._due)

    def take_due(self) -> list[TopicPartition]:
        """The partitions whose newest entry is to be written."""
        due, self._due = self._due, {}
        return list(due)
