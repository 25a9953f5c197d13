"""A partition as this broker leads it: its log, what of it is committed, and who waits for more.

`Partition` joins the log (sync, on the loop) with the two things that take time: the flush of an append that
the flush policy asks for, and readers that wait for data.  With one replica the high watermark follows the
log's end, at once or when the flush is done.  `Partitions` finds them by name and by topic id.

    appended = partition.append(batch, header)
    waiting = partition.committed(appended.last_offset)     # None: already committed
    if waiting is not None:
        await waiting

Runs on the loop alone; nothing here is locked.
"""

import asyncio
import logging
from collections.abc import Iterator
from typing import Protocol
from uuid import UUID

from tidelog.errors import (
    FencedLeaderEpoch,
    KafkaError,
    KafkaStorageError,
    NotEnoughReplicas,
    UnknownLeaderEpoch,
    UnknownServerError,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from tidelog.kernel import write_uvarint
from tidelog.names import TopicPartition
from tidelog.records.batch import BatchHeader
from tidelog.records.validate import Rules
from tidelog.storage import gathering
from tidelog.storage.config import LogConfig
from tidelog.storage.flusher import Flusher
from tidelog.storage.gathering import Gathered
from tidelog.storage.log import Appended, Log, Region

_log = logging.getLogger(__name__)

_IN_SYNC = 1
"""Replicas in sync: the leader alone, there are no followers yet."""

READ_UNCOMMITTED = 0
READ_COMMITTED = 1


class Watcher(Protocol):
    """Wants to hear when more of a partition can be read."""

    def advanced(self, partition: "Partition", grown_bytes: int) -> None:
        """The high watermark or the last stable offset has moved."""
        ...

    def failed(self, partition: "Partition", error: KafkaError) -> None:
        """The partition is gone, or is led by someone else now."""
        ...


class Partition:
    """One partition that this broker leads."""

    __slots__ = (
        "_commit_waiters",
        "_config",
        "_flush",
        "_flusher",
        "_rules",
        "_unseen_bytes",
        "gone",
        "index",
        "leader_epoch",
        "log",
        "topic",
        "topic_id",
        "watchers",
    )

    def __init__(
        self,
        topic: str,
        index: int,
        topic_id: UUID,
        log: Log,
        leader_epoch: int,
        *,
        flusher: Flusher,
    ) -> None:
        self.topic = topic
        self.index = index
        self.topic_id = topic_id
        self.log = log
        self.leader_epoch = leader_epoch
        self.watchers: dict[Watcher, None] = {}
        self.gone: KafkaError | None = None
        """Why this partition can no longer be used; None while it can."""
        self._config: LogConfig | None = None
        self._rules: Rules | None = None
        self._flusher = flusher
        self._flush: asyncio.Task[None] | None = None
        self._commit_waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._unseen_bytes = 0
        """Appended, but not yet below the high watermark."""

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.index)

    @property
    def high_watermark(self) -> int:
        """Records below it are committed, and may be read."""
        return self.log.high_watermark

    @property
    def last_stable_offset(self) -> int:
        """Records below it belong to no open transaction.  Invariant: <= high_watermark."""
        return self.log.last_stable_offset

    @property
    def log_start_offset(self) -> int:
        return self.log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self.log.log_end_offset

    # ------------------------------------------------------------------ writing

    @property
    def rules(self) -> Rules:
        """What a batch from a client has to keep to, from the topic's settings."""
        config = self.log.config
        if config is not self._config or self._rules is None:
            self._rules = Rules.of(config)
            self._config = config
        return self._rules

    def append(
        self,
        batch: memoryview | bytearray,
        header: BatchHeader,
        *,
        acks: int = 1,
        coordinator: bool = False,
    ) -> Appended:
        """Append one checked batch; its base offset and leader epoch are written into `batch`.

        With `acks` -1 it is refused if fewer replicas are in sync than the topic asks for.
        """
        if self.gone is not None:
            raise self.gone
        log = self.log
        if acks == -1 and log.config.min_insync_replicas > _IN_SYNC:
            raise NotEnoughReplicas
        appended = log.append_as_leader(
            batch, leader_epoch=self.leader_epoch, header=header, coordinator=coordinator
        )
        if appended.duplicate:
            return appended
        self._unseen_bytes += header.length
        if self._flush is None:
            if log.flush_due():
                self._start_flush()
            else:
                self._follow_log_end()
        return appended

    def takes_gathered(self, gathered: Gathered, acks: int, now_ms: int) -> bool:
        """Whether these checked batches may be appended together: an ordinary topic, and nothing to wait for."""
        rules, log = self.rules, self.log
        return (
            self.gone is None
            and self._flush is None
            and rules.ordinary
            and gathered.largest_bytes <= rules.max_message_bytes
            and gathered.newest_ms - now_ms <= rules.after_max_ms
            and (acks != -1 or log.config.min_insync_replicas <= _IN_SYNC)
            and gathering.fits(log, gathered, self.leader_epoch)
        )

    def append_gathered(self, gathered: Gathered) -> int:
        """Append small batches that `takes_gathered` agreed to; returns the base offset of the first.

        They are committed when it returns.  If the disk fails none of them is there.
        """
        base_offset = gathering.append(self.log, gathered, self.leader_epoch)
        self._unseen_bytes += gathered.size_bytes
        self._follow_log_end()
        return base_offset

    def flushed(self, last_offset: int) -> "asyncio.Future[None] | None":
        """As `committed`, for who asks only for what the flush policy promises (acks=1)."""
        return None if self._flush is None else self.committed(last_offset)

    def committed(self, last_offset: int) -> "asyncio.Future[None] | None":
        """None if `last_offset` is committed, else a future that is done when it is.

        The future fails with a `KafkaError` if the flush fails or the partition goes away.
        """
        if last_offset < self.log.high_watermark:
            return None
        if self.gone is not None:
            raise self.gone
        waiter = asyncio.get_running_loop().create_future()
        self._commit_waiters.append((last_offset, waiter))
        return waiter

    # ------------------------------------------------------------------ reading

    def read(
        self,
        offset: int,
        max_bytes: int,
        isolation: int = READ_UNCOMMITTED,
        *,
        at_least_one: bool = True,
    ) -> Region | None:
        """The region of whole batches from the one that holds `offset`; None at the end.

        With `at_least_one` a batch is returned although it is larger than `max_bytes` (KIP-74).
        """
        if self.gone is not None:
            raise self.gone
        log = self.log
        up_to = log.last_stable_offset if isolation else log.high_watermark
        return log.read(offset, max_bytes, up_to=up_to, at_least_one=at_least_one)

    def readable_end(self, isolation: int) -> int:
        """The offset before which a reader of this isolation level may read."""
        return self.log.last_stable_offset if isolation else self.log.high_watermark

    def check_leader_epoch(self, current_leader_epoch: int) -> None:
        """Raise unless the client's idea of the leader's epoch is ours; -1 is not checked (KIP-320)."""
        if current_leader_epoch < 0 or current_leader_epoch == self.leader_epoch:
            return
        if current_leader_epoch < self.leader_epoch:
            raise FencedLeaderEpoch
        raise UnknownLeaderEpoch

    # ------------------------------------------------------------------ life

    def stop(self, error: KafkaError) -> None:
        """The partition is deleted, or led elsewhere: fail all who wait for it with `error`."""
        self.gone = error
        self._fail_commits(error)
        for watcher in list(self.watchers):
            watcher.failed(self, error)
        self.watchers.clear()

    def _follow_log_end(self) -> None:
        """With one replica, what needs no flush is committed when it is written."""
        if self.watchers or self._commit_waiters:
            self._advance(self.log.log_end_offset)
        else:
            self.log.high_watermark = self.log.log_end_offset
            self._unseen_bytes = 0

    def _advance(self, high_watermark: int) -> None:
        """Move the high watermark, and wake who waits for that."""
        self.log.high_watermark = high_watermark
        if self._commit_waiters:
            self._release_commits(high_watermark)
        if self.watchers:
            self._wake(self._unseen_bytes)
        self._unseen_bytes = 0

    def _wake(self, grown_bytes: int) -> None:
        for watcher in list(self.watchers):
            watcher.advanced(self, grown_bytes)

    def _release_commits(self, high_watermark: int) -> None:
        still: list[tuple[int, asyncio.Future[None]]] = []
        for last_offset, waiter in self._commit_waiters:
            if last_offset >= high_watermark:
                still.append((last_offset, waiter))
            elif not waiter.done():
                waiter.set_result(None)
        self._commit_waiters = still

    def _fail_commits(self, error: KafkaError) -> None:
        waiters, self._commit_waiters = self._commit_waiters, []
        for _, waiter in waiters:
            if not waiter.done():
                waiter.set_exception(error)

    def _start_flush(self) -> None:
        self._flush = asyncio.get_running_loop().create_task(self._flush_until_clean())

    async def _flush_until_clean(self) -> None:
        """Flush until no flush is due; appends made meanwhile share the next one."""
        log = self.log
        try:
            while True:
                end = log.log_end_offset
                await self._flusher.flush(log, end)
                if self.gone is not None:
                    return
                if not log.flush_due():
                    self._advance(log.log_end_offset)
                    return
                self._advance(end)
        except KafkaError as error:
            self._fail_commits(error)
        except OSError as error:
            self._fail_commits(
                KafkaStorageError(f"the flush of {log.topic_partition} failed: {error}")
            )
        except Exception:  # noqa: BLE001  (the root of the task)
            self._fail_commits(UnknownServerError())
            _log.exception("the flush of %s failed", log.topic_partition)
        finally:
            self._flush = None


