"""A partition's log: a row of segments, of which the last is written to.

    log_start_offset <= high_watermark <= log_end_offset      what there is, and what of it is committed
    last_stable_offset <= high_watermark                      what no open transaction can still change
    recovery_point <= log_end_offset                          what is known to be on the disk

Everything here is synchronous and runs on the event loop: an append is one write into the page cache.  What waits for
the disk is handed out (`prepare_flush`, `files_to_remove`) for a thread to do.  After a write that failed the log is as
it was before; if even that cannot be had it is offline, and says `KafkaStorageError` from then on.

Reading is in `reading.py`, following a leader in `copying.py`, retention in `retention.py`, loading in `recovery.py`, the
swap of cleaned segments in `swapping.py`, what a failing disk means in `failures.py`.
"""

import os
import random
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Sequence
from uuid import UUID

from tidelog.clock import Clock
from tidelog.errors import KafkaStorageError, OffsetOutOfRange, RecordListTooLarge
from tidelog.kernel import stamp_batch
from tidelog.names import TopicPartition
from tidelog.records.batch import BatchHeader
from tidelog.storage import copying, failures, reading, retention, swapping, truncation
from tidelog.storage.appended import NO_TIMESTAMP, Appended, repeat_of
from tidelog.storage.config import LogConfig
from tidelog.storage.files import Buffer, Files
from tidelog.storage.flushing import Flush
from tidelog.storage.index import MAX_RELATIVE_OFFSET
from tidelog.storage.open_segments import OpenSegments
from tidelog.storage.producer_log import maybe_marker
from tidelog.storage.producers import Producers, WrittenBatch
from tidelog.storage.progress import Progress
from tidelog.storage.reading import Region
from tidelog.storage.recovery import Loaded, Source, create_segment, load
from tidelog.storage.segment import Segment

__all__ = ["Appended", "Log", "Region"]

PRODUCER_EXPIRATION_MS = 86_400_000
_NEVER = 1 << 62
_UNKNOWN = -1 << 62


