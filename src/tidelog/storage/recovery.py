"""Bringing a log back from its directory, after a clean stop, a kill or a power cut.

In order: finish or undo what a crash interrupted (`.swap`, `.cleaned`, `.deleted`), find the segments, scan those past
the recovery point and cut the first torn or corrupt batch with all that follows, bring back leader epochs and producers.
After a clean stop nothing is scanned: the recovery point is the log's end.
"""

import logging
import os
import struct
import zlib
from dataclasses import replace

from tidelog.clock import Clock
from tidelog.dataclass import dataclass
from tidelog.errors import CorruptMessage, StartError
from tidelog.records.batch import HEADER_BYTES, LOG_OVERHEAD, parse_header
from tidelog.storage.checkpoints import MalformedCheckpoint
from tidelog.storage.config import LogConfig
from tidelog.storage.epochs import LeaderEpochs
from tidelog.storage.files import Files
from tidelog.storage.index import MAX_RELATIVE_OFFSET
from tidelog.storage.open_segments import OpenSegments
from tidelog.storage.producer_log import ProducerLog
from tidelog.storage.progress import Progress
from tidelog.storage.scanning import TORN, ZEROS, Tail, scan
from tidelog.storage.segment import (
    CLEANED,
    DELETED,
    LOG,
    SUFFIXES,
    SWAP,
    Segment,
    file_name,
)

_OLD_HEAD = struct.Struct(">8xiIb")

_logger = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class Loaded:
    """A log as recovery found it."""

    segments: list[Segment]
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    epochs: LeaderEpochs
    producers: ProducerLog
    clean: bool
    damaged: bool
    """Records that had been written are missing, more than a write that a crash cut off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where and how a log is loaded."""

    files: Files
    directory: str
    config: LogConfig
    clock: Clock
    open_segments: OpenSegments
    producer_expiration_ms: int
    progress: Progress | None = None
    """Whom to tell how far the scan of a large log has come."""

    def with_config(self, config: LogConfig) -> "Source":
        return replace(self, config=config)

    def with_directory(self, directory: str) -> "Source":
        return replace(self, directory=directory)

    def segment(self, base_offset: int, sizes: dict[str, int] | None = None) -> Segment:
        return Segment(
            self.files,
            self.directory,
            base_offset,
            config=self.config,
            open_segments=self.open_segments,
            created_ms=self.clock.now_ms(),
            sizes=sizes,
        )


def load(
    source: Source,
    *,
    recovery_point: int,
    log_start_offset: int,
    clean: bool,
    whole_from: int | None = None,
) -> Loaded:
    """Load the log of a directory; `OSError` if the disk refuses.

    From `whole_from` on each segment goes on where the one before it ends; None if that is not known, as where compaction may
    have been.
    """
    sizes = source.files.sizes(source.directory)
    if any(name.endswith((DELETED, CLEANED, SWAP)) for name in sizes):
        sizes = finish_interrupted(source.files, source.directory, sizes)
    bases = sorted(int(name[: -len(LOG)]) for name in sizes if _is_log(name))
    segments = [source.segment(base, sizes) for base in bases]
    epochs, epochs_lost = _load_epochs(source)
    producers = ProducerLog(source, sizes)
    log_end, damaged = -1, False
    if clean and segments:
        log_end = _load_clean(segments, recovery_point, log_start_offset, producers)
    if log_end < 0 or epochs_lost:
        scan = _Recovery(source, segments, epochs, producers, whole_from)
        log_end, damaged = scan.run(recovery_point, log_start_offset), scan.damaged
        if epochs_lost:
            _rebuild_epochs(segments, epochs)
    if segments and log_end < log_start_offset:
        _logger.warning(
            "%s ends at offset %d, before its start %d: it is emptied",
            source.directory, log_end, log_start_offset,
        )  # fmt: skip
        for segment in segments:
            for path in segment.paths():
                source.files.remove(path)
        segments.clear()
        epochs.clear()
        producers.clear(log_start_offset)
    if not segments:
        segments.append(create_segment(source, log_start_offset))
        log_end = log_start_offset
        producers.state.end_offset = log_end
    log_start = max(log_start_offset, segments[0].base_offset)
    epochs.truncate_from_end(log_end)
    epochs.truncate_from_start(log_start)
    if epochs.unsaved:
        epochs.save()
    producers.drop_strays([each.base_offset for each in segments], log_end)
    return Loaded(
        segments=segments,
        log_start_offset=log_start,
        log_end_offset=log_end,
        recovery_point=log_end if clean else min(recovery_point, log_end),
        epochs=epochs,
        producers=producers,
        clean=clean,
        damaged=damaged,
    )


