"""Fetches ahead of the reader: one request in flight for each broker, as long as there is room.

Also finds the offsets of partitions that have none yet: what the group has committed, else what auto.offset.reset says.

What a deposed leader says is not believed (KIP-320): every request tells the leader epoch that we know of, metadata that are
older than what was read are asked anew, and before anything is fetched from another leader its log is asked whether it
holds what was read.  Offsets are of a topic's id: of one that was deleted and created again all is read.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from struct import Struct
from typing import cast
from uuid import UUID

from tidelog.client.assignment import COMMITTED, UNKNOWN, Assignment, PartitionState
from tidelog.client.cluster import FETCH, Cluster, note_coordinator_error
from tidelog.client.decoding import Chunk
from tidelog.client.fetch_sessions import FetchSession, Wanted
from tidelog.client.fetching import by_name
from tidelog.client.group_requests import CommittedOffset, committed_offsets
from tidelog.client.metrics import ConsumerMetrics
from tidelog.client.offsets import (
    EARLIEST,
    LATEST,
    EpochEnd,
    LogTruncated,
    epoch_ends,
    find_some_offsets,
)
from tidelog.client.settings import ConsumerSettings
from tidelog.errors import (
    CorruptMessage,
    FetchSessionIdNotFound,
    FetchSessionTopicIdError,
    InvalidFetchSessionEpoch,
    KafkaError,
    OffsetOutOfRange,
    TidelogError,
    UnsupportedVersion,
    error_of,
)
from tidelog.kernel import scan_batches
from tidelog.names import TopicPartition
from tidelog.protocol.messages.fetch import FetchResponse, PartitionData
from tidelog.protocol.schema import ZERO_UUID

_log = logging.getLogger(__name__)

Places = dict[TopicPartition, tuple[int, int]]
"""The offset to fetch from and the epoch of the assignment, by partition."""

_LEADER_EPOCH, _EPOCH_AT = Struct(">i"), 12
"""Where a batch has the epoch of the leader that wrote it."""

_FAR = 1 << 62

_SESSION_ERRORS = (
    FetchSessionIdNotFound.code,
    InvalidFetchSessionEpoch.code,
    FetchSessionTopicIdError.code,
)


class Fetcher:
    """Keeps an assignment supplied; lives on one loop."""

    def __init__(
        self, cluster: Cluster, settings: ConsumerSettings, metrics: ConsumerMetrics
    ) -> None:
        self._cluster = cluster
        self._metrics = metrics
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._woken = False
        self._fetching: set[int] = set()
        self._sessions: dict[int, FetchSession] = {}
        self._ids: dict[str, UUID] = {}
        """Of all topics that were ever read."""
        self._pausing: dict[int, float] = {}
        self._placing = False
        self._unplaced: set[TopicPartition] = set()
        """Whose lack of an offset has been told."""
        self._background: set[asyncio.Task[None]] = set()
        self.assignment = Assignment(self.wake)
        self.placed_at_end: Callable[[], None] = _nothing
        """Told when partitions are to be read from where they end now."""
        self._isolation = int(settings.isolation_level == "read_committed")
        self._task = asyncio.ensure_future(self._run())

    def wake(self) -> None:
        """Look again; from any thread."""
        if not self._woken:
            self._woken = True
            with suppress(RuntimeError):  # the loop is closed, so nobody waits for anything
                self._loop.call_soon_threadsafe(self._wake.set)

    async def close(self) -> None:
        self._task.cancel()
        for task in self._background:
            task.cancel()
        await asyncio.gather(self._task, *self._background, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            try:
                self._look()
            except Exception:  # noqa: BLE001 - the task's root: a fault of ours must not stop all fetching
                _log.exception("fetching failed in a way that was not expected")
            try:
                async with asyncio.timeout(1 if self._pausing else None):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._woken = False
            self._wake.clear()

    def _look(self) -> None:
        if not self._placing and self.assignment.unplaced():
            self._placing = True
            self._start(self._place())
        now = self._loop.time()
        by_node: dict[int, Places] = {}
        unchecked: dict[int, Places] = {}
        for tp, place in self.assignment.fetchable(self._settings.prefetch_max_bytes).items():
            state = self.assignment.states.get(tp)
            if state is None or self._was_created_again(state, place[1]):
                continue
            node, checked = self._source(state, now)
            (by_node if checked else unchecked).setdefault(node, {})[tp] = place
        self._pausing = {node: until for node, until in self._pausing.items() if until > now}
        for node in {**unchecked, **by_node}:
            if node in self._fetching or node in self._pausing:
                continue
            self._fetching.add(node)
            self._start(self._supply(node, by_node.get(node, {}), unchecked.get(node, {})))

    def _source(self, state: PartitionState, now: float) -> tuple[int, bool]:
        """The broker to ask, -1 if the metadata must be asked first, and whether its log is known to hold what was read."""
        leader = self._cluster.leader_at_hand(state.partition)
        if leader is None or 0 <= leader.epoch < state.fetched_epoch:
            return -1, True
        if state.checked_epoch != leader.epoch:
            if state.fetched_epoch not in (UNKNOWN, leader.epoch):
                return leader.node, False
            state.checked_epoch = leader.epoch
        if state.preferred is not None:
            node, until = state.preferred
            if now < until and node in self._cluster.nodes:
                return node, True
            state.preferred = None
        return leader.node, True

    def _was_created_again(self, state: PartitionState, epoch: int) -> bool:
        """Whether the topic is another one than that of which the offset is."""
        tp = state.partition
        info = self._cluster.topics.get(tp.topic)
        if info is None or info.id == ZERO_UUID:
            return False
        if state.topic_id is None:
            state.topic_id = self._ids[tp.topic] = info.id
            return False
        if state.topic_id == info.id or state.epoch != epoch:
            return False
        self._ids[tp.topic] = info.id
        if self._settings.reset == "none":
            self.assignment.fail(
                OffsetOutOfRange(
                    f"topic {tp.topic!r} was deleted and created again, so offset {state.fetch_offset} of {tp} is gone, "
                    "and auto.offset.reset=none; seek to where to go on"
                ),
                tp,
            )
        else:
            _log.warning("topic %s was deleted and created again; reading %s anew", tp.topic, tp)
            # All of it has come since we read it.
            self.assignment.seek(tp, time=EARLIEST)
        return True

    async def _supply(self, node: int, places: Places, unchecked: Places) -> None:
        """Fetch these from the broker, or find out who leads them; after a failure leave it alone for a moment."""
        try:
            if node < 0:
                await self._refresh(places)
                return
            if unchecked:
                await self._check(node, unchecked)
            if places:
                await self._fetch(node, places)
        except KafkaError as error:
            _log.debug("fetch from broker %s: %s", node, error)
            self._pause(node)
            for tp in places:
                self._lead_again(tp)
            await self._quietly_refresh({tp.topic for tp in self.assignment.states})
        finally:
            self._fetching.discard(node)

    async def _check(self, node: int, places: Places) -> None:
        """Another broker leads: ask whether its log holds what we have read (KIP-320)."""
        asked: dict[TopicPartition, tuple[PartitionState, int, int]] = {}
        epochs: dict[TopicPartition, tuple[int, int]] = {}
        for tp, (_, epoch) in places.items():
            state, leader = self.assignment.states.get(tp), self._cluster.leader_at_hand(tp)
            if state is not None and state.epoch == epoch and leader is not None:
                asked[tp] = state, epoch, leader.epoch
                epochs[tp] = leader.epoch, state.fetched_epoch
        try:
            answers = await epoch_ends(self._cluster, node, epochs)
        except UnsupportedVersion:  # a broker of before KIP-320 cannot tell
            answers = {tp: EpochEnd(UNKNOWN, _FAR) for tp in asked}
        stale: set[str] = set()
        for tp, answer in answers.items():
            state, epoch, leader_epoch = asked[tp]
            if isinstance(answer, KafkaError):
                if not answer.retriable:
                    self.assignment.fail(error_of(answer.code, f"epochs of {tp}: {answer}"), tp)
                stale.add(tp.topic)
            elif 0 <= answer.end_offset < state.fetch_offset and state.epoch == epoch:
                self._truncated(state, epoch, answer)
            elif state.epoch == epoch:
                state.checked_epoch = leader_epoch
        if stale:
            self._pause(node)
            await self._quietly_refresh(stale)

    def _truncated(self, state: PartitionState, epoch: int, end: EpochEnd) -> None:
        tp, read = state.partition, state.fetch_offset
        if state.position <= end.end_offset:
            # What is gone was fetched, but not handed out.
            known = end.leader_epoch if state.position == end.end_offset else UNKNOWN
            self.assignment.go_back(state, epoch, state.position, known)
            return
        if self._settings.reset == "none":
            self.assignment.fail(LogTruncated(tp, state.position, end.end_offset), tp)
            return
        _log.warning(
            "%s was cut: read up to offset %s, but the log of its leader diverges at offset %s; reading on from there",
            tp,
            read,
            end.end_offset,
        )
        self.assignment.go_back(state, epoch, end.end_offset, end.leader_epoch)

    async def _fetch(self, node: int, places: Places) -> None:
        settings = self._settings
        room = settings.prefetch_max_bytes - self.assignment.buffered_bytes
        session = self._sessions.setdefault(node, FetchSession())
        request, at_most = session.request(
            settings,
            {tp: self._wanted(tp, offset) for tp, (offset, _) in places.items()},
            max(1, min(settings.fetch_max_bytes, room)),
        )
        asked_at = self._loop.time()
        try:
            answer = cast(
                FetchResponse,
                await self._cluster.ask(node, request, purpose=FETCH, at_most=at_most),
            )
            self._metrics.fetch_latency.record((self._loop.time() - asked_at) * 1000)
            self._metrics.throttled.record(answer.throttle_time_ms)
            if answer.error_code:
                session.failed(answer.error_code)
                if answer.error_code in _SESSION_ERRORS:
                    return  # the next request names everything
                raise error_of(answer.error_code)
        except BaseException:
            session.failed()
            raise
        session.answered(answer.session_id)
        stale: set[str] = set()
        size = 0
        for tp, data in by_name(answer, session.names()):
            size += len(data.records or b"")
            if tp not in places:
                continue
            offset, epoch = places[tp]
            if data.error_code:
                self._refused(node, tp, offset, epoch, data.error_code, stale)
            else:
                self._received(tp, offset, epoch, data)
        self._metrics.fetch_size.record(size)
        if stale:
            self._pause(node)
            await self._quietly_refresh(stale)

    def _wanted(self, tp: TopicPartition, offset: int) -> Wanted:
        info = self._cluster.topics.get(tp.topic)
        if info is None:
            return Wanted(ZERO_UUID, offset)
        leader = info.partitions.get(tp.partition)
        return Wanted(info.id, offset, UNKNOWN if leader is None else leader.epoch)

    def _received(self, tp: TopicPartition, offset: int, epoch: int, data: PartitionData) -> None:
        state = self.assignment.states.get(tp)
        if data.preferred_read_replica >= 0 and state is not None:
            # Good for as long as metadata are (KIP-392).
            until = self._loop.time() + self._settings.metadata_max_age_ms / 1000
            state.preferred = data.preferred_read_replica, until
        records = memoryview(data.records or b"")
        end, first_epoch, last_epoch = offset, UNKNOWN, UNKNOWN
        if len(records):
            batches, _, reason = scan_batches(records, 0, len(records))
            if batches:
                end = max(offset, batches[-1][3] + 1)
                (first_epoch,) = _LEADER_EPOCH.unpack_from(records, batches[0][0] + _EPOCH_AT)
                (last_epoch,) = _LEADER_EPOCH.unpack_from(records, batches[-1][0] + _EPOCH_AT)
            if reason.startswith("corrupt") and not batches:
                self.assignment.fail(
                    CorruptMessage(
                        f"the batch at offset {offset} of {tp} is damaged ({reason}); seek past it"
                    ),
                    tp,
                )
                return
        aborted = None
        if self._isolation and data.aborted_transactions is not None:
            aborted = tuple(
                (each.producer_id, each.first_offset) for each in data.aborted_transactions
            )
        seen = data.last_stable_offset if self._isolation else data.high_watermark
        alike = first_epoch if first_epoch == last_epoch else UNKNOWN
        chunk = Chunk(tp, offset, records, aborted, seen, alike)
        self.assignment.put(chunk, epoch, end, last_epoch)

    def _refused(
        self, node: int, tp: TopicPartition, offset: int, epoch: int, code: int, stale: set[str]
    ) -> None:
        error = error_of(code)
        if not isinstance(error, OffsetOutOfRange):
            self._lead_again(tp)
            if error.retriable:
                stale.add(tp.topic)
            else:
                self.assignment.fail(error_of(code, f"fetch from {tp}: {error}"), tp)
            return
        state = self.assignment.states.get(tp)
        leader = self._cluster.leader_at_hand(tp)
        if state is None or state.epoch != epoch:
            return
        # A follower that is behind, or a leader that was deposed and does not know yet, has not the last word: it counts
        # when the metadata, asked anew, still say that it leads.
        says = node, UNKNOWN if leader is None else leader.epoch
        if leader is None or leader.node != node or state.doubted != says:
            self._lead_again(tp)
            state.doubted = says
            stale.add(tp.topic)
        elif self._settings.reset == "none":
            self.assignment.fail(
                OffsetOutOfRange(
                    f"{tp} has no offset {offset}, and auto.offset.reset=none; seek to where to go on"
                ),
                tp,
            )
        else:
            _log.warning(
                "%s has no offset %s any more; reading on from the %s",
                tp,
                offset,
                self._settings.reset,
            )
            self.assignment.seek(tp, time=_time_of(self._settings.reset))

    def _lead_again(self, tp: TopicPartition) -> None:
        """Ask the leader, and no replica that is nearer."""
        state = self.assignment.states.get(tp)
        if state is not None:
            state.preferred = None

    async def _refresh(self, places: Places) -> None:
        """Leaders are missing: ask who they are."""
        await self._cluster.refresh({tp.topic for tp in places})
        now = self._loop.time()
        states = [self.assignment.states.get(tp) for tp in places]
        if any(state is not None and self._source(state, now)[0] < 0 for state in states):
            self._pause(-1)

    async def _quietly_refresh(self, topics: set[str]) -> None:
        try:
            await self._cluster.refresh(topics)
        except KafkaError as error:
            _log.debug("metadata of %s: %s", ", ".join(sorted(topics)), error)

    def _pause(self, node: int) -> None:
        pause = self._settings.retry_backoff_ms / 1000
        self._pausing[node] = self._loop.time() + pause
        self._loop.call_later(pause * 1.05, self.wake)

    # Offsets of partitions that have none yet.

    async def _place(self) -> None:
        try:
            wanted = self.assignment.unplaced()
            await self._place_committed([each for each in wanted if each[1] == COMMITTED])
            await self._place_by_time(self.assignment.unplaced())
        except TidelogError as error:
            self.assignment.fail(error)
        try:
            if self.assignment.unplaced():
                await asyncio.sleep(self._settings.retry_backoff_ms / 1000)
        finally:
            self._placing = False

    async def _place_committed(self, wanted: list[tuple[PartitionState, int, int]]) -> None:
        group = self._settings.group_id
        committed = {}
        if group and wanted:
            committed = await self._committed(group, [state.partition for state, _, _ in wanted])
        for state, _, epoch in wanted:
            tp = state.partition
            if self._is_new(tp.topic):
                # All of it has come since we read the topic of this name.  An offset that is committed may be of that one.
                if state.epoch == epoch:
                    state.sought = EARLIEST
            elif tp in committed:
                found = committed[tp]
                self.assignment.place(state, epoch, found.offset, found.leader_epoch)
            elif self._settings.reset == "none":
                self.assignment.fail(
                    OffsetOutOfRange(f"nothing is committed for {tp}, and auto.offset.reset=none"),
                    tp,
                )
            elif state.epoch == epoch:
                state.sought = _time_of(self._settings.reset)

    def _is_new(self, topic: str) -> bool:
        """Whether a topic that we have read was deleted and created again since."""
        info, known = self._cluster.topics.get(topic), self._ids.get(topic)
        return info is not None and known is not None and info.id not in (known, ZERO_UUID)

    async def _committed(
        self, group: str, partitions: list[TopicPartition]
    ) -> dict[TopicPartition, CommittedOffset]:
        async def ask() -> dict[TopicPartition, CommittedOffset]:
            try:
                return await committed_offsets(
                    self._cluster, group, partitions, require_stable=bool(self._isolation)
                )
            except KafkaError as error:
                note_coordinator_error(self._cluster, group, error.code)
                raise

        return await self._cluster.retrying(ask)

    async def _place_by_time(self, wanted: list[tuple[PartitionState, int, int]]) -> None:
        by_time = [each for each in wanted if each[1] != COMMITTED]
        if not by_time:
            return
        times = {state.partition: time for state, time, _ in by_time}
        found, failed = await find_some_offsets(self._cluster, times, self._isolation)
        late = [tp for tp, each in found.items() if each.offset < 0]  # nothing is that young
        if late:
            ends, more = await find_some_offsets(self._cluster, dict.fromkeys(late, LATEST))
            found = {tp: each for tp, each in found.items() if each.offset >= 0} | ends
            failed |= more
        # The others are read meanwhile, and those without an answer asked for again.
        for state, _, epoch in by_time:
            if state.partition in found:
                self._unplaced.discard(state.partition)
                self.assignment.place(state, epoch, found[state.partition].offset)
        if any(times[tp] == LATEST for tp in found):
            self.placed_at_end()
        for tp, error in failed.items():
            if not error.retriable:
                raise error
            self._warn_unplaced(tp, error)

    def _warn_unplaced(self, tp: TopicPartition, error: KafkaError) -> None:
        """Tell that a partition is not read; once, until its offset is known."""
        if tp not in self._unplaced:
            _log.warning("%s is not read yet: %s", tp, error)
        self._unplaced.add(tp)

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(work)
        self._background.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._background.discard(task)
        self.wake()
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("fetching failed in a way that was not expected", exc_info=error)


def _nothing() -> None:
    """Nobody wants to know."""


def _time_of(reset: str) -> int:
    return EARLIEST if reset == "earliest" else LATEST
