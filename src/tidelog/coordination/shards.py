"""The shards of one coordinator: which of them a key belongs to, and when each is loaded.

A coordinator's internal topic is made when somebody first needs it.  A shard is loaded when this broker begins to lead
its partition, and again on demand if it had to be given up.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Generic, TypeVar

from tidelog.cluster.image import Image
from tidelog.cluster.partition import Partition, Partitions
from tidelog.coordination.runtime import Journal, Runtime
from tidelog.errors import CoordinatorLoadInProgress, CoordinatorNotAvailable

R = TypeVar("R")

_LOADED_AT_ONCE_BYTES = 1 << 20
"""A request waits for the load of a log up to this size; for a larger one it is told to come back."""
_MAX_CACHED_ID = 64


class Shards(Generic[R]):
    """The partitions of an internal topic, as shards of a runtime."""

    def __init__(
        self,
        topic: str,
        *,
        runtime: Runtime[R],
        image: Callable[[], Image],
        partitions: Partitions,
        ensure_topic: Callable[[str], Awaitable[object]],
        journal: Callable[[Partition], Journal[R]],
    ) -> None:
        self.topic = topic
        self._runtime = runtime
        self._image = image
        self._partitions = partitions
        self._ensure_topic = ensure_topic
        self._journal = journal

    @property
    def count(self) -> int:
        """How many there are; 0 before the topic is made."""
        return self._image().partition_count(self.topic)

    def start(self) -> None:
        """Begin to load every shard that this broker leads."""
        for index in range(self.count):
            self.lead(index)

    def lead(self, index: int) -> None:
        """This broker leads this partition of the topic from now on."""
        partition = self._partitions.maybe_get(self.topic, index)
        if partition is not None and not self._runtime.is_loaded(index):
            self._runtime.load(index, self._journal(partition))

    async def index_of(self, key: str) -> int:
        """The shard of a group or transactional id, loaded; raises while it is not."""
        count = self.count
        if not count:
            await self._ensure_topic(self.topic)
            count = self.count
            if not count:
                raise CoordinatorNotAvailable
        index = shard_of(key, count)
        await self.ensure_loaded(index)
        return index

    async def ensure_loaded(self, index: int) -> None:
        """Load the shard unless it is loaded; a long load raises `CoordinatorLoadInProgress`."""
        if self._runtime.is_loaded(index):
            return
        partition = self._partitions.maybe_get(self.topic, index)
        if partition is None:
            raise CoordinatorNotAvailable
        task = self._runtime.load(index, self._journal(partition))
        if partition.log.size_bytes > _LOADED_AT_ONCE_BYTES:
            raise CoordinatorLoadInProgress
        await asyncio.wait({task})


def shard_of(key: str, partition_count: int) -> int:
    """The partition that an id belongs to: the absolute value of Java's `String.hashCode`, as Kafka's Utils.abs."""
    hashed = _java_hash if len(key) > _MAX_CACHED_ID else _cached_java_hash
    value = hashed(key)
    # The least int has no positive counterpart, and counts as 0.
    return (min(value, -value & 0xFFFFFFFF) & 0x7FFFFFFF) % partition_count


def _java_hash(key: str) -> int:
    units = key.encode("utf-16-be", "surrogatepass")
    value = 0
    for position in range(0, len(units), 2):
        value = (31 * value + (units[position] << 8 | units[position + 1])) & 0xFFFFFFFF
    return value


_cached_java_hash = lru_cache(maxsize=4096)(_java_hash)
