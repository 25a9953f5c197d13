"""Compaction, decided: what of a log is dirty, whether to clean it now, and into which segments.

Everything here is a function of plain facts, as Kafka's LogCleanerManager and Cleaner have them:

    log start        first dirty              first uncleanable          log end
        |   clean        |   dirty, cleanable        |   not yet            |

*Clean* is what earlier passes have been over (`cleaner-offset-checkpoint`).  A pass maps the keys of the cleanable part
to their last offsets and rewrites everything below its end.  What a pass does to a batch is `compaction_filter`;
the reading and writing is `compaction_pass`; when and by whom it is run is `cleaner`.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from tidelog.dataclass import dataclass
from tidelog.storage.config import LogConfig

CLEANER_CHECKPOINT = "cleaner-offset-checkpoint"
_MAX_RELATIVE_OFFSET = (
    1 << 31
) - 1  # an index entry holds its offset in 32 bits, relative to the segment's base


class SegmentFacts(NamedTuple):
    """What the choice needs to know of one segment; a log's come in ascending order."""

    base_offset: int
    size_bytes: int
    index_bytes: int = 0
    time_index_bytes: int = 0
    first_timestamp: int = -1
    """Of its first batch, -1 if not known or none."""
    largest_timestamp: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFacts:
    """What the choice needs to know of one log."""

    log_start_offset: int
    log_end_offset: int
    last_stable_offset: int
    """Never above the high watermark."""
    segments: Sequence[SegmentFacts]
    """All of them; the last one is the active segment."""
    config: LogConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Dirtiness:
    """How much of a log a pass would clean, and whether it is worth it.

    Invariant: first_dirty_offset <= first_uncleanable_offset <= base offset of the active segment, or the log has
    nothing to clean and both are the same.
    """

    first_dirty_offset: int
    first_uncleanable_offset: int
    """A segment's base offset: cleaning never splits a segment."""
    clean_bytes: int
    cleanable_bytes: int
    overdue_ms: int
    """How long ago max.compaction.lag.ms called for a pass; 0 if it does not."""
    checkpoint_was_wrong: bool

    @property
    def ratio(self) -> float:
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0

    def due(self, config: LogConfig) -> bool:
        """Whether the log should be cleaned now."""
        if self.cleanable_bytes == 0:
            return False
        return self.overdue_ms > 0 or self.ratio > config.min_cleanable_dirty_ratio


def is_compacted(config: LogConfig) -> bool:
    return "compact" in config.cleanup_policy


def dirtiness(log: LogFacts, checkpoint: int | None, now_ms: int) -> Dirtiness:
    """Judge a log whose earlier passes ended at `checkpoint` (None: there was none)."""
    first_dirty = log.log_start_offset if checkpoint is None else checkpoint
    # Below the start after retention or DeleteRecords; past the end after a truncation: then begin anew.
    wrong = not log.log_start_offset <= first_dirty <= log.log_end_offset
    if wrong:
        first_dirty = log.log_start_offset
    closed = log.segments[:-1]
    dirty = _closed_from(log.segments, first_dirty)
    limit = _uncleanable_from(log, dirty, now_ms)
    uncleanable = max(_base_of_segment_holding(log.segments, limit), first_dirty)
    cleanable = [each for each in dirty if each.base_offset < uncleanable]
    clean_bytes = sum(each.size_bytes for each in closed) - sum(each.size_bytes for each in dirty)
    return Dirtiness(
        first_dirty_offset=first_dirty,
        first_uncleanable_offset=uncleanable,
        clean_bytes=clean_bytes,
        cleanable_bytes=sum(each.size_bytes for each in cleanable)
        if uncleanable > first_dirty
        else 0,
        overdue_ms=_overdue_ms(dirty, log.config, now_ms),
        checkpoint_was_wrong=wrong,
    )


def group_segments(
    segments: Sequence[SegmentFacts],
    *,
    segment_bytes: int,
    index_bytes: int,
    first_uncleanable_offset: int,
) -> list[list[SegmentFacts]]:
    """Neighbours that one segment has room for, before anything is removed from them.

    So that cleaning leaves few small segments, yet never one above `segment_bytes`, with an index above
    `index_bytes`, or with an offset that an index entry cannot hold.
    """
    groups: list[list[SegmentFacts]] = []
    ends = [each.base_offset for each in segments[1:]] + [first_uncleanable_offset]
    size = index = time_index = 0
    for segment, end in zip(segments, ends, strict=True):
        size += segment.size_bytes
        index += segment.index_bytes
        time_index += segment.time_index_bytes
        fits = (
            groups
            and size <= segment_bytes
            and index <= index_bytes
            and time_index <= index_bytes
            and end - 1 - groups[-1][0].base_offset <= _MAX_RELATIVE_OFFSET
        )
        if fits:
            groups[-1].append(segment)
        else:
            groups.append([segment])
            size, index, time_index = (
                segment.size_bytes,
                segment.index_bytes,
                segment.time_index_bytes,
            )
    return groups


def _closed_from(segments: Sequence[SegmentFacts], offset: int) -> list[SegmentFacts]:
    """The closed segments that hold `offset` or anything after it."""
    return [each for each, after in pairwise(segments) if after.base_offset > offset]


def _uncleanable_from(log: LogFacts, dirty: Iterable[SegmentFacts], now_ms: int) -> int:
    limit = min(log.last_stable_offset, log.segments[-1].base_offset)
    lag_ms = log.config.min_compaction_lag_ms
    if lag_ms > 0:
        young = (each.base_offset for each in dirty if each.largest_timestamp > now_ms - lag_ms)
        limit = min(limit, next(young, limit))
    return limit


def _base_of_segment_holding(segments: Sequence[SegmentFacts], offset: int) -> int:
    base = segments[0].base_offset
    for each in segments:
        if each.base_offset > offset:
            break
        base = each.base_offset
    return base


def _overdue_ms(dirty: Iterable[SegmentFacts], config: LogConfig, now_ms: int) -> int:
    first = min(
        (each.first_timestamp for each in dirty if each.first_timestamp > 0), default=now_ms
    )
    return max(0, now_ms - config.max_compaction_lag_ms - first)