class Partitions:
    """The partitions that this broker leads, by name and by topic id."""

    def __init__(self) -> None:
        self._by_name: dict[tuple[str, int], Partition] = {}
        self._by_id: dict[tuple[bytes, int], Partition] = {}
        self._by_place: dict[bytes, Partition] = {}
        self._known_ids: dict[bytes, str] = {}
        self._offline: dict[tuple[str, int], KafkaError] = {}

    def __iter__(self) -> Iterator[Partition]:
        return iter(list(self._by_name.values()))

    def __len__(self) -> int:
        return len(self._by_name)

    def add(self, partition: Partition) -> None:
        """The broker leads this partition from now on."""
        key = (partition.topic, partition.index)
        topic_id = partition.topic_id.bytes
        self._by_name[key] = partition
        self._by_id[topic_id, partition.index] = partition
        self._by_place[_place(partition)] = partition
        self._known_ids[topic_id] = partition.topic
        self._offline.pop(key, None)

    def remove(self, topic: str, index: int, error: KafkaError | None = None) -> None:
        """The partition is deleted, or led elsewhere; who waits for it is told `error`."""
        self._offline.pop((topic, index), None)
        partition = self._by_name.pop((topic, index), None)
        if partition is None:
            return
        topic_id = partition.topic_id.bytes
        del self._by_id[topic_id, index]
        del self._by_place[_place(partition)]
        if not any(key[0] == topic_id for key in self._by_id):
            del self._known_ids[topic_id]
        partition.stop(error or UnknownTopicOrPartition())

    def set_offline(self, topic: str, index: int, error: KafkaError | None = None) -> None:
        """The disk of this partition failed: it answers `KafkaStorageError` from now on."""
        reason = error or KafkaStorageError()
        self.remove(topic, index, reason)
        self._offline[topic, index] = reason

    def maybe_get(self, topic: str, index: int) -> Partition | None:
        return self._by_name.get((topic, index))

    def get(self, topic: str, index: int) -> Partition:
        """The partition; raises `UnknownTopicOrPartition` or, where its disk failed, `KafkaStorageError`."""
        partition = self._by_name.get((topic, index))
        if partition is None:
            raise self._offline.get((topic, index)) or UnknownTopicOrPartition()
        return partition

    def by_place(self, place: bytes) -> Partition | None:
        """The partition that a flexible Produce request names with these bytes (`kernel.runs`)."""
        return self._by_place.get(place)

    def get_by_id(self, topic_id: UUID | bytes, index: int) -> Partition:
        """The partition; an id that no topic has raises `UnknownTopicId`."""
        raw = topic_id if isinstance(topic_id, bytes) else topic_id.bytes
        partition = self._by_id.get((raw, index))
        if partition is not None:
            return partition
        name = self._known_ids.get(raw)
        if name is None:
            raise UnknownTopicId
        raise self._offline.get((name, index)) or UnknownTopicOrPartition()


def _place(partition: Partition) -> bytes:
    name = partition.topic.encode()
    place = bytearray()
    write_uvarint(place, len(name) + 1)
    place += name
    place.append(2)  # an array of one
    place += partition.index.to_bytes(4, "big")
    return bytes(place)
