"""Following a leader: one task for each broker that is followed, which fetches for all partitions it leads.

    fetchers = Fetchers(…)
    fetchers.follow(partition)      # to `partition.leader`, in `partition.leader_epoch`
    fetchers.leave(partition)

The consumer's protocol is used, with a session (KIP-227), so that a request names only what has moved.  The request says
where our log ends and in which epoch; the answer brings batches, or says where our log parts from the leader's, and
then it is cut there and compared again (KIP-595).  It is never cut by the high watermark.

An answer counts only for a partition that is still where it was when the request went out: same leader epoch, same
log end, same last epoch.  A partition that fails rests for a while, alone, growing longer; the others go on.
"""

import asyncio
import logging
from collections.abc import Callable
from random import Random
from typing import cast
from uuid import UUID

from tidelog.clock import Clock
from tidelog.cluster.partition import Partition
from tidelog.cluster.peers import Peers
from tidelog.cluster.replication_config import ReplicationConfig
from tidelog.cluster.throttle import Throttle, is_listed
from tidelog.errors import (
    CorruptMessage,
    KafkaError,
    OffsetOutOfRange,
    ProtocolError,
    error_of,
)
from tidelog.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from tidelog.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tidelog.storage import failures, truncation
from tidelog.storage.flusher import Flusher
from tidelog.storage.log import Log

_log = logging.getLogger(__name__)

_FIRST_PAUSE_S = 0.02
_THROTTLED_S = 0.1
_EARLIEST, _LATEST = -2, -1
_FULL_SESSION = 0
"""Epoch of the request that begins a session."""

_Key = tuple[bytes, int]
"""Topic id and partition."""
_Known = tuple[int, int, int, int]
"""What a session knows of a partition: leader epoch, log end, epoch of the last batch, log start."""


class _Followed:
    """A partition that is followed, in one epoch of its leader."""

    __slots__ = ("behind", "failures", "lag", "leader_epoch", "partition", "rests_until")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.failures = 0
        self.rests_until = 0.0
        self.behind = True
        """Lacks committed records, as far as is known: only then it is throttled."""
        self.lag = 0
        """How many committed records it lacked at the leader's last answer."""

    @property
    def key(self) -> _Key:
        return self.partition.topic_id.bytes, self.partition.index

    @property
    def current(self) -> bool:
        """Whether the partition still follows in the epoch that it did."""
        partition = self.partition
        return partition.not_leading is not None and partition.leader_epoch == self.leader_epoch

    def position(self) -> _Known:
        log = self.partition.log
        return self.leader_epoch, log.log_end_offset, log.epochs.latest, log.log_start_offset


