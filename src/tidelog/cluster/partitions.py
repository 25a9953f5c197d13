"""The partitions of which this broker has a replica: found by name, by topic id, or as a Produce request names them."""

from collections.abc import Callable, Iterator
from uuid import UUID

from tidelog.cluster.image import Image
from tidelog.cluster.partition import Partition
from tidelog.cluster.traffic import TopicsTraffic
from tidelog.errors import (
    KafkaError,
    KafkaStorageError,
    NotLeaderOrFollower,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from tidelog.kernel import write_uvarint


class Partitions:
    """The partitions that this broker has: those it leads by name and by topic id, and all it holds."""

    def __init__(self, image: Callable[[], Image] | None = None) -> None:
        """`image` tells a partition that is elsewhere from one that is nowhere."""
        self._image = image
        self.traffic = TopicsTraffic()
        """What goes through them."""
        self._by_name: dict[tuple[str, int], Partition] = {}
        """Led here; so the next two."""
        self._by_id: dict[tuple[bytes, int], Partition] = {}
        self._by_place: dict[bytes, Partition] = {}
        self._hosted: dict[tuple[str, int], Partition] = {}
        """Led or followed here."""
        self._known_ids: dict[bytes, str] = {}
        self._held: dict[bytes, int] = {}
        """How many partitions of a topic are here, by its id."""
        self._offline: dict[tuple[str, int], KafkaError] = {}
        self.heard_ms: dict[int, int] = {}
        """By follower when it last fetched anything here."""

    def __iter__(self) -> Iterator[Partition]:
        """Those that this broker leads."""
        return iter(list(self._by_name.values()))

    def __len__(self) -> int:
        return len(self._by_name)

    def add(self, partition: Partition) -> None:
        """The broker has this partition from now on, and leads it unless it says otherwise."""
        key = (partition.topic, partition.index)
        topic_id = partition.topic_id.bytes
        if key not in self._hosted:
            self._held[topic_id] = self._held.get(topic_id, 0) + 1
        self._hosted[key] = partition
        self._known_ids[topic_id] = partition.topic
        self._offline.pop(key, None)
        self.role_changed(partition)

    def role_changed(self, partition: Partition) -> None:
        """The partition leads or follows, as it says."""
        key = (partition.topic, partition.index)
        topic_id = partition.topic_id.bytes
        if partition.not_leading is None:
            self._by_name[key] = partition
            self._by_id[topic_id, partition.index] = partition
            self._by_place[_place(partition)] = partition
        elif self._by_name.pop(key, None) is not None:
            del self._by_id[topic_id, partition.index]
            del self._by_place[_place(partition)]

    def remove(self, topic: str, index: int, error: KafkaError | None = None) -> None:
        """The partition is deleted, or held elsewhere; who waits for it is told `error`."""
        self._offline.pop((topic, index), None)
        partition = self._hosted.pop((topic, index), None)
        if partition is None:
            return
        partition.stop(error or UnknownTopicOrPartition())
        self.role_changed(partition)
        topic_id = partition.topic_id.bytes
        self._held[topic_id] -= 1
        if not self._held[topic_id]:
            del self._held[topic_id], self._known_ids[topic_id]
            self.traffic.forget(topic)

    def set_offline(self, topic: str, index: int, error: KafkaError | None = None) -> None:
        """The disk of this partition failed: it answers `KafkaStorageError` from now on."""
        reason = error or KafkaStorageError()
        self.remove(topic, index, reason)
        self._offline[topic, index] = reason

    def maybe_get(self, topic: str, index: int) -> Partition | None:
        """The partition, if it is led here."""
        return self._by_name.get((topic, index))

    def get(self, topic: str, index: int) -> Partition:
        """The partition that is led here; raises `NotLeaderOrFollower` for one that is not, `UnknownTopicOrPartition`
        for one that is nowhere, `KafkaStorageError` where its disk failed."""
        partition = self._by_name.get((topic, index))
        if partition is None:
            raise self._why_not(topic, index)
        return partition

    def maybe_hosted(self, topic: str, index: int) -> Partition | None:
        """The partition, if this broker leads or follows it."""
        return self._hosted.get((topic, index))

    def hosted(self, topic: str, index: int) -> Partition:
        """The partition that this broker leads or follows; raises as `get`."""
        partition = self._hosted.get((topic, index))
        if partition is None:
            raise self._why_not(topic, index)
        return partition

    def all_hosted(self) -> list[Partition]:
        return list(self._hosted.values())

    @property
    def offline_count(self) -> int:
        """How many replicas are here whose disk failed."""
        return len(self._offline)

    def by_place(self, place: bytes) -> Partition | None:
        """The partition that a flexible Produce request names with these bytes (`kernel.runs`)."""
        return self._by_place.get(place)

    def get_by_id(self, topic_id: UUID | bytes, index: int) -> Partition:
        """The partition that is led here; an id that no topic has raises `UnknownTopicId`."""
        raw = topic_id if isinstance(topic_id, bytes) else topic_id.bytes
        partition = self._by_id.get((raw, index))
        if partition is not None:
            return partition
        raise self._why_not(self.name_of(raw), index)

    def hosted_by_id(self, topic_id: bytes, index: int) -> Partition:
        """The partition that this broker leads or follows; raises as `get_by_id`."""
        return self.hosted(self.name_of(topic_id), index)

    def name_of(self, topic_id: bytes) -> str:
        """The topic with this id; `UnknownTopicId` if there is none."""
        name = self._known_ids.get(topic_id)
        if name is None and self._image is not None:
            name = self._image().topic_names.get(UUID(bytes=topic_id))
        if name is None:
            raise UnknownTopicId
        return name

    def _why_not(self, topic: str, index: int) -> KafkaError:
        offline = self._offline.get((topic, index))
        if offline is not None:
            return offline
        if (topic, index) in self._hosted:
            return NotLeaderOrFollower()
        known = self._image().topics.get(topic) if self._image is not None else None
        if known is not None and 0 <= index < len(known.partitions):
            return NotLeaderOrFollower()
        return UnknownTopicOrPartition()


def _place(partition: Partition) -> bytes:
    name = partition.topic.encode()
    place = bytearray()
    write_uvarint(place, len(name) + 1)
    place += name
    place.append(2)  # an array of one
    place += partition.index.to_bytes(4, "big")
    return bytes(place)
