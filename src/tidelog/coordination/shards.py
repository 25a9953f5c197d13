"""The shards of one coordinator: which of them a key belongs to, who leads it, and when each is loaded.

A coordinator's internal topic is made when somebody first needs it.  A shard is loaded when this broker begins to lead
its partition, is forgotten when another one does, and is loaded again, on demand or after a while, if it had to be given up.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Generic, TypeVar

from tidelog.cluster.image import Image, PartitionState
from tidelog.cluster.lease import Lease
from tidelog.cluster.partition import Partition
from tidelog.cluster.partitions import Partitions
from tidelog.coordination.runtime import Journal, Runtime, told
from tidelog.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    KafkaError,
    NotCoordinator,
)

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
        broker_id: int,
        runtime: Runtime[R],
        image: Callable[[], Image],
        partitions: Partitions,
        ensure_topic: Callable[[str], Awaitable[object]],
        journal: Callable[[Partition], Journal[R]],
        lease: Lease | None = None,
    ) -> None:
        """Without a lease nobody else can come to lead them unheard."""
        self.topic = topic
        self._broker_id = broker_id
        self._runtime = runtime
        self._image = image
        self._partitions = partitions
        self._ensure_topic = ensure_topic
        self._journal = journal
        self._lease = lease
        self._epochs: dict[int, int] = {}
        """By shard that was loaded here: the leader epoch in which it was."""
        runtime.load_again = self._follow_one

    @property
    def count(self) -> int:
        """How many there are; 0 before the topic is made."""
        return self._image().partition_count(self.topic)

    def follow(self) -> None:
        """Load what this broker leads by now, and forget what it leads no longer."""
        for index in range(self.count):
            self._follow_one(index)

    def _follow_one(self, index: int) -> None:
        state = self._state(index)
        if state.leader == self._broker_id:
            self._lead(index, state.leader_epoch)
        else:
            self._resign(index)

    def leader_of(self, index: int) -> int:
        """The broker that coordinates this shard; raises while there is none."""
        if not 0 <= index < self.count:
            raise CoordinatorNotAvailable
        leader = self._state(index).leader
        if leader < 0:
            raise CoordinatorNotAvailable
        return leader

    async def locate(self, key: str) -> int:
        """The shard of a group or transactional id, whoever leads it."""
        count = self.count
        if not count:
            await self._ensure_topic(self.topic)
            count = self.count
            if not count:
                raise CoordinatorNotAvailable
        return shard_of(key, count)

    async def find(self, key: str) -> int:
        """The broker that coordinates the shard of `key`; if it is this one, the shard is loaded."""
        index = await self.locate(key)
        leader = self.leader_of(index)
        if leader == self._broker_id:
            if self._is_in_doubt(index):
                raise CoordinatorNotAvailable
            await self.ensure_loaded(index)
        return leader

    async def index_of(self, key: str) -> int:
        """The shard of a group or transactional id, loaded here; raises while it is not."""
        index = await self.locate(key)
        await self.ensure_loaded(index)
        return index

    async def ensure_loaded(self, index: int) -> None:
        """Load the shard unless it is loaded; a long load raises `CoordinatorLoadInProgress`.

        Raises `NotCoordinator` if another may coordinate it by now: what is known here of a group may be old.
        """
        if self._is_in_doubt(index):
            raise NotCoordinator
        if self._runtime.is_loaded(index):
            return
        if self.leader_of(index) != self._broker_id:
            raise NotCoordinator
        try:
            size_bytes = self._partitions.get(self.topic, index).log.size_bytes
        except KafkaError as error:
            raise told(error) from None
        task = self._lead(index, self._state(index).leader_epoch)
        if task is None:
            return
        if size_bytes > _LOADED_AT_ONCE_BYTES:
            raise CoordinatorLoadInProgress
        await asyncio.wait({task})

    def _is_in_doubt(self, index: int) -> bool:
        lease = self._lease
        if lease is None or not lease.is_over:
            return False
        try:
            return lease.is_in_doubt(self._partitions.get(self.topic, index))
        except KafkaError:
            return False  # its disk failed; whoever loads it says so

    def _state(self, index: int) -> PartitionState:
        return self._image().topics[self.topic].partitions[index]

    def _lead(self, index: int, leader_epoch: int) -> "asyncio.Task[None] | None":
        """Load the shard, unless it was in this very epoch; somebody else may have led it in between."""
        if self._epochs.get(index) == leader_epoch:
            if self._runtime.is_loaded(index):
                return None
        else:
            self._resign(index)
        try:
            partition = self._partitions.get(self.topic, index)
        except KafkaError:
            return None  # its disk failed; whoever asks is told
        self._epochs[index] = leader_epoch
        return self._runtime.load(index, self._journal(partition))

    def _resign(self, index: int) -> None:
        if self._epochs.pop(index, None) is not None:
            self._runtime.unload(index)


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