def _load_clean(
    segments: list[Segment], recovery_point: int, log_start_offset: int, producers: ProducerLog
) -> int:
    """The end of a log that was stopped cleanly, which nothing is scanned for; -1 if it is damaged all the same."""
    try:
        end = recovery_point
        if not _plausible_end(segments[-1], recovery_point):
            end = segments[-1].next_offset()
        producers.restore(segments, log_start_offset, end, trust_missing=True)
    except CorruptMessage as error:
        _logger.warning("%s; the log is scanned", error)
        return -1
    return end


def create_segment(source: Source, base_offset: int) -> Segment:
    """A new, empty segment with its file."""
    segment = source.segment(base_offset)
    segment.create(source.config.segment_bytes if source.config.preallocate else 0)
    return segment


def finish_interrupted(files: Files, directory: str, sizes: dict[str, int]) -> dict[str, int]:
    """Complete or undo the swap of cleaned segments that a crash interrupted; the files that remain.

    As Kafka's LogLoader: `.deleted` and `.cleaned` files go; a `.swap` replaces the segments that it was made of, unless
    a `.cleaned` beside it shows that not all of its set had been renamed.
    """
    cleaned = [_offset_of(name) for name in sizes if name.endswith(CLEANED)]
    limit = min(cleaned, default=1 << 63)
    doomed = [name for name in sizes if name.endswith((DELETED, CLEANED))]
    doomed += [n for n in sizes if n.endswith(SWAP) and _offset_of(n) >= limit]
    for name in doomed:
        files.remove(os.path.join(directory, name))
    for name in _damaged_swaps(files, directory, [n for n in sizes if n not in doomed]):
        files.remove(os.path.join(directory, name))
        doomed.append(name)
    swaps = [name for name in sizes if name.endswith(SWAP) and name not in doomed]
    ranges = [_swap_range(files, directory, name) for name in swaps if name.endswith(LOG + SWAP)]
    if ranges:
        low, high = min(each[0] for each in ranges), max(each[1] for each in ranges)
        for name in sizes:
            if name.endswith(SUFFIXES) and low <= _offset_of(name) < high:
                files.remove(os.path.join(directory, name))
    for name in sorted(swaps, key=_offset_of, reverse=True):
        target = os.path.join(directory, name[: -len(SWAP)])
        files.rename(os.path.join(directory, name), target)
    files.sync_directory(directory)
    return files.sizes(directory)


def rebuild_indexes(segment: Segment, why: str) -> None:
    """Write the indexes of a segment anew from its batches."""
    _logger.warning("%s: rebuilding the indexes (%s)", segment.path, why)
    segment.offset_index.reset()
    segment.time_index.reset()
    builder = _IndexBuilder(segment)
    for batch in scan(segment, Tail()):
        builder.add(batch.position, batch.size, batch.last_offset, batch.max_timestamp)
    builder.finish()


class _IndexBuilder:
    """Index entries as appending batch by batch would have made them."""

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self._first_timestamp = -1
        self._maximum = (-1, segment.base_offset)
        self._next_entry = 0

    def add(self, position: int, size: int, last_offset: int, timestamp: int) -> None:
        if position == 0:
            self._first_timestamp = timestamp
        if timestamp > self._maximum[0]:
            self._maximum = (timestamp, last_offset)
        if position > self._next_entry + self._segment.index_interval_bytes:
            self._segment.set_times(self._first_timestamp, *self._maximum)
            self._segment.add_index_entry(last_offset, position)
            self._next_entry = position

    def finish(self) -> None:
        self._segment.set_times(self._first_timestamp, *self._maximum)
        self._segment.seal()


