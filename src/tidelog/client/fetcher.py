"""Fetches ahead of the reader: one request in flight for each broker, as long as there is room.

Also finds the offsets of partitions that have none yet: what the group has committed, else what auto.offset.reset says.
"""

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import suppress
from typing import cast

from tidelog.client.assignment import COMMITTED, Assignment, PartitionState
from tidelog.client.cluster import FETCH, Cluster, note_coordinator_error
from tidelog.client.decoding import Chunk
from tidelog.client.fetching import fetch_request, fetched
from tidelog.client.group_requests import committed_offsets
from tidelog.client.metrics import ConsumerMetrics
from tidelog.client.offsets import EARLIEST, LATEST, find_some_offsets
from tidelog.client.settings import ConsumerSettings
from tidelog.errors import (
    CorruptMessage,
    KafkaError,
    OffsetOutOfRange,
    TidelogError,
    error_of,
)
from tidelog.kernel import scan_batches
from tidelog.names import TopicPartition
from tidelog.protocol.messages.fetch import FetchResponse, PartitionData

_log = logging.getLogger(__name__)


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
        self._pausing: dict[int, float] = {}
        self._placing = False
        self._unplaced: set[TopicPartition] = set()
        """Whose lack of an offset has been told."""
        self._background: set[asyncio.Task[None]] = set()
        self.assignment = Assignment(self.wake)
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
        by_node: dict[int, dict[TopicPartition, tuple[int, int]]] = {}
        for tp, place in self.assignment.fetchable(self._settings.prefetch_max_bytes).items():
            leader = self._cluster.leader_at_hand(tp)
            node = -1 if leader is None else leader.node
            by_node.setdefault(node, {})[tp] = place
        self._pausing = {node: until for node, until in self._pausing.items() if until > now}
        for node, places in by_node.items():
            if node in self._fetching or node in self._pausing:
                continue
            self._fetching.add(node)
            self._start(self._supply(node, places))

    async def _supply(self, node: int, places: dict[TopicPartition, tuple[int, int]]) -> None:
        """Fetch these from the broker, or find out who leads them; after a failure leave it alone for a moment."""
        try:
            if node < 0:
                await self._refresh(places)
            else:
                await self._fetch(node, places)
        except KafkaError as error:
            _log.debug("fetch from broker %s: %s", node, error)
            self._pause(node)
            await self._quietly_refresh({tp.topic for tp in self.assignment.states})
        finally:
            self._fetching.discard(node)

    async def _fetch(self, node: int, places: dict[TopicPartition, tuple[int, int]]) -> None:
        settings = self._settings
        room = settings.prefetch_max_bytes - self.assignment.buffered_bytes
        request, at_most = fetch_request(
            self._cluster,
            settings,
            {tp: offset for tp, (offset, _) in places.items()},
            max(1, min(settings.fetch_max_bytes, room)),
            settings.max_partition_fetch_bytes,
        )
        asked_at = self._loop.time()
        answer = cast(
            FetchResponse,
            await self._cluster.ask(node, request, purpose=FETCH, at_most=at_most),
        )
        self._metrics.fetch_latency.record((self._loop.time() - asked_at) * 1000)
        self._metrics.throttled.record(answer.throttle_time_ms)
        if answer.error_code:
            raise error_of(answer.error_code)
        stale: set[str] = set()
        size = 0
        for tp, data in fetched(self._cluster, answer):
            size += len(data.records or b"")
            if tp not in places:
                continue
            offset, epoch = places[tp]
            if data.error_code:
                await self._refused(tp, offset, epoch, data.error_code, stale)
            else:
                self._received(tp, offset, epoch, data)
        self._metrics.fetch_size.record(size)
        if stale:
            self._pause(node)
            await self._quietly_refresh(stale)

    def _received(self, tp: TopicPartition, offset: int, epoch: int, data: PartitionData) -> None:
        records = memoryview(data.records or b"")
        end = offset
        if len(records):
            batches, _, reason = scan_batches(records, 0, len(records))
            if batches:
                end = max(offset, batches[-1][3] + 1)
            if reason.startswith("corrupt") and not batches:
                self.assignment.fail(
                    CorruptMessage(
                        f"the batch at offset {offset} of {tp} is damaged ({reason}); seek past it"
                    )
                )
                self.assignment.pause([tp], True)
                return
        aborted = None
        if self._isolation and data.aborted_transactions is not None:
            aborted = tuple(
                (each.producer_id, each.first_offset) for each in data.aborted_transactions
            )
        seen = data.last_stable_offset if self._isolation else data.high_watermark
        self.assignment.put(Chunk(tp, offset, records, aborted, seen), epoch, end)

    async def _refused(
        self, tp: TopicPartition, offset: int, epoch: int, code: int, stale: set[str]
    ) -> None:
        error = error_of(code)
        if isinstance(error, OffsetOutOfRange):
            state = self.assignment.states.get(tp)
            if state is None or state.epoch != epoch:
                return
            if self._settings.reset == "none":
                self.assignment.pause([tp], True)
                self.assignment.fail(
                    OffsetOutOfRange(
                        f"{tp} has no offset {offset}, and auto.offset.reset=none; seek, and resume it"
                    ),
                    tp,
                )
                return
            _log.warning(
                "%s has no offset %s any more; reading on from the %s",
                tp,
                offset,
                self._settings.reset,
            )
            self.assignment.seek(tp, time=_time_of(self._settings.reset))
        elif error.retriable:
            stale.add(tp.topic)
        else:
            self.assignment.pause([tp], True)
            self.assignment.fail(error_of(code, f"fetch from {tp}: {error}"))

    async def _refresh(self, places: dict[TopicPartition, tuple[int, int]]) -> None:
        """Leaders are missing: ask who they are."""
        await self._cluster.refresh({tp.topic for tp in places})
        if any(self._cluster.leader_at_hand(tp) is None for tp in places):
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
            if tp in committed:
                self.assignment.place(state, epoch, committed[tp])
            elif self._settings.reset == "none":
                self.assignment.fail(
                    OffsetOutOfRange(f"nothing is committed for {tp}, and auto.offset.reset=none"),
                    tp,
                )
            elif state.epoch == epoch:
                state.sought = _time_of(self._settings.reset)

    async def _committed(
        self, group: str, partitions: list[TopicPartition]
    ) -> dict[TopicPartition, int]:
        async def ask() -> dict[TopicPartition, int]:
            try:
                found = await committed_offsets(
                    self._cluster, group, partitions, require_stable=bool(self._isolation)
                )
            except KafkaError as error:
                note_coordinator_error(self._cluster, group, error.code)
                raise
            return {tp: each.offset for tp, each in found.items()}

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


def _time_of(reset: str) -> int:
    return EARLIEST if reset == "earliest" else LATEST