class Fetcher:
    """Fetches from one leader; `run` is its task.  A round costs what has changed, not what is followed."""

    def __init__(self, leader: int, number: int, shared: "Fetchers") -> None:
        self._leader = leader
        self._shared = shared
        self._purposes = [f"fetch-{number}", f"fetch-{number}-other"]
        """Two connections, used in turn when a request that waits at the leader is given up."""
        self._followed: dict[_Key, _Followed] = {}
        self._known: dict[_Key, _Known] = {}
        """What the leader's session holds, or will with the request that is under way."""
        self._moved: dict[_Key, None] = {}
        """Those of which the session may hold something else than what is."""
        self._forgotten: dict[_Key, None] = {}
        """Those that the session holds and should not: told with the next request that is sent, whenever that is."""
        self._resting: dict[_Key, _Followed] = {}
        self._changed = asyncio.Event()
        self._asking = False
        """A request is under way."""
        self._interrupted = False
        self._session_id = 0
        self._session_epoch = _FULL_SESSION
        self._failures = 0
        self.asked_at: float | None = None
        """When the first request went out that has no answer; None if all have."""
        self.task: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._followed)

    @property
    def is_failing(self) -> bool:
        """Whether the last request failed."""
        return self._failures > 0

    def follow(self, partition: Partition) -> None:
        followed = _Followed(partition)
        self._followed[followed.key] = followed
        self._moved[followed.key] = None
        self._changed.set()
        self._interrupt()

    def followed(self) -> list[Partition]:
        return [each.partition for each in self._followed.values() if each.current]

    def lags(self) -> list[tuple[Partition, int]]:
        """Of every partition that is followed, how many committed records it lacks."""
        return [(each.partition, each.lag) for each in self._followed.values()]

    def leave(self, key: _Key) -> None:
        self._followed.pop(key, None)
        self._moved[key] = None

    async def run(self) -> None:
        """Fetch until cancelled."""
        while True:
            self._changed.clear()
            request = self._request()
            if not self._known:
                self.asked_at = None
                await self._sleep(self._until_next())
                continue
            try:
                if self.asked_at is None:
                    self.asked_at = self._shared.clock.monotonic()
                answer = await self._ask(request)
                self.asked_at = None
                if answer is None:
                    self._give_up_session()
                    self._purposes.reverse()
                    continue
                await self._take(answer)
                self._failures = 0
            except (KafkaError, ProtocolError) as error:
                await self._fail(error)
            except Exception as error:  # noqa: BLE001  (the root of the task)
                _log.error("fetching from broker %d failed", self._leader, exc_info=error)
                await self._fail(error)

    async def _fail(self, error: Exception) -> None:
        self._give_up_session()
        self._failures += 1
        if self._failures == 1:
            _log.info("broker %d cannot be fetched from: %s", self._leader, error)
        await self._sleep(self._shared.pause_s(self._failures))

    # ------------------------------------------------------------------ asking

    def _until_next(self) -> float | None:
        """Seconds until one that rests may be asked for again; None if none rests."""
        if not self._resting:
            return None
        first = min(each.rests_until for each in self._resting.values())
        return max(first - self._shared.clock.monotonic(), 0.001)

    def _request(self) -> FetchRequest:
        """The next request of the session: what has moved since the last."""
        shared, config = self._shared, self._shared.config()
        now = shared.clock.monotonic()
        for key, each in list(self._resting.items()):
            if each.rests_until <= now:
                del self._resting[key]
                self._moved[key] = None
        moved, self._moved = self._moved, {}
        topics: dict[bytes, FetchTopic] = {}
        for key in moved:
            followed = self._fetchable(key, now)
            if followed is None:
                if self._known.pop(key, None) is not None:
                    self._forgotten[key] = None
                continue
            self._forgotten.pop(key, None)
            position = followed.position()
            if self._known.get(key) == position:
                continue
            self._known[key] = position
            topic = topics.get(key[0])
            if topic is None:
                topic = FetchTopic(topic_id=followed.partition.topic_id, partitions=[])
                topics[key[0]] = topic
            topic.partitions.append(
                FetchPartition(
                    partition=key[1],
                    current_leader_epoch=position[0],
                    fetch_offset=position[1],
                    last_fetched_epoch=position[2],
                    log_start_offset=position[3],
                    partition_max_bytes=config.fetch_max_bytes,
                )
            )
        state = ReplicaState(replica_id=shared.broker_id, replica_epoch=shared.broker_epoch())
        return FetchRequest(
            cluster_id=None,
            replica_id=shared.broker_id,
            replica_state=state,
            max_wait_ms=config.fetch_wait_max_ms,
            min_bytes=config.fetch_min_bytes,
            max_bytes=config.fetch_response_max_bytes,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=list(topics.values()),
            forgotten_topics_data=self._tell_forgotten() if self._known else [],
        )

    def _tell_forgotten(self) -> list[ForgottenTopic]:
        topics: dict[bytes, ForgottenTopic] = {}
        for topic_id, index in self._forgotten:
            topic = topics.get(topic_id)
            if topic is None:
                topic = topics[topic_id] = ForgottenTopic(
                    topic_id=UUID(bytes=topic_id), partitions=[]
                )
            topic.partitions.append(index)
        self._forgotten.clear()
        return list(topics.values())

    def _fetchable(self, key: _Key, now: float) -> _Followed | None:
        """The partition, if it is to be fetched now."""
        followed = self._followed.get(key)
        if followed is None:
            return None
        if not followed.current:
            del self._followed[key]
            return None
        if followed.rests_until > now:
            self._resting[key] = followed
            return None
        shared = self._shared
        if (
            followed.behind
            and shared.is_throttled(followed.partition)
            and shared.throttle.exceeded()
        ):
            followed.rests_until = now + _THROTTLED_S
            self._resting[key] = followed
            return None
        return followed

    async def _ask(self, request: FetchRequest) -> FetchResponse | None:
        """The answer; None if there is something new to ask for, for which it should not be waited."""
        shared = self._shared
        timer = None
        if self._resting:
            seconds = self._until_next() or 0.0
            timer = asyncio.get_running_loop().call_later(seconds, self._interrupt)
        timeout_ms = request.max_wait_ms + shared.config().socket_timeout_ms
        self._interrupted, self._asking = False, True
        try:
            answer = await shared.peers.ask(
                self._leader, request, purpose=self._purposes[0], timeout_ms=timeout_ms
            )
        except asyncio.CancelledError:
            # An interruption is a cancellation that is taken back; whoever stops the task cancels it as well.
            if not self._interrupted or self.task is None or self.task.uncancel() > 0:
                raise
            return None
        finally:
            self._asking = False
            if timer is not None:
                timer.cancel()
        return cast(FetchResponse, answer)

    def _interrupt(self) -> None:
        """Wait no longer for the answer that is under way."""
        if self._asking and not self._interrupted and self.task is not None:
            self._interrupted = True
            self.task.cancel()

    def _give_up_session(self) -> None:
        """Nobody knows what the leader's session holds: the next request begins another, ending this one."""
        self._session_epoch = _FULL_SESSION
        self._known.clear()
        self._forgotten.clear()
        self._moved = dict.fromkeys(self._followed)

    async def _sleep(self, seconds: float | None) -> None:
        """Until then, or until there is something new to ask for."""
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            pass

    # ------------------------------------------------------------------ taking over

    async def _take(self, answer: FetchResponse) -> None:
        if answer.error_code:
            # The leader has forgotten the session, or it is another process by now.
            self._session_id = 0
            raise error_of(answer.error_code)
        self._session_id = answer.session_id
        known = dict(self._known) if not answer.session_id else self._known
        if answer.session_id:
            self._session_epoch = self._session_epoch % 0x7FFF_FFFF + 1
        else:
            self._give_up_session()
        to_flush: list[Log] = []
        strange = ""
        for topic in answer.responses:
            for data in topic.partitions:
                key = topic.topic_id.bytes, data.partition_index
                followed, position = self._followed.get(key), known.get(key)
                if position is None:
                    strange = f"{topic.topic_id}-{data.partition_index}"
                elif followed is not None:
                    self._moved[key] = None
                    await self._take_one(followed, position, data, to_flush)
        for log in to_flush:
            # What the flush policy promises holds for a replica too: the next fetch says that we have it.
            await self._shared.flusher.flush(log, log.log_end_offset)
        if strange:
            # It would be told again at once, and for ever.
            raise ProtocolError(f"the session holds {strange}, which was not asked for")

    async def _take_one(
        self, followed: _Followed, position: _Known, data: PartitionData, to_flush: list[Log]
    ) -> None:
        partition = followed.partition
        log = partition.log
        # All but the log's start, which retention may have moved.
        if not followed.current or followed.position()[:3] != position[:3] or log.failure:
            return
        try:
            if data.error_code == OffsetOutOfRange.code:
                await self._find_range(followed)
            elif data.error_code:
                raise error_of(data.error_code)
            elif data.diverging_epoch.epoch >= 0 or data.diverging_epoch.end_offset >= 0:
                diverging = data.diverging_epoch
                await self._cut(followed, diverging.epoch, diverging.end_offset)
            else:
                records = data.records or b""
                partition.append_from_leader(records, data.high_watermark, data.log_start_offset)
                followed.lag = max(data.high_watermark - log.log_end_offset, 0)
                followed.behind = followed.lag > 0
                if records and self._shared.is_throttled(partition):
                    self._shared.throttle.note(len(records))
                if records and log.flush_due():
                    to_flush.append(log)
            followed.failures = 0
        except (KafkaError, CorruptMessage) as error:
            self._rest(followed, error)
        except OSError as error:
            # A disk that does not give back what is compared is of no use until somebody mends it; a full one is.
            self._rest(followed, failures.refused(log, "follow with", error))

    async def _cut(self, followed: _Followed, epoch: int, end_offset: int) -> None:
        """The logs part: cut ours back to where they may agree.  The next fetch compares again."""
        partition = followed.partition
        before = partition.log.log_end_offset, partition.log.epochs.latest
        offset = cut_offset(partition.log, epoch, end_offset)
        _log.info(
            "%s: epoch %d ends at %d at the leader; cut from %d to %d",
            partition.topic_partition, epoch, end_offset, before[0], offset,
        )  # fmt: skip
        if not await self._truncate(followed, offset):
            return
        if (partition.log.log_end_offset, partition.log.epochs.latest) == before:
            raise CorruptMessage(f"{partition.topic_partition} cannot be brought in line")

    async def _truncate(self, followed: _Followed, offset: int) -> bool:
        """Cut the log, unless it is another's, or another one, when all is prepared."""
        position = followed.position()
        async with truncation.prepared(followed.partition.log, offset) as restored:
            gone = followed.partition.gone is not None
            if gone or not followed.current or followed.position() != position:
                return False
            followed.partition.truncate_to(offset, restored=restored)
        return True

    async def _find_range(self, followed: _Followed) -> None:
        """Our end is outside of the leader's log: begin anew where it begins, or go back to where it ends."""
        partition = followed.partition
        start = await self._offset(partition, _EARLIEST)
        end = await self._offset(partition, _LATEST)
        if not followed.current:
            return
        own_end = partition.log.log_end_offset
        _log.warning(
            "%s ends at %d, outside of the leader's %d to %d",
            partition.topic_partition, own_end, start, end,
        )  # fmt: skip
        if own_end < start:
            partition.restart_at(start)
        elif own_end > end:
            await self._truncate(followed, end)

    async def _offset(self, partition: Partition, which: int) -> int:
        asked = ListOffsetsPartition(
            partition_index=partition.index,
            current_leader_epoch=partition.leader_epoch,
            timestamp=which,
        )
        request = ListOffsetsRequest(
            replica_id=self._shared.broker_id,
            topics=[ListOffsetsTopic(name=partition.topic, partitions=[asked])],
        )
        answer = cast(ListOffsetsResponse, await self._shared.peers.ask(self._leader, request))
        found = answer.topics[0].partitions[0]
        if found.error_code:
            raise error_of(found.error_code)
        return found.offset

    def _rest(self, followed: _Followed, error: Exception) -> None:
        followed.failures += 1
        pause_s = self._shared.pause_s(followed.failures)
        followed.rests_until = self._shared.clock.monotonic() + pause_s
        self._moved[followed.key] = None
        # The first few are usual: the image reaches brokers at different times.
        level = logging.INFO if followed.failures in (6, 60) else logging.DEBUG
        where = followed.partition.topic_partition
        _log.log(level, "%s cannot be followed at the moment: %s", where, error)


