"""A partition as this broker holds it: its log, what of it is committed, and who waits for more.

`Partition` joins the log (sync, on the loop) with what takes time: the flush of an append that the flush policy
asks for, the other replicas, and readers that wait for data.  It leads or it follows, as the image says:

    partition.become_leader(state)       # its followers are in `replica.py`; alone it has none
    partition.become_follower(state)     # a fetcher appends what the leader has (`fetcher.py`)

    appended = partition.append(batch, header)
    waiting = partition.committed(appended.last_offset)     # None: already committed
    if waiting is not None:
        await waiting

With one replica the high watermark follows the log's end, at once or when the flush is done; with more, when all that
are in sync have fetched.  `partitions.py` finds them by name and by topic id.
"""

import asyncio
import logging
from uuid import UUID

from tidelog.cluster.commits import Commits, Then
from tidelog.cluster.flush_task import flush_until_clean
from tidelog.cluster.image import PartitionState
from tidelog.cluster.replica import UNKNOWN_EPOCH, Followers
from tidelog.cluster.surroundings import Surroundings, Watcher
from tidelog.cluster.traffic import Growth, Traffic
from tidelog.errors import (
    FencedLeaderEpoch,
    KafkaError,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    UnknownLeaderEpoch,
)
from tidelog.names import TopicPartition
from tidelog.records.batch import BatchHeader
from tidelog.records.validate import Rules
from tidelog.storage import gathering
from tidelog.storage.config import LogConfig
from tidelog.storage.files import Buffer
from tidelog.storage.flusher import Flusher
from tidelog.storage.gathering import Gathered
from tidelog.storage.log import Appended, Log, Region
from tidelog.storage.producers import Producers

_log = logging.getLogger(__name__)

READ_UNCOMMITTED = 0
READ_COMMITTED = 1

_AT_ONCE = 1 << 62
"""So many bytes that nobody waits for more."""


