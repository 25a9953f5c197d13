"""The cleaner: keeps compacted logs compact, in the background.

It lives on the loop and decides; the work is done by a worker process (`cleaner_process`), so neither a read nor an
append ever waits for it.  A round:

1. of all compacted logs take the dirtiest one that is due (`compaction.dirtiness`);
2. have the worker map its keys, then clean one group of segments after the other;
3. after each group, unless the log has changed under it, have the log swap the new segment in; readers inside the old
   ones go on, since their files stay for file.delete.delay.ms;
4. when all groups are done, note in `cleaner-offset-checkpoint` how far the log is clean.

A crash at any moment leaves each group either old or new; both are right.  A log whose bytes are corrupt is left alone
until the broker starts again; a worker that dies is replaced with the next round.
"""

import asyncio
import contextlib
import logging
import os
from collections.abc import Awaitable, Callable, Iterable

from tidelog.clock import Clock
from tidelog.dataclass import dataclass
from tidelog.errors import KafkaStorageError
from tidelog.names import TopicPartition
from tidelog.storage.checkpoints import MalformedCheckpoint, read_offsets, write_offsets
from tidelog.storage.cleaner_config import CleanerConfig
from tidelog.storage.cleaner_process import Worker, WorkerLost, WorkerProcess
from tidelog.storage.cleaner_worker import Failed
from tidelog.storage.compaction import (
    CLEANER_CHECKPOINT,
    Dirtiness,
    LogFacts,
    SegmentFacts,
    dirtiness,
    is_compacted,
)
from tidelog.storage.compaction_filter import LastBatch
from tidelog.storage.compaction_pass import Cleaned, Job, Mapped, cleaned_paths
from tidelog.storage.config import LogConfig
from tidelog.storage.files import Files
from tidelog.storage.flusher import Flusher
from tidelog.storage.log import Log
from tidelog.storage.segment import Segment
from tidelog.storage.txnindex import AbortedTransaction

_logger = logging.getLogger(__name__)

_FOREVER = (1 << 63) - 1
_OFFSET_ENTRY_BYTES, _TIME_ENTRY_BYTES = 8, 12
_REST_SECONDS = 60.0  # before a log is tried again after a failure


@dataclass(slots=True)
class CleanerCounters:
    """What the cleaner has done so far, for the metrics."""

    passes: int = 0
    failures: int = 0
    abandoned: int = 0
    """Passes given up because the log was truncated, cut or closed meanwhile."""
    workers_lost: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_kept: int = 0
    last_map_utilization: float = 0.0
    last_pass_seconds: float = 0.0
    max_dirty_ratio: float = 0.0
    """Of the dirtiest log at the last look."""
    max_compaction_delay_ms: int = 0
    """How long the log that waits longest is overdue, at the last look."""
    last_look_ms: int = -1