class Fetchers:
    """The fetchers of a broker, and what they share."""

    def __init__(
        self,
        *,
        broker_id: int,
        broker_epoch: Callable[[], int],
        peers: Peers,
        clock: Clock,
        random: Random,
        config: Callable[[], ReplicationConfig],
        flusher: Flusher,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.peers = peers
        self.clock = clock
        self.random = random
        self.config = config
        self.flusher = flusher
        self.throttle = Throttle(clock, lambda: config().follower_throttled_rate)
        self._fetchers: dict[tuple[int, int], Fetcher] = {}
        """By leader and number."""
        self._places: dict[_Key, Fetcher] = {}

    def follow(self, partition: Partition) -> None:
        """Fetch this partition from its leader, in its present epoch; from nobody if it has none."""
        self.leave(partition)
        if partition.leader < 0 or partition.leader == self.broker_id:
            return
        key = partition.topic_id.bytes, partition.index
        number = (partition.topic_id.int + partition.index) % self.config().fetchers
        place = partition.leader, number
        fetcher = self._fetchers.get(place)
        if fetcher is None:
            fetcher = self._fetchers[place] = Fetcher(partition.leader, number, self)
            self._start(fetcher)
        fetcher.follow(partition)
        self._places[key] = fetcher

    def _start(self, fetcher: Fetcher) -> None:
        task = fetcher.task = asyncio.get_running_loop().create_task(fetcher.run())

        def ended(_: object) -> None:
            if fetcher in self._fetchers.values():
                _log.error("a fetcher has ended, and is started again")
                self._start(fetcher)

        task.add_done_callback(ended)

    def leave(self, partition: Partition) -> None:
        """Fetch it no longer."""
        key = partition.topic_id.bytes, partition.index
        fetcher = self._places.pop(key, None)
        if fetcher is not None:
            fetcher.leave(key)

    def lags(self) -> list[tuple[Partition, int]]:
        """Of every partition that is followed, how many committed records it lacks."""
        return [lag for fetcher in self._fetchers.values() for lag in fetcher.lags()]

    def unanswered(self, seconds: float) -> list[Partition]:
        """Those whose leader has not answered for so long."""
        then = self.clock.monotonic() - seconds
        return [
            each
            for fetcher in self._fetchers.values()
            if fetcher.asked_at is not None and fetcher.asked_at <= then
            for each in fetcher.followed()
        ]

    @property
    def failing(self) -> int:
        """How many leaders cannot be fetched from at the moment."""
        return sum(fetcher.is_failing for fetcher in self._fetchers.values())

    async def stop(self) -> None:
        tasks = [each.task for each in self._fetchers.values() if each.task is not None]
        self._fetchers.clear()
        self._places.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def pause_s(self, failures: int) -> float:
        """How long to wait after so many failures in a row."""
        longest = self.config().fetch_backoff_ms / 1000
        pause_s = min(_FIRST_PAUSE_S * (1 << min(failures - 1, 20)), longest)
        return pause_s * (0.8 + 0.4 * self.random.random())

    def is_throttled(self, partition: Partition) -> bool:
        """Whether the follower's limit holds for this replica."""
        replicas = partition.log.config.follower_throttled_replicas
        return is_listed(replicas, partition.index, self.broker_id)


def cut_offset(log: Log, epoch: int, end_offset: int) -> int:
    """Where a log has to be cut whose leader's largest epoch at most our last is `epoch` and ended at `end_offset`."""
    own_epoch, own_end = log.end_offset_for(epoch)
    if own_epoch < 0:
        # We have nothing so old: everything that we have from there on is of other epochs.
        return min(end_offset, log.log_end_offset)
    if own_epoch != epoch:
        # The leader has an epoch between two of ours: go back to the end of our older one, and compare again.
        return min(own_end, log.log_end_offset)
    return min(own_end, end_offset, log.log_end_offset)
