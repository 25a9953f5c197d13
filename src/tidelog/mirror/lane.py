"""One source into the target, for as long as nothing goes wrong: take chunks, send their batches, commit positions.

A session is made of fresh clients and ends with the first error that they cannot cure themselves; `Lane` begins another
after a pause, without end.  Positions are committed at the target, in a group of their own:

- at least once: what was acknowledged is committed after it; a killed mirror repeats what lies between;
- exactly once: batches, positions, offset entries and audit counts are one transaction.  A member that was replaced is
  refused by the group's coordinator, and the same instance started twice by the transaction's.
"""

import asyncio
import logging
import time
import uuid
from collections import deque
from collections.abc import Collection
from typing import NamedTuple

from tidelog.audit.counter import TierCounter
from tidelog.audit.events import TOPIC as AUDIT_TOPIC
from tidelog.audit.topic import ensure_topic
from tidelog.audit.windows import windows_of_batch
from tidelog.client.admin import AsyncAdmin
from tidelog.client.batch import Batch
from tidelog.client.producer import AsyncProducer, wait_done
from tidelog.errors import SettingsError, TidelogError
from tidelog.mirror.chores import Chores
from tidelog.mirror.offset_map import OffsetMap
from tidelog.mirror.offset_topic import OffsetTopic
from tidelog.mirror.options import OFFSET_HEADER, MirrorOptions
from tidelog.mirror.passing import Passed, pass_on
from tidelog.mirror.source import SourceConsumer
from tidelog.mirror.status import LaneStatus, PartitionStatus
from tidelog.mirror.topics import TopicKeeper
from tidelog.names import TopicPartition
from tidelog.records.batch import parse_header

_log = logging.getLogger(__name__)

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 10.0
_GOOD_SESSION_S = 30.0
"""After a session of this length the next failure is a new one, and the pauses begin anew."""
_PATIENCE_MS = 10_000
"""How long a client tries before the lane says that something is wrong; then it goes on trying."""
_ENTRY_EVERY_S = 1.0
"""How often a partition gets an entry in the offset map, at most."""
_CLOSE_S = 5.0


class _Sent(NamedTuple):
    batch: Batch
    passed: Passed


class SameCluster(SettingsError):
    """Source and target are one cluster, whose topics would be copied into themselves without end."""


class Lane:
    """One source, without end."""

    def __init__(self, name: str, address: str, options: MirrorOptions) -> None:
        self.name = name
        self.address = address
        self.options = options
        self.status = LaneStatus(name)
        self._instance = options.instance or uuid.uuid4().hex[:12]

    async def run(self, stopping: asyncio.Event) -> None:
        """Mirror until told to stop; failures are told and tried again."""
        pause = _FIRST_PAUSE_S
        while not stopping.is_set():
            began = time.monotonic()
            try:
                async with Session(self) as session:
                    await session.run(stopping)
            except SameCluster:
                raise
            except (TidelogError, OSError, TimeoutError) as error:
                if stopping.is_set():
                    return
                if time.monotonic() - began > _GOOD_SESSION_S:
                    pause = _FIRST_PAUSE_S
                self.status.failed(str(error) or type(error).__name__)
                _log.warning("%s: %s; trying again in %.1f s", self.name, error, pause)
                try:
                    async with asyncio.timeout(pause):
                        await stopping.wait()
                except TimeoutError:
                    pause = min(2 * pause, _LONGEST_PAUSE_S)

    @property
    def group(self) -> str:
        """The group at the target that has this source's positions."""
        return f"{self.options.group}.{self.name}"

    @property
    def instance(self) -> str:
        return f"{self.group}.{self._instance}"

    def rename(self, topic: str) -> str:
        return self.options.prefix_for(self.name) + topic

    def renamed(self, tp: TopicPartition) -> TopicPartition:
        return TopicPartition(self.rename(tp.topic), tp.partition)