class _Recovery:
    """The scan of the segments that may hold what was not synced."""

    def __init__(
        self,
        source: Source,
        segments: list[Segment],
        epochs: LeaderEpochs,
        producers: ProducerLog,
        whole_from: int | None,
    ) -> None:
        self._source = source
        self._segments = segments
        self._epochs = epochs
        self._producers = producers
        self._whole_from = whole_from
        self.damaged = False

    def run(self, recovery_point: int, log_start_offset: int) -> int:
        """Returns the end of the log."""
        segments, producers = self._segments, self._producers
        if not segments:
            return log_start_offset
        first = len(segments) - 1
        while first and segments[first].base_offset > recovery_point:
            first -= 1
        if first and not _is_whole(segments[first - 1]):
            first -= 1
        end = segments[first].base_offset
        # What is behind is learned anew: a power cut may have brought back what was noted before the log was cut.
        producers.drop_from(end)
        self._epochs.cut_from_end(end)
        producers.restore(segments[:first], log_start_offset, end, trust_missing=False)
        scanned = _Scanned(self._source.progress, sum(each.size for each in segments[first:]))
        for number, segment in enumerate(segments[first:], first):
            expected = max(end, segment.base_offset)
            end, reason = _recover_segment(segment, expected, self._epochs, producers, scanned)
            self.damaged = self.damaged or reason not in ("", TORN, ZEROS)
            behind = segments[number + 1 : number + 2]
            if not behind:
                break
            producers.snapshot(end, sync=False)
            if reason in ("", ZEROS) and self._goes_on(end, behind[0]):
                # Space that was reserved, and whose return a power cut has undone, is no loss.
                continue
            missing = f"offsets {end} to {behind[0].base_offset - 1} are missing"
            _drop_behind(segments, number, self._source, reason or missing)
            self.damaged = True
            break
        return end

    def _goes_on(self, end: int, behind: Segment) -> bool:
        """Whether a segment follows one that ends at `end`."""
        gap = behind.base_offset - end
        if gap == 0:
            return True
        # Offsets that jump further than a segment can hold were never written.
        may_jump = self._whole_from is None or behind.base_offset <= self._whole_from
        return may_jump or gap > MAX_RELATIVE_OFFSET // 2


class _Scanned:
    """The bytes that a log's recovery has gone through, told now and then."""

    def __init__(self, progress: Progress | None, total_bytes: int) -> None:
        self._progress = progress
        self._before = 0
        if progress is not None:
            progress.scan(total_bytes)

    def at(self, position: int) -> int:
        """The scan has come to `position` of a segment; at which one it should be told again."""
        if self._progress is not None:
            self._progress.at(self._before + position)
        return position + Progress.STEP_BYTES

    def finished(self, size: int) -> None:
        self._before += size


def _is_whole(segment: Segment) -> bool:
    """Whether a synced segment ends with a batch: a power cut may undo the return of space that it had reserved."""
    try:
        segment.next_offset()
    except CorruptMessage:
        return False
    finally:
        segment.release()
    return True


def _recover_segment(
    segment: Segment,
    expected: int,
    epochs: LeaderEpochs,
    producers: ProducerLog,
    scanned: _Scanned,
) -> tuple[int, str]:
    """Rebuild what belongs to the segment and cut its bad end: (end offset, what was wrong)."""
    segment.set_times(-1, -1, segment.base_offset)
    _refuse_old_format(segment)
    segment.offset_index.reset()
    segment.time_index.reset()
    segment.txn_index.reset()
    builder, tail, end = _IndexBuilder(segment), Tail(), expected
    tell_at = scanned.at(0)
    for batch in scan(segment, tail):
        if batch.position >= tell_at:
            tell_at = scanned.at(batch.position)
        if batch.base_offset < end or batch.last_offset > segment.last_indexable_offset:
            tail.position, tail.reason = batch.position, f"corrupt: offset {batch.base_offset}"
            break
        builder.add(batch.position, batch.size, batch.last_offset, batch.max_timestamp)
        if batch.leader_epoch >= 0:
            epochs.assign(batch.leader_epoch, batch.base_offset, save=False)
        producers.replay(batch, segment)
        end = batch.last_offset + 1
    scanned.finished(segment.size)
    dropped = segment.size - tail.position
    if dropped:
        _logger.warning(
            "%s: cut at offset %d (position %d), %d bytes dropped: %s",
            segment.path, end, tail.position, dropped, tail.reason,
        )  # fmt: skip
        segment.file().truncate(tail.position)
        segment.size = tail.position
    builder.finish()
    segment.release()
    producers.state.end_offset = end
    return end, tail.reason