class Cleaner:
    """See the module's docstring; `run` until cancelled, or `clean_once` at will."""

    def __init__(
        self,
        *,
        logs: Callable[[], Iterable[Log]],
        config: CleanerConfig,
        files: Files,
        clock: Clock,
        flusher: Flusher,
        note: Callable[[Log], Awaitable[None]],
        start_worker: Callable[[], Awaitable[Worker]] = WorkerProcess.start,
    ) -> None:
        """`logs` gives every log of the broker that can be used; `note` writes down where one is synced to."""
        self.config = config
        self.counters = CleanerCounters()
        self.uncleanable: set[TopicPartition] = set()
        """Logs with corrupt bytes."""
        self._logs = logs
        self._files = files
        self._clock = clock
        self._flusher = flusher
        self._note = note
        self._start_worker = start_worker
        self._idle_workers: list[Worker] = []
        self._in_progress: set[TopicPartition] = set()
        self._resting: dict[TopicPartition, float] = {}
        self._checkpoints: dict[str, dict[TopicPartition, int]] = {}
        self._writing = asyncio.Lock()

    async def run(self) -> None:
        """Clean whatever gets dirty, until cancelled."""
        if not self.config.enable:
            return
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self.config.threads):
                    group.create_task(self._clean_for_ever())
        finally:
            await self.stop_workers()

    @property
    def in_progress(self) -> int:
        """How many logs are being cleaned."""
        return len(self._in_progress)

    async def clean_once(self) -> TopicPartition | None:
        """Clean the dirtiest log that is due; None if there is none, or if it could not be done."""
        chosen = self._choose()
        if chosen is None:
            return None
        log, dirt = chosen
        partition = log.topic_partition
        self._in_progress.add(partition)
        try:
            return partition if await self._clean(log, dirt) else None
        finally:
            self._in_progress.discard(partition)

    async def forget(self, partition: TopicPartition) -> None:
        """The log was deleted: one of the same name begins anew."""
        self.uncleanable.discard(partition)
        self._resting.pop(partition, None)
        for directory, offsets in self._checkpoints.items():
            if offsets.pop(partition, None) is not None:
                await self._write_checkpoint(directory)

    def truncated(self, log: Log, offset: int) -> None:
        """The log was cut back to `offset`: what is written there anew is dirty."""
        offsets = self._checkpoint_of(log)
        if offsets.get(log.topic_partition, 0) > offset:
            offsets[log.topic_partition] = offset

    async def stop_workers(self) -> None:
        while self._idle_workers:
            await self._idle_workers.pop().stop()

    # ------------------------------------------------------------------ choosing

    def _choose(self) -> tuple[Log, Dirtiness] | None:
        now_ms, now = self._clock.now_ms(), self._clock.monotonic()
        looked_at: list[tuple[Log, Dirtiness]] = []
        for log in self._logs():
            partition = log.topic_partition
            if not is_compacted(log.config) or len(log.segments) < 2:
                continue
            if log.failure or partition in self._in_progress or partition in self.uncleanable:
                continue
            if self._resting.get(partition, now) > now:
                continue
            offsets = self._checkpoint_of(log)
            dirt = dirtiness(_facts(log), offsets.get(partition), now_ms)
            if dirt.checkpoint_was_wrong:
                # Else the log could grow past it, and what it does not know would count as clean.
                offsets[partition] = dirt.first_dirty_offset
            looked_at.append((log, dirt))
        counters = self.counters
        counters.last_look_ms = now_ms
        counters.max_dirty_ratio = max((each.ratio for _, each in looked_at), default=0.0)
        counters.max_compaction_delay_ms = max(
            (each.overdue_ms for _, each in looked_at), default=0
        )
        due = [each for each in looked_at if each[1].due(each[0].config)]
        return max(due, key=lambda each: each[1].ratio, default=None)

    def _checkpoint_of(self, log: Log) -> dict[TopicPartition, int]:
        directory = os.path.dirname(log.directory)
        if directory not in self._checkpoints:
            path = os.path.join(directory, CLEANER_CHECKPOINT)
            try:
                self._checkpoints[directory] = read_offsets(self._files, path)
            except (MalformedCheckpoint, OSError) as error:
                _logger.warning("%s; every compacted log there is cleaned from its start", error)
                self._checkpoints[directory] = {}
        return self._checkpoints[directory]

    # ------------------------------------------------------------------ cleaning

    async def _clean_for_ever(self) -> None:
        while True:
            try:
                done = await self.clean_once()
            except Exception:
                _logger.exception("the cleaner failed; it goes on after log.cleaner.backoff.ms")
                done = None
            if done is None:
                await asyncio.sleep(self.config.backoff_ms / 1000)

    async def _clean(self, log: Log, dirt: Dirtiness) -> bool:
        worker = self._idle_workers.pop() if self._idle_workers else await self._start_worker()
        try:
            done = await self._pass(worker, log, dirt)
        except WorkerLost as error:
            self.counters.workers_lost += 1
            self._rest(log.topic_partition)
            _logger.error(
                "%s while it cleaned %s; the next pass starts a new one", error, log.topic_partition
            )
            return False
        except BaseException:
            await worker.stop()
            raise
        self._idle_workers.append(worker)
        return done

    async def _pass(self, worker: Worker, log: Log, dirt: Dirtiness) -> bool:
        began = self._clock.monotonic()
        try:
            # A record must not be dropped for a later one that a power cut could still take away.
            await self._flusher.flush(log, dirt.first_uncleanable_offset)
            # Behind a recovery point recovery takes a gap for a loss.
            await self._note(log)
        except KafkaStorageError as error:
            return self._failed(log, Failed(str(error), corrupt=False))
        job = self._job(log, dirt)
        read = {each.base_offset: (each, each.size) for each in log.segments}
        mapped = await worker.begin(job, self.config.io_max_bytes_per_second / self._workers)
        if isinstance(mapped, Failed):
            bases = [each.base_offset for each in job.segments]
            if not self._changed(log, job, bases, read):
                self._failed(log, mapped)
            return False
        for group in mapped.groups:
            cleaned = await worker.clean(group)
            # First of all: what was read from a log that is being truncated may be anything.
            if self._changed(log, job, group, read):
                return False
            if isinstance(cleaned, Failed):
                return self._failed(log, cleaned)
            try:
                log.replace_segments([group[0]], group)
            except KafkaStorageError as error:
                return self._failed(log, Failed(str(error), corrupt=False))
            self._count(cleaned)
        self._checkpoint_of(log)[log.topic_partition] = mapped.end_offset
        await self._write_checkpoint(os.path.dirname(log.directory))
        self._passed(log, mapped, self._clock.monotonic() - began)
        return True

    def _job(self, log: Log, dirt: Dirtiness) -> Job:
        config, end = log.config, dirt.first_uncleanable_offset
        segments = [
            _segment_facts(each, log.config) for each in log.segments if each.base_offset < end
        ]
        return Job(
            directory=log.directory,
            segments=segments,
            first_dirty_offset=dirt.first_dirty_offset,
            first_uncleanable_offset=end,
            aborted=_aborted(log, segments[0].base_offset, end),
            producers={
                producer_id: LastBatch(each.last_offset, each.epoch)
                for producer_id, each in log.producers.by_id.items()
            },
            now_ms=self._clock.now_ms(),
            delete_retention_ms=config.delete_retention_ms,
            segment_bytes=config.segment_bytes,
            segment_index_bytes=config.segment_index_bytes,
            index_interval_bytes=config.index_interval_bytes,
            map_bytes=self.config.dedupe_buffer_size // self._workers,
            map_load_factor=self.config.dedupe_load_factor,
            io_buffer_bytes=self.config.io_buffer_size // self._workers // 2,
        )

    @property
    def _workers(self) -> int:
        return max(1, self.config.threads)

    async def _write_checkpoint(self, directory: str) -> None:
        path = os.path.join(directory, CLEANER_CHECKPOINT)
        async with self._writing:
            offsets = dict(self._checkpoints[directory])
            try:
                await asyncio.to_thread(write_offsets, self._files, path, offsets)
            except OSError as error:
                # Nothing is lost by it: after a restart the log is cleaned from an earlier offset.
                _logger.error("%s could not be written: %s", path, error)

    # ------------------------------------------------------------------ outcomes

    def _count(self, cleaned: Cleaned) -> None:
        counters = self.counters
        counters.bytes_read += cleaned.bytes_read
        counters.bytes_written += cleaned.size_bytes
        counters.records_read += cleaned.records_read
        counters.records_kept += cleaned.records_kept

    def _passed(self, log: Log, mapped: Mapped, seconds: float) -> None:
        self.counters.passes += 1
        self.counters.last_map_utilization = mapped.utilization
        self.counters.last_pass_seconds = seconds
        _logger.info(
            "cleaned %s up to offset %d in %.1f s; it has %d bytes now",
            log.topic_partition, mapped.end_offset, seconds, sum(x.size for x in log.segments),
        )  # fmt: skip

    def _failed(self, log: Log, failed: Failed) -> bool:
        partition = log.topic_partition
        self.counters.failures += 1
        if failed.corrupt:
            self.uncleanable.add(partition)
            _logger.error("%s is not compacted any more: %s", partition, failed.reason)
        else:
            self._rest(partition)
            _logger.error("%s could not be compacted this time: %s", partition, failed.reason)
        return False

    def _changed(
        self, log: Log, job: Job, bases: list[int], read: dict[int, tuple[Segment, int]]
    ) -> bool:
        """Whether the log was cut, truncated or deleted since it was read; then the pass is given up."""
        there = log.failure is None and any(each is log for each in self._logs())
        closed = {each: each.size for each in log.segments[:-1]}
        if (
            there
            and log.directory == job.directory
            and all(closed.get(read[base][0]) == read[base][1] for base in bases)
        ):
            return False
        self.counters.abandoned += 1
        _logger.info("%s changed while it was cleaned; the pass is given up", log.topic_partition)
        for path in cleaned_paths(job.directory, bases[0]).values():
            with contextlib.suppress(OSError):
                self._files.remove(path)
        return True

    def _rest(self, partition: TopicPartition) -> None:
        self._resting[partition] = self._clock.monotonic() + _REST_SECONDS


def _aborted(log: Log, first: int, up_to: int) -> list[AbortedTransaction]:
    found: list[AbortedTransaction] = []
    for segment in log.segments:
        here, complete = segment.txn_index.overlapping(first, up_to)
        found += here
        if complete:
            break
    return found


def _facts(log: Log) -> LogFacts:
    return LogFacts(
        log_start_offset=log.log_start_offset,
        log_end_offset=log.log_end_offset,
        last_stable_offset=log.last_stable_offset,
        segments=[_segment_facts(each, log.config) for each in log.segments],
        config=log.config,
    )


def _segment_facts(segment: Segment, config: LogConfig) -> SegmentFacts:
    """Timestamps are looked up only where a setting asks for them: it may need the disk."""
    return SegmentFacts(
        segment.base_offset,
        segment.size,
        segment.offset_index.entries * _OFFSET_ENTRY_BYTES,
        segment.time_index.entries * _TIME_ENTRY_BYTES,
        segment.begin_timestamp() if config.max_compaction_lag_ms < _FOREVER else -1,
        segment.maximum_timestamp()[0] if config.min_compaction_lag_ms > 0 else -1,
    )