class Session:
    """The clients of a lane, from one failure to the next."""

    def __init__(self, lane: Lane) -> None:
        options = lane.options
        self._lane = lane
        self._options = options
        self._status = lane.status
        self._eos = options.exactly_once
        patience = {"default.api.timeout.ms": _PATIENCE_MS, "request.timeout.ms": _PATIENCE_MS}
        here = {"client.id": "tidelog-mirror", **patience, **options.source_settings}
        here["bootstrap.servers"] = lane.address
        there = {"client.id": "tidelog-mirror", **patience, **options.target_settings}
        there["bootstrap.servers"] = options.target
        sending: dict[str, str | int] = {
            "buffer.memory": options.buffer_bytes,
            "max.request.size": 4 * 1024 * 1024,
            "max.block.ms": _PATIENCE_MS,
            "delivery.timeout.ms": 3 * _PATIENCE_MS,
        }
        if self._eos:
            sending["transactional.id"] = lane.instance
            sending["transaction.timeout.ms"] = 3 * _PATIENCE_MS
        self._source = AsyncAdmin(here)
        self._target = AsyncAdmin(there)
        self.producer = AsyncProducer({**there, **sending})
        reading = {
            "group.id": lane.group,
            "session.timeout.ms": options.session_timeout_ms,
            "heartbeat.interval.ms": max(100, options.session_timeout_ms // 5),
            "metadata.max.age.ms": int(options.look_interval_s * 1000),
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "prefetch.max.bytes": options.buffer_bytes,
            "max.partition.fetch.bytes": 4 * 1024 * 1024,
            "partition.assignment.strategy": ["cooperative-sticky"],
        }
        if options.instance:
            reading["group.instance.id"] = lane.instance
        self._consumer = SourceConsumer(self._target._cluster, lane.renamed, {**here, **reading})
        self._keeper = TopicKeeper(
            self._source, self._target, lane.rename, copy_acls=options.copy_acls
        )
        self._map = OffsetMap()
        self._offsets = OffsetTopic(lane.name, there)
        self._chores = Chores(
            lane.name, options, self._status, self._source, self._target, self._keeper, self._map
        )
        self._audit: TierCounter | None = None
        if options.audit_tier:
            from tidelog.audit.encoding import EventWriter  # needs the extra [schemas]

            self._audit = TierCounter(options.audit_tier, window_ms=options.audit_window_ms)
            self._events = EventWriter(options.audit_registry or None)
        # Of what was sent and is not committed.
        self._sent: dict[TopicPartition, deque[_Sent]] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._unnoted: dict[TopicPartition, tuple[int, int]] = {}
        """The newest entry for the offset map, where its time has not come."""
        self._entry_at: dict[TopicPartition, float] = {}
        self._open = False
        """Whether a transaction is."""
        self._open_bytes = 0

    async def __aenter__(self) -> "Session":
        return self

    async def __aexit__(self, *_: object) -> None:
        self._status.partitions.clear()
        # A side that is gone must not hold up the next try.
        for each in (self._consumer, self.producer, self._chores, self._source, self._target):
            try:
                async with asyncio.timeout(_CLOSE_S):
                    await each.close()
            except (TidelogError, OSError, TimeoutError) as error:
                _log.debug("closing after a failure: %s", error)

    async def run(self, stopping: asyncio.Event) -> None:
        """Pass on until told to stop."""
        self._chores.begin()  # which also tell if a side is down
        await self._check_clusters()
        if self._eos:
            await self.producer.init_transactions()  # ends what a predecessor left open
        await self._offsets.create(self._target)
        if self._audit is not None:
            await ensure_topic(self._target)
            await asyncio.to_thread(self._events.prepare)
        await self._offsets.replay(self._map)
        await self._consumer.subscribe(
            pattern=self._options.include,
            deny=self._options.excluded(),
            on_assigned=self._assigned,
            on_revoked=self._revoked,
            on_lost=self._lost,
        )
        interval = self._options.commit_interval_s
        due = time.monotonic() + interval
        while not stopping.is_set():
            taken = await self._consumer.next_chunk(max(0.0, min(due - time.monotonic(), 0.2)))
            if taken is not None:
                chunk, end = taken
                header = OFFSET_HEADER if self._options.offset_header else None
                for passed in pass_on(chunk, header):
                    await self._send(chunk.partition, passed)
                self._ends[chunk.partition] = end
                self._note_progress(chunk.partition, chunk.high_watermark)
            if time.monotonic() >= due or self._open_bytes >= self._options.transaction_bytes:
                await self._commit()
                due = time.monotonic() + interval
        async with asyncio.timeout(_CLOSE_S):
            await self.producer.flush()
            await self._commit(last=True)

    async def _check_clusters(self) -> None:
        source, target = await asyncio.gather(
            self._source.describe_cluster(), self._target.describe_cluster()
        )
        if source.id is not None and source.id == target.id:
            raise SameCluster(
                f"{self._lane.address} and {self._options.target} are the same cluster ({source.id}): a mirror would copy "
                "its topics into themselves without end; name another target"
            )

    async def _send(self, tp: TopicPartition, passed: Passed) -> None:
        if self._eos and not self._open:
            await self.producer.begin_transaction()
            self._open = True
        place = self._lane.renamed(tp)
        if self._audit is not None:
            header = parse_header(passed.data)
            windows = windows_of_batch(passed.data, 0, header, 0, self._audit.window_ms)
            # Under the source's name, so that all tiers speak of the same topic.
            self._audit.count(tp.topic, windows)
        batch = await self.producer.send_batch(*place, passed.data)
        self._sent.setdefault(tp, deque()).append(_Sent(batch, passed))
        size = len(passed.data)
        self._open_bytes += size
        self._status.passed(passed.count, size, passed.rebuilt)

    # Committing.

    async def _commit(self, *, last: bool = False) -> None:
        """Commit what may be; `last` when partitions go, or everything ends."""
        self._chores.check()
        if self._eos:
            await self._commit_transaction(last)
        else:
            await self._commit_acknowledged(last)

    async def _commit_transaction(self, last: bool) -> None:
        if not self._open:
            self._settle_idle()
            self._note_entries(last)
            if not self._offsets.has_due:
                return
            await self.producer.begin_transaction()
        await self.producer.flush()
        for tp in list(self._sent):
            self._take_acknowledged(tp)
        self._note_entries(last)
        await self._publish()
        offsets = {self._lane.renamed(tp): end for tp, end in self._ends.items()}
        if offsets:
            await self.producer.send_offsets(offsets, self._consumer.member())
        await self.producer.commit_transaction()
        self._open = False
        self._open_bytes = 0
        self._committed |= self._ends
        self._ends.clear()
        self._status.commits += 1

    async def _commit_acknowledged(self, last: bool) -> None:
        self._open_bytes = 0
        ready = {tp: end for tp in list(self._ends) if (end := self._take_acknowledged(tp)) >= 0}
        self._note_entries(last)
        await self._publish()
        new = {tp: end for tp, end in ready.items() if self._committed.get(tp) != end}
        if new:
            await self._consumer.commit({self._lane.renamed(tp): end for tp, end in new.items()})
            self._committed |= new
            self._status.commits += 1

    def _take_acknowledged(self, tp: TopicPartition) -> int:
        """Forget what was acknowledged; the source offset up to which everything was, -1 if nothing is new."""
        waiting = self._sent.get(tp, deque())
        end = -1
        while waiting and waiting[0].batch.done:
            sent = waiting.popleft()
            if sent.batch.error is not None:
                raise sent.batch.error
            end = sent.passed.end
            self._note_offsets(tp, sent)
        if not waiting:
            end = self._ends.get(tp, end)
        if end >= 0:
            self._status.partitions.setdefault(tp, PartitionStatus()).position = end
        return end

    def _settle_idle(self) -> None:
        """Nothing was sent: what was read were markers and aborted records, and the position is only noted here."""
        for tp, end in self._ends.items():
            self._status.partitions.setdefault(tp, PartitionStatus()).position = end

    async def _publish(self) -> None:
        """Send offset entries and audit counts; in a transaction they belong to it."""
        for tp in self._offsets.take_due():
            key, value = self._map.record(tp)
            await self.producer.send(self._offsets.topic, value, key=key, partition=0)
        if self._audit is not None:
            for event in self._audit.take():
                await self.producer.send(AUDIT_TOPIC, self._events.write(event), key=event.key)
            self._audit.published()

    # What is known of where things went.

    def _note_progress(self, tp: TopicPartition, high_watermark: int) -> None:
        self._status.partitions.setdefault(tp, PartitionStatus()).high_watermark = high_watermark

    def _note_offsets(self, tp: TopicPartition, sent: _Sent) -> None:
        batch, passed = sent
        status = self._status.partitions.setdefault(tp, PartitionStatus())
        status.last_timestamp = max(status.last_timestamp, passed.max_timestamp)
        same = batch.base_offset == passed.first and passed.count == passed.end - passed.first
        if batch.base_offset >= 0 and not same:
            status.same_offsets = False
        if batch.base_offset >= 0 and batch.parts is None:
            self._unnoted[tp] = passed.end, batch.base_offset + passed.count

    def _note_entries(self, last: bool) -> None:
        """Give the newest entries to the map; not too often, but a partition that has become quiet gets its last one."""
        now = time.monotonic()
        for tp, (source, target) in list(self._unnoted.items()):
            if last or now >= self._entry_at.get(tp, 0.0):
                del self._unnoted[tp]
                if self._map.note(tp, source, target):
                    self._entry_at[tp] = now + _ENTRY_EVERY_S
                    self._offsets.due(tp)

    # What the group gives and takes.

    async def _assigned(self, added: Collection[TopicPartition]) -> None:
        topics = {tp.topic for tp in added}
        await self._keeper.ensure(topics)
        self._chores.topics |= topics
        for tp in added:
            self._status.partitions[tp] = PartitionStatus()
        # Others may have noted where things went while these partitions were theirs.
        await self._offsets.replay(self._map)

    def _lost(self, gone: Collection[TopicPartition]) -> None:
        """Others have them already: what was sent and not committed must not be, and the next session begins where they are."""
        raise TidelogError(f"{len(gone)} partitions were given to another mirror")

    async def _revoked(self, gone: Collection[TopicPartition]) -> None:
        if not self._eos:
            for tp in gone:
                for sent in self._sent.get(tp, ()):
                    await wait_done(sent.batch)
        await self._commit(last=True)
        for tp in gone:
            self._sent.pop(tp, None)
            self._unnoted.pop(tp, None)
            self._ends.pop(tp, None)
            self._committed.pop(tp, None)
            self._status.partitions.pop(tp, None)