class Partition:
    """One partition of which this broker has a replica."""

    __slots__ = (
        "_commits",
        "_config",
        "_deletions",
        "_flush",
        "_flusher",
        "_flushes",
        "_growth",
        "_own_end",
        "_rules",
        "_surroundings",
        "_unseen_bytes",
        "epoch_start_offset",
        "followers",
        "gone",
        "index",
        "leader",
        "leader_epoch",
        "log",
        "not_leading",
        "partition_epoch",
        "replica_watchers",
        "topic",
        "topic_id",
        "traffic",
        "watchers",
    )

    def __init__(
        self,
        topic: str,
        index: int,
        topic_id: UUID,
        log: Log,
        leader_epoch: int = UNKNOWN_EPOCH,
        *,
        flusher: Flusher,
        surroundings: Surroundings | None = None,
        traffic: Traffic | None = None,
    ) -> None:
        """With a leader epoch this broker leads the partition, alone; else it is told later what it is."""
        self.topic = topic
        self.index = index
        self.topic_id = topic_id
        self.log = log
        self.traffic = Traffic() if traffic is None else traffic
        """Of the topic; shared with its other partitions."""
        self._growth = Growth(log)
        self.leader_epoch = leader_epoch
        self.partition_epoch = UNKNOWN_EPOCH
        """Of the last state that was taken over.  Invariant: never goes back."""
        self.leader = -1
        """Id of the broker that leads, as far as this one knows; -1 for none."""
        self.followers: Followers | None = None
        """The other replicas, while this broker leads and there are any."""
        self.epoch_start_offset = log.log_end_offset
        """The log's end when this broker began to lead in this epoch."""
        self.watchers: dict[Watcher, None] = {}
        """Consumers that wait for the high watermark."""
        self.replica_watchers: dict[Watcher, None] = {}
        """Followers that wait for the log's end."""
        self.gone: KafkaError | None = None
        """Why there is no such replica here any more; None while there is."""
        self.not_leading: KafkaError | None = (
            None if leader_epoch >= 0 else NotLeaderOrFollower(f"{topic}-{index} is led elsewhere")
        )
        """Why this broker does not lead it; None while it does."""
        self._config: LogConfig | None = None
        self._rules: Rules | None = None
        self._flusher = flusher
        self._surroundings = surroundings
        self._flush: asyncio.Task[None] | None = None
        self._own_end = log.log_end_offset
        """The log's end as far as the flush policy lets it count; kept while there are followers."""
        self._commits = Commits()
        self._flushes = Commits()
        """Who waits for the flush alone; without followers that is the commit."""
        self._deletions = Commits()
        """Who waits until the replicas begin behind what was deleted."""
        self._unseen_bytes = 0
        """Appended, but not yet below the high watermark."""
        if leader_epoch >= 0:
            log.high_watermark = log.log_end_offset

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.index)

    @property
    def high_watermark(self) -> int:
        """Records below it are committed, and may be read."""
        return self.log.high_watermark

    @property
    def log_start_offset(self) -> int:
        return self.log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self.log.log_end_offset

    # ------------------------------------------------------------------ roles

    def become_leader(self, state: PartitionState) -> None:
        """The image says that this broker leads, or that something else of a partition it leads has changed."""
        if self.gone is not None or state.partition_epoch < self.partition_epoch:
            return  # the controller's answer to a proposal was here first
        log, surroundings = self.log, self._surroundings
        assert surroundings is not None
        assert state.leader_epoch >= self.leader_epoch, (state, self.leader_epoch)
        afresh = self.not_leading is not None
        if afresh:
            self._growth = Growth(log)
        if afresh or state.leader_epoch > self.leader_epoch:
            self.epoch_start_offset = self._own_end = log.log_end_offset
        self.leader, self.leader_epoch = surroundings.broker_id, state.leader_epoch
        self.partition_epoch = state.partition_epoch
        self.not_leading = None
        if len(state.replicas) > 1:
            followers = self.followers
            if followers is None:
                followers = self.followers = Followers(
                    surroundings.broker_id, surroundings.max_lag_ms, surroundings.eligible
                )
            now_ms, start = surroundings.now_ms(), self.epoch_start_offset
            before = followers.isr
            followers.assign(state, now_ms, log.log_end_offset, start, afresh=afresh)
            if not afresh:
                surroundings.isr_changed(self, before, followers.isr)
            self._tell_followers()
        else:
            if self.followers is not None:
                self._fail_waiters(self.replica_watchers, NotLeaderOrFollower())
            self.followers = None
        if afresh:
            # Consumers that read from this broker as a follower have to look at the epoch.
            self._fail_waiters(self.watchers, NotLeaderOrFollower())
        self.maybe_advance()

    def become_follower(self, state: PartitionState) -> bool:
        """The image says that another broker leads, or nobody; whether the leader or its epoch is new."""
        if self.gone is not None or state.partition_epoch < self.partition_epoch:
            return False
        assert state.leader_epoch >= self.leader_epoch, (state, self.leader_epoch)
        news = state.leader_epoch > self.leader_epoch or state.leader != self.leader
        self.leader, self.leader_epoch = state.leader, state.leader_epoch
        self.partition_epoch = state.partition_epoch
        if self.not_leading is None or news:
            self._resign(NotLeaderOrFollower(f"{self.topic}-{self.index} is led by {self.leader}"))
        return news

    def stop(self, error: KafkaError) -> None:
        """The replica is deleted, or its disk failed: fail all who wait for it with `error`."""
        self.gone = error
        self._resign(error)

    def count_in(self) -> None:
        """Add what was written here since the last time to `traffic`."""
        if self.not_leading is None:
            self._growth.count(self.log, self.traffic)

    def _resign(self, error: KafkaError) -> None:
        self.count_in()
        self.not_leading = error
        self.followers = None
        self.fail_commits(error)
        self._fail_waiters(self.watchers, error)
        self._fail_waiters(self.replica_watchers, error)

    def _fail_waiters(self, watchers: dict[Watcher, None], error: KafkaError) -> None:
        for watcher in list(watchers):
            watcher.failed(self, error)
        watchers.clear()

    def settle_isr(self, state: PartitionState) -> None:
        """The controller's answer to a proposal; the image will say the same, or said it already."""
        followers = self.followers
        if (
            followers is None
            or state.leader_epoch != self.leader_epoch
            or state.partition_epoch < self.partition_epoch
            or state.leader != self.leader
        ):
            return
        self.partition_epoch = state.partition_epoch
        before = followers.isr
        followers.settle(state.isr, state.partition_epoch)
        if self._surroundings is not None:
            self._surroundings.isr_changed(self, before, followers.isr)
        self._tell_followers()
        self.maybe_advance()

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
        if self.not_leading is not None:
            raise self.not_leading
        log = self.log
        if acks == -1 and self.followers is not None and not self.enough_in_sync:
            raise NotEnoughReplicas(
                f"{self.topic}-{self.index} has {len(self.followers.isr)} replicas in sync, "
                f"and min.insync.replicas is {log.config.min_insync_replicas}"
            )
        appended = log.append_as_leader(
            batch, leader_epoch=self.leader_epoch, header=header, coordinator=coordinator
        )
        if appended.duplicate:
            if self._flush is None and log.flush_due():
                self._start_flush()  # the one of the first time failed
            return appended
        self._unseen_bytes += header.length
        if self._flush is None:
            if log.flush_due():
                self._start_flush()
            else:
                self._follow_log_end()
        if self.replica_watchers:
            self._wake(self.replica_watchers, header.length)
        return appended

    def takes_gathered(self, gathered: Gathered, acks: int, now_ms: int) -> bool:
        """Whether these checked batches may be appended together: an ordinary topic, and nothing to wait for."""
        rules, log = self.rules, self.log
        return (
            self.not_leading is None
            and self._flush is None
            and rules.ordinary
            and gathered.largest_bytes <= rules.max_message_bytes
            and gathered.newest_ms - now_ms <= rules.after_max_ms
            and (acks != -1 or self.followers is None or self.enough_in_sync)
            and gathering.fits(log, gathered, self.leader_epoch)
        )

    def append_gathered(self, gathered: Gathered) -> int:
        """Append small batches that `takes_gathered` agreed to; returns the base offset of the first.

        With followers they are not committed yet when it returns.  If the disk fails none of them is there.
        """
        base_offset = gathering.append(self.log, gathered, self.leader_epoch)
        self._unseen_bytes += gathered.size_bytes
        self._follow_log_end()
        if self.replica_watchers:
            self._wake(self.replica_watchers, gathered.size_bytes)
        return base_offset

    @property
    def enough_in_sync(self) -> bool:
        """Whether as many replicas are in sync as acks=all asks for."""
        followers = self.followers
        return followers is None or followers.enough(self.log.config.min_insync_replicas)

    def delete_records(self, up_to: int) -> "asyncio.Future[None] | None":
        """Drop everything before `up_to`; None if that is done, else a future until all live replicas have done it."""
        if self.not_leading is not None:
            raise self.not_leading
        self.log.delete_records(up_to)
        if self.followers is None or self.low_watermark >= up_to:
            return None
        waiting = self._deletions.wait(up_to - 1)
        # They hear of the new start with their next answer.
        self._wake(self.replica_watchers, _AT_ONCE)
        return waiting

    @property
    def low_watermark(self) -> int:
        """The first offset that any replica on a live broker still has."""
        own = self.log.log_start_offset
        return own if self.followers is None else self.followers.low_watermark(own)

    @property
    def waiting_produces(self) -> int:
        """How many answers to producers wait here for a commit or a flush."""
        return len(self._commits) + len(self._flushes)

    @property
    def is_flushing(self) -> bool:
        """Whether what was written last waits for the flush that the flush policy asks for."""
        return self._flush is not None

    def flushed(self, last_offset: int) -> "asyncio.Future[None] | None":
        """As `committed`, for who asks only for what the flush policy promises (acks=1)."""
        if self._flush is None:
            return None
        if self.followers is None:
            return self.committed(last_offset)
        return None if last_offset < self._own_end else self._flushes.wait(last_offset)

    def committed(self, last_offset: int) -> "asyncio.Future[None] | None":
        """None if `last_offset` is committed, else a future that is done when it is.

        The future fails with a `KafkaError` if the flush fails or the broker leads the partition no longer.
        """
        if last_offset < self.log.high_watermark:
            return None
        if self.not_leading is not None:
            raise self.not_leading
        return self._commits.wait(last_offset)

    def when_committed(self, last_offset: int, then: Then) -> bool:
        """As `committed`, with a call in place of a future: `then(error)`; False if it is committed already."""
        if last_offset < self.log.high_watermark:
            return False
        self._commits.then(last_offset, then)
        return True

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

    def end_offset_for(self, epoch: int) -> tuple[int, int]:
        """The largest epoch at most `epoch`, and where it ended (OffsetForLeaderEpoch).

        The epoch in which this broker leads counts, although nothing may have been written in it yet: a follower can have
        records of a later epoch than any of ours, and has to learn that they are not part of the log.
        """
        led = self.leader_epoch if self.not_leading is None else UNKNOWN_EPOCH
        return self.log.end_offset_for(epoch, led)

    # ------------------------------------------------------------------ followers, at the leader

    def fetched_by(
        self, broker_id: int, broker_epoch: int, offset: int, log_start: int, now_ms: int
    ) -> None:
        """A follower fetches from `offset`, so it has all below: `diverged` said that it has the same as we."""
        followers = self._followers_with(broker_id)
        log_end = self.log.log_end_offset
        moved = followers.fetched(broker_id, offset, log_start, broker_epoch, now_ms, log_end)
        surroundings = self._surroundings
        if surroundings is not None and followers.joins(broker_id, self.log.high_watermark):
            followers.propose((*followers.isr, broker_id))
            surroundings.propose(self)
        if moved:
            self.maybe_advance()
        if self._deletions:
            self._deletions.release(followers.low_watermark(self.log.log_start_offset))

    def diverged(
        self, broker_id: int, offset: int, last_fetched_epoch: int
    ) -> tuple[int, int] | None:
        """Where our log parts from a follower's that ends at `offset`: (epoch, its end); None if it does not."""
        self._followers_with(broker_id)
        if last_fetched_epoch < 0 or offset < self.log.log_start_offset:
            return None  # it has nothing, or will be told that its offset is out of range
        epoch, end_offset = self.end_offset_for(last_fetched_epoch)
        if epoch < 0:
            raise OffsetOutOfRange(f"nothing is known of epoch {last_fetched_epoch}")
        if epoch < last_fetched_epoch or end_offset < offset:
            return epoch, end_offset
        return None

    def read_to_end(self, offset: int, max_bytes: int, *, at_least_one: bool) -> Region | None:
        """As `read`, for a follower: up to the log's end."""
        log = self.log
        return log.read(offset, max_bytes, up_to=log.log_end_offset, at_least_one=at_least_one)

    def propose_shrink(self) -> bool:
        """Propose an ISR without those that lag; whether there are any."""
        followers, surroundings = self.followers, self._surroundings
        if followers is None or surroundings is None:
            return False
        lagging = surroundings.to_leave(followers, self.log)
        if not lagging:
            self.maybe_advance()  # one who was about to join may have been given up
            return False
        followers.propose(tuple(each for each in followers.isr if each not in lagging))
        surroundings.propose(self)
        return True

    def _followers_with(self, broker_id: int) -> Followers:
        if self.not_leading is not None:
            raise self.not_leading
        followers = self.followers
        if followers is None or broker_id not in followers.by_id:
            # It may know more than we: the image that makes it a replica has not come here yet.
            raise UnknownLeaderEpoch(f"broker {broker_id} holds no replica that we know of")
        return followers

    # ------------------------------------------------------------------ following

    def append_from_leader(self, batches: Buffer, high_watermark: int, log_start: int) -> None:
        """Take over what the leader sent, and how far it is committed there."""
        log = self.log
        if len(batches):
            self._unseen_bytes += len(batches)
            log.append_as_follower(batches)
            self.traffic.replication_bytes_in += len(batches)
        committed = min(high_watermark, log.log_end_offset)
        if committed > log.high_watermark:
            self._advance(committed)
        if log_start > log.log_start_offset:
            log.delete_records(min(log_start, log.high_watermark))

    def truncate_to(self, offset: int, *, restored: Producers | None = None) -> None:
        """Drop what the leader never had; `restored` is what `truncation.prepared` gave."""
        if offset < self.log.high_watermark:
            told = "%s is cut back to %d, below its high watermark %d"
            _log.warning(told, self.topic_partition, offset, self.log.high_watermark)
        self.log.truncate_to(offset, restored)
        self._was_cut(offset)

    def restart_at(self, offset: int) -> None:
        """Drop everything: the leader begins behind our end."""
        self.log.truncate_fully_to(offset)
        self._was_cut(offset)

    def _was_cut(self, offset: int) -> None:
        self._own_end = min(self._own_end, self.log.log_end_offset)
        self._unseen_bytes = 0
        if self._surroundings is not None:
            self._surroundings.truncated(self.log, offset)

    # ------------------------------------------------------------------ the high watermark

    def maybe_advance(self) -> None:
        """Move the high watermark as far as the replicas in sync allow; it never goes back."""
        if self.not_leading is not None:
            return
        log, followers = self.log, self.followers
        if followers is None:
            if self._flush is None:
                self._follow_log_end()
            return
        assert self._surroundings is not None
        end = followers.committed_end(
            self._own_end, self._surroundings.now_ms(), log.config.min_insync_replicas
        )
        if end > log.high_watermark:
            self._advance(end)

    def _follow_log_end(self) -> None:
        """What needs no flush counts as soon as it is written; without followers it is committed."""
        if self.followers is not None:
            self._own_end = self.log.log_end_offset
            if self.followers.alone:
                self.maybe_advance()
        elif self.watchers or self._commits:
            self._advance(self.log.log_end_offset)
        else:
            self.log.high_watermark = self.log.log_end_offset
            self._unseen_bytes = 0

    def _advance(self, high_watermark: int) -> None:
        """Move the high watermark, and wake who waits for that."""
        log, followers = self.log, self.followers
        grown_bytes = self._unseen_bytes
        if high_watermark < log.log_end_offset:
            # Batches are of many sizes; the share of the offsets is near enough to wake readers by.
            share = (high_watermark - log.high_watermark) / (
                log.log_end_offset - log.high_watermark
            )
            grown_bytes = int(grown_bytes * share) + 1
        log.high_watermark = high_watermark
        if self._commits:
            enough = followers is None or followers.maybe_enough(log.config.min_insync_replicas)
            self._commits.release(
                high_watermark, None if enough else NotEnoughReplicasAfterAppend()
            )
        if self.watchers:
            self._wake(self.watchers, grown_bytes)
        self._tell_followers()
        self._unseen_bytes = max(self._unseen_bytes - grown_bytes, 0)

    def _tell_followers(self) -> None:
        for watcher in self.replica_watchers:
            watcher.settled(self)

    def _wake(self, watchers: dict[Watcher, None], grown_bytes: int) -> None:
        for watcher in list(watchers):
            watcher.advanced(self, grown_bytes)

    def fail_commits(self, error: KafkaError) -> None:
        """Who waits hears that it will not be."""
        for waits in (self._commits, self._flushes, self._deletions):
            waits.fail(error)

    # ------------------------------------------------------------------ the flush

    def _start_flush(self) -> None:
        work = flush_until_clean(self, self._flusher)
        self._flush = asyncio.get_running_loop().create_task(work)

    def flushed_to(self, end: int) -> None:
        """Everything below `end` is on the disk."""
        if self.followers is None:
            self._advance(end)
            return
        self._own_end = end
        self._flushes.release(end)
        self.maybe_advance()

    def flush_ended(self) -> None:
        self._flush = None
