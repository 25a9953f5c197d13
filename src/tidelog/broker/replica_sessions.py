"""The fetch session of a follower: only what has something new is looked at.

A follower fetches for thousands of partitions, of which few are written to at a time.  One that has all that there is, and
knows it, is *parked*: it is not looked at again before the partition itself tells that it has grown, that more of
it is committed, or that its ISR has changed.  A request then costs what has changed, and not what is followed.

While it is parked the follower counts as fetching: `Follower.fetched` is made up for when the partition grows, with the time
of the last request.
"""

from tidelog.broker.fetch_sessions import Key, Session, Wanted
from tidelog.cluster.partition import Partition
from tidelog.cluster.waiting import Wait, Waiting
from tidelog.errors import KafkaError
from tidelog.kernel.requests import FetchTopics, ForgottenTopics

_LOOK_AT_ALL_MS = 10_000
"""Everything is looked at so often: what moves without telling, such as the log's start, is told then."""


class ReplicaSession(Session):
    """See the module's docstring; a watcher of all its partitions."""

    __slots__ = (
        "_active",
        "_fetched_ms",
        "_follower",
        "_looked_ms",
        "_needed_bytes",
        "_parked",
        "_wait",
        "_waiting",
        "_watched",
    )

    def __init__(
        self, session_id: int, by_topic_id: bool, wanted: dict[Key, Wanted], used_ms: int
    ) -> None:
        super().__init__(session_id, by_topic_id, wanted, used_ms)
        self._active = dict(wanted)
        """What the next look is at, in the order in which it is served."""
        self._parked: dict[Partition, Wanted] = {}
        self._watched: dict[Key, Partition] = {}
        self._follower = -1
        self._fetched_ms = used_ms
        self._looked_ms = used_ms
        self._wait: Wait | None = None
        self._waiting: Waiting | None = None
        self._needed_bytes = 0

    def update(self, topics: FetchTopics, forgotten: ForgottenTopics) -> None:
        super().update(topics, forgotten)
        for topic, indexes in forgotten:
            for index in indexes:
                self._forget((topic, index))
        for topic, partitions in topics:
            for each in partitions:
                key = (topic, each[0])
                partition = self._watched.get(key)
                if partition is not None:
                    self._parked.pop(partition, None)
                self._active.pop(key, None)  # to the end: what was served comes last
                self._active[key] = self.wanted[key]

    def requested(self, follower: int, now_ms: int) -> None:
        """A request has come."""
        self._follower = follower
        self._fetched_ms = now_ms
        self._wait = None
        if now_ms - self._looked_ms >= _LOOK_AT_ALL_MS:
            self._looked_ms = now_ms
            for partition in list(self._parked):
                self._wake_up(partition)

    def to_look_at(self) -> list[Wanted]:
        return list(self._active.values())

    def looked(self, wanted: Wanted, partition: Partition) -> None:
        """A partition was read: park it if there is nothing more to tell."""
        key = (wanted.topic, wanted.index)
        if self._watched.get(key) is not partition:
            self._forget(key)
            self._active[key] = wanted
            self._watched[key] = partition
        partition.replica_watchers[self] = None
        log, followers = partition.log, partition.followers
        if (
            wanted.offset == log.log_end_offset
            and wanted.told_high_watermark == log.high_watermark
            and wanted.told_log_start == log.log_start_offset
            and followers is not None
            and self._follower in followers.isr
        ):
            self._active.pop(key, None)
            self._parked[partition] = wanted

    def wait(self, waiting: Waiting, wait: Wait, needed_bytes: int) -> None:
        """Wake `wait` when so many bytes more have been written."""
        self._waiting, self._wait, self._needed_bytes = waiting, wait, needed_bytes

    def close(self) -> None:
        """The session is over."""
        for partition in self._watched.values():
            partition.replica_watchers.pop(self, None)
        self._watched.clear()
        self._parked.clear()

    # What a partition tells.

    def advanced(self, partition: Partition, grown_bytes: int) -> None:
        self._wake_up(partition)
        wait = self._wait
        if wait is not None:
            self._needed_bytes -= grown_bytes
            if self._needed_bytes <= 0:
                self._end_wait(wait)

    def settled(self, partition: Partition) -> None:
        self._wake_up(partition)

    def failed(self, partition: Partition, error: KafkaError) -> None:
        self._wake_up(partition)
        if self._wait is not None:
            self._end_wait(self._wait)

    def _end_wait(self, wait: Wait) -> None:
        self._wait = None
        assert self._waiting is not None
        self._waiting.wake(wait)

    def _wake_up(self, partition: Partition) -> None:
        wanted = self._parked.pop(partition, None)
        if wanted is None:
            return
        self._active[wanted.topic, wanted.index] = wanted
        followers = partition.followers
        follower = followers.by_id.get(self._follower) if followers is not None else None
        if follower is not None and follower.log_end_offset == wanted.offset:
            # It had everything when it last asked.
            follower.fetched(
                wanted.offset,
                follower.log_start_offset,
                follower.broker_epoch,
                self._fetched_ms,
                wanted.offset,
            )

    def _forget(self, key: Key) -> None:
        self._active.pop(key, None)
        partition = self._watched.pop(key, None)
        if partition is not None:
            self._parked.pop(partition, None)
            partition.replica_watchers.pop(self, None)