def _refuse_old_format(segment: Segment) -> None:
    """Messages of Kafka before 0.11 are not damaged, only unreadable here: they must not be cut off."""
    # | offset int64 | length int32 | crc32 uint32 of what follows | magic int8 | …
    head = segment.file().pread(_OLD_HEAD.size, 0)
    if len(head) < _OLD_HEAD.size:
        return
    length, crc, magic = _OLD_HEAD.unpack(head)
    if magic not in (0, 1) or not 4 < length <= segment.size - LOG_OVERHEAD:
        return
    if zlib.crc32(segment.file().pread(length - 4, LOG_OVERHEAD + 4)) == crc:
        raise StartError(
            f"{segment.path} holds messages in the format of Kafka before 0.11, which tidelog does not read: "
            f"move {segment.directory} away, or copy the topic within Kafka first"
        )


def _drop_behind(segments: list[Segment], number: int, source: Source, reason: str) -> None:
    """A corrupt batch ends the log: what comes behind it cannot be trusted to follow."""
    lost = segments[number + 1 :]
    _logger.warning(
        "%s: dropped with the %d segments behind it, %d bytes, from offset %d: %s before them",
        segments[number + 1].path, len(lost) - 1, sum(each.size for each in lost),
        segments[number + 1].base_offset, reason,
    )  # fmt: skip
    for segment in lost:
        segment.release()
        for path in segment.paths():
            source.files.remove(path)
    del segments[number + 1 :]


def _load_epochs(source: Source) -> tuple[LeaderEpochs, bool]:
    epochs = LeaderEpochs(source.files, source.directory)
    try:
        epochs.load()
    except MalformedCheckpoint as error:
        _logger.warning("%s; the leader epochs are read from the log instead", error)
        return epochs, True
    return epochs, False


def _rebuild_epochs(segments: list[Segment], epochs: LeaderEpochs) -> None:
    epochs.clear()
    for segment in segments:
        for batch in scan(segment, Tail()):
            if batch.leader_epoch >= 0:
                epochs.assign(batch.leader_epoch, batch.base_offset, save=False)
        segment.release()
    epochs.save()


def _plausible_end(last: Segment, recovery_point: int) -> bool:
    """Whether the checkpoint of a clean stop can be the end of the log."""
    if last.size == 0:
        return recovery_point == last.base_offset
    return recovery_point > last.base_offset


def _damaged_swaps(files: Files, directory: str, names: list[str]) -> list[str]:
    """The files of swaps that cannot be read although what they were made of is still there."""
    damaged = []
    for name in names:
        if not name.endswith(LOG + SWAP):
            continue
        base, _, damage = _swap_range(files, directory, name)
        if damage and file_name(base) in names:
            _logger.warning("%s is dropped: %s", os.path.join(directory, name), damage)
            damaged += [each for each in names if each.endswith(SWAP) and _offset_of(each) == base]
    return damaged


def _swap_range(files: Files, directory: str, name: str) -> tuple[int, int, str]:
    """Base offset of a swapped-in segment, the offset after its last batch, and what is wrong with it if anything is."""
    base = end = _offset_of(name)
    damage = ""
    file = files.open(os.path.join(directory, name))
    try:
        position, size = 0, file.size()
        while position + HEADER_BYTES <= size:
            header = parse_header(file.pread(HEADER_BYTES, position), 0)
            position += header.size
            end = header.last_offset + 1
    except CorruptMessage as error:
        damage = error.message
    finally:
        file.close()
    return base, max(end, base + 1), damage


def _is_log(name: str) -> bool:
    return len(name) == len(file_name(0)) and name.endswith(LOG) and name[: -len(LOG)].isdigit()


def _offset_of(name: str) -> int:
    digits = name.split(".", 1)[0]
    return int(digits) if digits.isdigit() else -1