class Log:
    """The log of one partition.  Open it with `Log.open`."""

    def __init__(self, source: Source, loaded: Loaded, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        self.topic_id: UUID | None = None
        self.files: Files = source.files
        self.clock: Clock = source.clock
        self.on_roll: Callable[[Log], None] | None = None
        """Called after a segment was closed: it should be flushed soon."""
        self.on_failure: Callable[[Log, OSError], None] | None = None
        """Called when the disk failed: the whole directory should go offline."""
        self.on_full: Callable[[], None] | None = None
        """Called when something was not written for want of room."""
        self.on_cut: Callable[[Log, int], Awaitable[None]] | None = None
        """Called before the log is cut: no recovery point on the disk may be behind that offset."""
        self.failure: KafkaStorageError | None = None
        """Why the log is offline; None while it is not."""

        self.source = source
        self.segments: list[Segment] = loaded.segments
        """In order, never empty; the last one is written to."""
        self._bases = [each.base_offset for each in loaded.segments]
        self._active = loaded.segments[-1]
        self.epochs = loaded.epochs
        self.producer_log = loaded.producers
        self.producers = loaded.producers.state

        self.log_start_offset = loaded.log_start_offset
        """The first offset that can be read; moved by retention and DeleteRecords."""
        self.log_end_offset = loaded.log_end_offset
        """The offset that the next record gets."""
        self.recovery_point = loaded.recovery_point
        """Everything below is on the disk, and is not scanned after a crash."""
        self.recovery_limit = truncation.NO_LIMIT
        """Above which the recovery point is not to go: the log is about to be cut there."""
        self._high_watermark = loaded.log_end_offset
        # Markers that recovery came across are below it: the transactions they ended are decided.
        self.producers.committed(self._high_watermark)
        self.was_damaged = loaded.damaged
        """When it was opened records were missing that had been written."""
        self._opened_at = loaded.log_end_offset if loaded.clean else -1

        self.last_flush_ms = self.clock.now_ms()
        self.removals: list[retention.Removal] = []
        """Deleted files that wait until readers have finished."""
        self.directory_changed = True
        """Files came or went since the directory was last synced."""
        self.hints: dict[int, tuple[Segment, int]] = {}
        """Where the batch with an offset begins, for offsets that a reader will ask for next."""
        self._sealed_bytes = 0
        """Of the segments that were closed since the log was opened."""
        self.truncations = 0
        """How often the log's end has moved back; a flush begun before says nothing of what came after."""
        self.set_config(source.config)
        for segment in self.segments[:-1]:
            segment.synced = segment.base_offset < self.recovery_point
        self.check()

    @classmethod
    def open(
        cls,
        directory: str,
        *,
        files: Files,
        config: LogConfig,
        clock: Clock,
        topic_partition: TopicPartition,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        clean: bool = False,
        whole_from: int | None = None,
        open_segments: OpenSegments | None = None,
        producer_expiration_ms: int = PRODUCER_EXPIRATION_MS,
        progress: Progress | None = None,
    ) -> "Log":
        """Load the log of a directory, or begin one there.

        With `clean` the recovery point is taken for the log's end and nothing is scanned.  The high watermark begins at
        the log's end: where there are other replicas it is set back to what is known to be committed.
        """
        directory = os.fspath(directory)
        files.make_directory(directory)
        source = Source(
            files=files,
            directory=directory,
            config=config,
            clock=clock,
            open_segments=OpenSegments() if open_segments is None else open_segments,
            producer_expiration_ms=producer_expiration_ms,
            progress=progress,
        )
        loaded = load(
            source,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            clean=clean,
            whole_from=whole_from,
        )
        return cls(source, loaded, topic_partition)

    def __repr__(self) -> str:
        return f"<Log {self.topic_partition} {self.log_start_offset}..{self.log_end_offset}>"

    @property
    def directory(self) -> str:
        return self.source.directory

    @property
    def config(self) -> LogConfig:
        return self._config

    def set_config(self, config: LogConfig) -> None:
        """Obey other settings from now on."""
        self._config = config
        self._segment_bytes = config.segment_bytes
        self._flush_messages = config.flush_messages
        self.source = self.source.with_config(config)
        self._active.set_config(config)
        self._jitter_ms = (
            random.randrange(min(config.segment_jitter_ms, config.segment_ms))
            if config.segment_jitter_ms
            else 0
        )
        if self._active.size:
            # Reading the first batch of every log would make a start slow: the next append finds it out.
            self._active.roll_after = _UNKNOWN

    @property
    def size_bytes(self) -> int:
        return sum(each.size for each in self.segments)

    @property
    def appended_bytes(self) -> int:
        """Grows by what is appended, whatever retention and compaction take away; begins anywhere, and a truncation shrinks it."""
        return self._sealed_bytes + self._active.size

    # ------------------------------------------------------------------ offsets

    @property
    def high_watermark(self) -> int:
        """Records below it are committed."""
        return self._high_watermark

    @high_watermark.setter
    def high_watermark(self, offset: int) -> None:
        # Invariant: log_start <= high_watermark <= log_end
        assert self.log_start_offset <= offset <= self.log_end_offset, (offset, self)
        self._high_watermark = offset
        self.producers.committed(offset)

    @property
    def last_stable_offset(self) -> int:
        """Records below it are committed and belong to no open transaction."""
        unstable = self.producers.first_unstable_offset()
        if unstable is None or unstable >= self._high_watermark:
            return self._high_watermark
        return max(unstable, self.log_start_offset)

    def check(self) -> None:
        """Assert what always holds."""
        assert self.log_start_offset <= self._high_watermark <= self.log_end_offset, self
        assert self.log_start_offset <= self.last_stable_offset <= self._high_watermark, self
        assert self.recovery_point <= self.log_end_offset, self
        assert self._active is self.segments[-1]
        assert self._bases == sorted({each.base_offset for each in self.segments})
        assert self._active.base_offset <= self.log_end_offset

    # ------------------------------------------------------------------ appending

    def append_as_leader(
        self,
        batch: bytearray | memoryview,
        *,
        leader_epoch: int,
        header: BatchHeader,
        coordinator: bool = False,
    ) -> Appended:
        """Append one checked batch; its base offset and leader epoch are written into `batch`.

        A producer's repeated batch is not written again.  `coordinator` is for batches of our own coordinators and for
        transaction markers, whose sequences are not checked.
        """
        if self.failure is not None:
            raise self.failure
        producer_id = header.producer_id
        if producer_id >= 0:
            repeated = self._check_producer(batch, header, coordinator)
            if repeated is not None:
                return repeat_of(repeated, header)
        length = header.length + 12
        base_offset = self.log_end_offset
        last_offset = base_offset + header.last_offset_delta
        timestamp = header.max_timestamp
        segment = self._active
        if (
            segment.size + length > self._segment_bytes
            or timestamp > segment.roll_after
            or last_offset > segment.last_indexable_offset
            or segment.full
        ):
            segment = self._room_for(length, base_offset, last_offset, timestamp)
        if leader_epoch > self.epochs.latest:
            self._begin_epoch(leader_epoch, base_offset)
        stamp_batch(batch, 0, base_offset, leader_epoch)
        try:
            segment.append(batch, length, last_offset, timestamp)
        except OSError as error:
            raise self.write_failed(segment, error) from error
        self.log_end_offset = last_offset + 1
        if segment.size == length:
            self._set_roll_time(segment)
        if producer_id >= 0:
            self._note_producer(header, base_offset, last_offset, batch, segment)
        told_ms = timestamp if header.attributes & 8 else NO_TIMESTAMP
        # As `Appended(…)`, whose defaults and keywords would cost more than the tuple.
        return tuple.__new__(Appended, (base_offset, last_offset, told_ms, False))

    def append_as_follower(self, batches: Buffer) -> Appended:
        """Append whole batches with the offsets and epochs that the leader gave them."""
        if self.failure is not None:
            raise self.failure
        truncation.save_epochs(self)
        return copying.append(self, batches)

    def append_copy(self, batch: memoryview, header: BatchHeader) -> None:
        """Append one batch as it is; what the leader sent is checked already."""
        segment, last_offset = self._active, header.last_offset
        if (
            segment.size + header.size > self._segment_bytes
            or header.max_timestamp > segment.roll_after
            or last_offset > segment.last_indexable_offset
            or segment.full
        ):
            segment = self._room_for(
                header.size, header.base_offset, last_offset, header.max_timestamp
            )
        if header.leader_epoch > self.epochs.latest:
            self._begin_epoch(header.leader_epoch, header.base_offset)
        try:
            segment.append(batch, header.size, last_offset, header.max_timestamp)
        except OSError as error:
            raise self.write_failed(segment, error) from error
        self.log_end_offset = last_offset + 1
        if segment.size == header.size:
            self._set_roll_time(segment)
        if header.producer_id >= 0:
            self._note_producer(header, header.base_offset, last_offset, batch, segment)

    def _note_producer(
        self, header: BatchHeader, base: int, last: int, batch: Buffer, segment: Segment
    ) -> None:
        try:
            self.producer_log.written(header, base, last, batch, segment)
        except OSError as error:
            # The marker is in the log, but not in the index of aborted transactions: only recovery can mend that.
            raise self.fail(error) from error

    def _check_producer(
        self, batch: Buffer, header: BatchHeader, coordinator: bool
    ) -> WrittenBatch | None:
        coordinator_epoch = -1
        if header.is_control:
            marker = maybe_marker(batch, header)
            coordinator_epoch = marker.coordinator_epoch if marker else -1
        return self.producers.check(
            header, client=not coordinator, coordinator_epoch=coordinator_epoch
        )

    def _begin_epoch(self, epoch: int, start_offset: int) -> None:
        try:
            self.epochs.assign(epoch, start_offset)
        except OSError as error:
            self.epochs.forget(epoch)
            raise failures.refused(self, "write the leader epoch of", error) from error

    # ------------------------------------------------------------------ rolling

    def roll(self, base_offset: int | None = None) -> Segment:
        """Close the active segment and begin another at the log's end."""
        old = self._active
        base_offset = self.log_end_offset if base_offset is None else base_offset
        if base_offset == old.base_offset:
            return old
        try:
            old.seal()
            self.producer_log.snapshot(self.log_end_offset, sync=False)
            new = create_segment(self.source, base_offset)
        except OSError as error:
            raise failures.refused(self, "roll a segment of", error) from error
        if old.size == 0:
            # Offsets jumped: an empty segment in between would only be in the way.
            self.segments.pop()
            self._bases.pop()
            retention.discard(self, [old])
        self._sealed_bytes += old.size
        self.segments.append(new)
        self._bases.append(base_offset)
        self._active = new
        self.directory_changed = True
        if self.on_roll is not None:
            self.on_roll(self)
        return new

    def roll_if_old(self, now_ms: int) -> bool:
        """Close a segment whose batches carry no timestamps once it has been open for segment.ms."""
        segment = self._active
        open_for = now_ms - segment.created_ms
        if not segment.size or open_for <= self._config.segment_ms - self._jitter_ms:
            return False
        if segment.begin_timestamp() >= 0:
            return False
        self.roll()
        return True

    def _room_for(self, length: int, base: int, last: int, timestamp: int) -> Segment:
        """The segment to append to, after closing the active one if it must be."""
        if length > self._segment_bytes:
            raise RecordListTooLarge(
                f"a batch of {length} bytes does not fit a segment of {self._segment_bytes}"
            )
        segment = self._active
        if segment.roll_after == _UNKNOWN:
            self._set_roll_time(segment)
        if last <= segment.last_indexable_offset and (
            segment.size == 0
            or (
                segment.size + length <= self._segment_bytes
                and timestamp <= segment.roll_after
                and not segment.full
            )
        ):
            return segment
        # Not at `base`, to which the offsets may have jumped where the leader's log is compacted: a segment begins where the
        # one before it ends, so that recovery sees when an end is missing.  (An index holds 2^31 offsets.)
        end = self.log_end_offset
        return self.roll(end if last - end <= MAX_RELATIVE_OFFSET else base)

    def _set_roll_time(self, segment: Segment) -> None:
        with failures.read_of(self):
            begin = segment.begin_timestamp()
        wait = self._config.segment_ms - self._jitter_ms
        segment.roll_after = begin + wait if begin >= 0 else _NEVER

    # ------------------------------------------------------------------ reading

    def read(
        self, offset: int, max_bytes: int, *, up_to: int, at_least_one: bool = True
    ) -> Region | None:
        """Whole batches from the one that holds `offset`, at most `max_bytes`, ending at or before `up_to`.

        None when there is nothing below `up_to`.  With `at_least_one` a first batch larger than `max_bytes` is returned
        alone.  The region stays readable although its segment is deleted meanwhile.
        """
        if self.failure is not None:
            raise self.failure
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRange(
                f"offset {offset} is outside of {self.log_start_offset} to {self.log_end_offset}"
            )
        if offset >= up_to:
            return None
        try:
            return reading.read(self, offset, max_bytes, up_to, at_least_one)
        except OSError as error:
            raise failures.refused(self, "read", error) from error

    def segment_number(self, offset: int) -> int:
        """Index of the segment that holds `offset`; 0 for one before the first."""
        return max(bisect_right(self._bases, offset) - 1, 0)

    def aborted_transactions(self, first_offset: int, up_to: int) -> list[tuple[int, int]]:
        """(producer id, first offset) of the aborted transactions in [first_offset, up_to)."""
        return reading.aborted_transactions(self, first_offset, up_to)

    def find_timestamp(self, target_ms: int, *, up_to: int) -> tuple[int, int, int] | None:
        """(timestamp, offset, leader epoch) of the first record that is not older, below `up_to`."""
        return reading.find_timestamp(self, target_ms, up_to)

    def max_timestamp(self, *, up_to: int | None = None) -> tuple[int, int, int] | None:
        """(timestamp, offset, leader epoch) of the record with the largest timestamp."""
        return reading.max_timestamp(self, self.log_end_offset if up_to is None else up_to)

    def end_offset_for(self, epoch: int, led_epoch: int = -1) -> tuple[int, int]:
        """The largest epoch at most `epoch`, and where it ended (OffsetForLeaderEpoch).

        An epoch in which this broker leads counts (`led_epoch`), although nothing was written in it yet.
        """
        return self.epochs.end_offset_for(epoch, self.log_end_offset, led_epoch)

    # ------------------------------------------------------------------ flushing

    def flush_due(self) -> bool:
        """Whether flush.messages asks for a flush now."""
        return self.log_end_offset - self.recovery_point >= self._flush_messages

    def prepare_flush(self) -> Flush:
        """A flush of everything written so far: `run` it in a thread, then call `done` on the loop."""
        if self.failure is not None:
            raise self.failure
        # The high watermark will come to stand here, and reads to end.
        reading.remember(self, self.log_end_offset, self._active, self._active.size)
        return Flush(self, self.producer_log)

    def flush(self) -> None:
        """Flush here and now; blocking."""
        try:
            flush = self.prepare_flush()
            flush.run()
        except OSError as error:
            raise self.fail(error) from error
        flush.done()

    # ------------------------------------------------------------------ shrinking

    def delete_records(self, up_to: int) -> int:
        """Move the log's start to `up_to`, -1 for the high watermark; returns the new start (DeleteRecords)."""
        if up_to == -1:
            up_to = self._high_watermark
        if up_to < 0 or up_to > self._high_watermark:
            raise OffsetOutOfRange(
                f"cannot delete up to {up_to}: the high watermark is {self._high_watermark}"
            )
        self._move_start(up_to)
        return self.log_start_offset

    def delete_old_segments(self, now_ms: int) -> list[tuple[int, str]]:
        """Apply retention: (base offset, why) of the segments that were deleted."""
        return retention.delete_old_segments(self, now_ms)

    def files_to_remove(self, now_ms: int) -> list[str]:
        """Files whose time has come; remove them in a thread."""
        return retention.files_to_remove(self, now_ms)

    def drop_first(self, segments: list[Segment]) -> None:
        """Delete the oldest segments; the log begins behind those that the disk has let go."""
        try:
            for each in segments:
                retention.discard(self, [each])
                del self.segments[0], self._bases[0]
        finally:
            self._move_start(self.segments[0].base_offset)
        self.producer_log.drop_before(self.segments[0].base_offset)

    def _move_start(self, offset: int) -> None:
        if offset <= self.log_start_offset:
            return
        # Invariant: log_start <= high_watermark
        assert offset <= self._high_watermark, (offset, self)
        self.log_start_offset = offset
        self.epochs.truncate_from_start(offset)

    def truncate_to(self, offset: int, restored: Producers | None = None) -> None:
        """Drop every record from `offset` on: a follower does so when its leader never had them.

        `restored` is what `truncation.prepared` has found; without it that is found here and now.
        """
        truncation.truncate_to(self, offset, restored)

    def truncate_fully_to(self, offset: int) -> None:
        """Drop everything and begin again at `offset`."""
        truncation.truncate_fully_to(self, offset)

    def take_producers(self, producers: Producers) -> None:
        """The log was cut to where these are known."""
        assert producers.end_offset <= self.log_end_offset, (producers.end_offset, self)
        self.producers = self.producer_log.state = producers
        producers.committed(self._high_watermark)

    def forget_last_segment(self) -> None:
        """Its files are gone; the one before is written to from now on."""
        self.segments.pop()
        self._bases.pop()
        self._active = self.segments[-1]

    def begins_with(self, segment: Segment) -> None:
        """The files of all others are gone."""
        self.segments[:] = [segment]
        self._bases = [segment.base_offset]
        self._active = segment

    def ends_at(self, offset: int) -> None:
        """The log was cut to `offset`: let everything that counts offsets know."""
        self._active.set_config(self._config)
        self._active.synced = False
        self.hints.clear()
        self.truncations += 1
        self.log_end_offset = offset
        self.log_start_offset = min(self.log_start_offset, offset)
        self.recovery_point = min(self.recovery_point, offset)
        self._high_watermark = max(min(self._high_watermark, offset), self.log_start_offset)
        self.epochs.cut_from_end(offset)
        self.directory_changed = True

    def replace_segments(self, new: Sequence[int], old: Sequence[int]) -> None:
        """Put cleaned segments in the place of those they were made from, both by base offset.

        The files `<base>.log.cleaned` and its indexes lie synced in the log's directory.  After a crash at any point either
        the old segments or the new ones are there.
        """
        try:
            segments = swapping.replace(self, self.source, new, old)
        except OSError as error:
            raise self.fail(error) from error
        self.segments[:] = segments
        self._bases = [each.base_offset for each in segments]
        self.hints.clear()
        self.directory_changed = True

    # ------------------------------------------------------------------ life

    def expire_producers(self) -> list[int]:
        """Forget the producers that have been silent for producer.id.expiration.ms; their ids."""
        return self.producer_log.expire(self.clock.now_ms())

    def close(self, *, clean: bool = True) -> None:
        """Let go of the files; a clean close syncs everything, so that nothing is scanned on the next start."""
        if clean and self.failure is None and (self._changed() or self._active.reserved):
            try:
                self._active.seal()
                self.producer_log.snapshot(self.log_end_offset, sync=True)
                self._active.sync()
            except OSError as error:
                raise self.fail(error) from error
            self.flush()
        for segment in self.segments:
            segment.release()

    def _changed(self) -> bool:
        """Whether a clean close has anything to do; most of many logs are idle."""
        if self.log_end_offset == self.truncations == 0:
            return False  # a log that never had a record has none to lose
        # One that was cut may have grown back to the same end.
        return self.truncations > 0 or not (
            self.recovery_point == self.log_end_offset == self._opened_at
        )

    def moved_to(self, directory: str) -> None:
        """The directory was renamed."""
        self.source = self.source.with_directory(directory)
        self.producer_log.moved_to(directory)
        self.epochs.moved_to(directory)
        for segment in self.segments:
            segment.moved_to(directory)

    def fail(self, error: OSError) -> KafkaStorageError:
        """The disk cannot be trusted any more: offline from now on."""
        return failures.fail(self, error)

    def write_failed(self, segment: Segment, error: OSError) -> KafkaStorageError:
        """Undo a write that failed; offline if that fails too, or if the disk is not merely full."""
        return failures.write_failed(self, segment, error)
