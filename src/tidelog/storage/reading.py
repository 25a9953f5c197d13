"""Finding records in a log: by offset for a fetch, by timestamp for a seek, aborted transactions for read-committed.

The cost of a read does not depend on the size of the log: a bisection over the segments, one over an index, and a walk
over the few batches between two index entries.  A reader that goes on where it stopped, or waits at the end, skips even
that: the log remembers where the last regions ended.
"""

from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from tidelog.records.batch import NO_TIMESTAMP, first_not_older, latest_between
from tidelog.records.compression import DECOMPRESSED_LIMIT_BYTES
from tidelog.storage.files import File
from tidelog.storage.segment import Segment, Step

if TYPE_CHECKING:
    from tidelog.storage.log import Log

_HINTS_KEPT = 64


class Region(NamedTuple):
    """Whole batches in a file.  Holding it keeps the file open."""

    file: File
    position: int
    length: int
    first_offset: int
    """The offset that was asked for; the first batch may begin before it."""
    end_offset: int
    """All its records are below this offset."""

    def read(self) -> bytes:
        """The bytes themselves."""
        return self.file.pread(self.length, self.position)


def read(log: "Log", offset: int, max_bytes: int, up_to: int, at_least_one: bool) -> Region | None:
    """See `Log.read`; `offset` is in range and below `up_to`."""
    hint = log.hints.get(offset)
    number = log.segment_number(offset)
    step = None
    if hint is not None and hint[1] < hint[0].size:
        segment, start = hint
        if segment is not log.segments[number]:
            # The hint is of a segment that ends where this one begins.
            hint = None
    if hint is None or hint[1] >= hint[0].size:
        found = _find(log, number, offset)
        if found is None:
            return None
        segment, step = found
        if step.base_offset >= up_to:
            return None
        start = step.position
    end, end_offset = _readable_end(log, segment, up_to)
    if start >= end:
        return None
    if start + max_bytes < end:
        position = start
        if step is None or step.size <= max_bytes:
            position, after = segment.boundary(start, start + max(max_bytes, 0))
        if position <= start:
            first = (step or segment.step_at(start)) if at_least_one else None
            if first is None:
                return None
            position, after = start + first.size, first.last_offset + 1
        end, end_offset = min(position, end), min(after, end_offset)
    remember(log, end_offset, segment, end)
    return Region(segment.file(), start, end - start, offset, end_offset)


def _find(log: "Log", number: int, offset: int) -> tuple[Segment, Step] | None:
    """The batch that holds `offset`, or the next one: compaction leaves gaps, even whole segments."""
    for segment in log.segments[number:]:
        step = segment.find(offset)
        if step is not None:
            return segment, step
    return None


def _readable_end(log: "Log", segment: Segment, up_to: int) -> tuple[int, int]:
    """Position and offset where a read of this segment has to stop."""
    last = segment is log.segments[-1]
    segment_end = log.log_end_offset if last else log.segments[
        log.segment_number(segment.base_offset) + 1
    ].base_offset  # fmt: skip
    if up_to >= segment_end:
        return segment.size, segment_end
    hint = log.hints.get(up_to)
    if hint is not None and hint[0] is segment:
        return hint[1], up_to
    step = segment.find(up_to)
    if step is None:
        return segment.size, up_to
    remember(log, up_to, segment, step.position)
    return step.position, up_to


def remember(log: "Log", offset: int, segment: Segment, position: int) -> None:
    """A batch with this offset begins here, or will; only the latest few are kept."""
    hints = log.hints
    hints[offset] = (segment, position)
    if len(hints) > _HINTS_KEPT:
        del hints[next(iter(hints))]


def aborted_transactions(log: "Log", first_offset: int, up_to: int) -> list[tuple[int, int]]:
    """See `Log.aborted_transactions`."""
    found = []
    for segment in log.segments[log.segment_number(first_offset) :]:
        entries, complete = segment.txn_index.overlapping(first_offset, up_to)
        found += [(each.producer_id, each.first_offset) for each in entries]
        if complete:
            break
    found.sort(key=itemgetter(1))  # clients walk the list along with the records
    return found


def find_timestamp(log: "Log", target_ms: int, up_to: int) -> tuple[int, int, int] | None:
    """See `Log.find_timestamp`."""
    limit_bytes = max(DECOMPRESSED_LIMIT_BYTES, log.config.max_message_bytes)
    for segment in log.segments[log.segment_number(log.log_start_offset) :]:
        if segment.size == 0 or segment.maximum_timestamp()[0] < target_ms:
            continue
        found = _first_not_older(segment, target_ms, log.log_start_offset, limit_bytes)
        if found is not None:
            return found if found[1] < up_to else None
    return None


def max_timestamp(log: "Log", up_to: int) -> tuple[int, int, int] | None:
    """See `Log.max_timestamp`."""
    best = NO_TIMESTAMP
    for segment in log.segments[log.segment_number(log.log_start_offset) :]:
        timestamp, offset = segment.maximum_timestamp()
        if timestamp <= best:
            continue
        step = segment.find(offset)
        if step and step.base_offset >= log.log_start_offset and step.last_offset < up_to:
            best = timestamp
        else:
            # That record is deleted, or not yet to be seen: another may be the latest of the rest.
            best = max(best, _latest_between(segment, log, up_to))
    return find_timestamp(log, best, up_to) if best > NO_TIMESTAMP else None


def _latest_between(segment: Segment, log: "Log", up_to: int) -> int:
    """The largest timestamp from the log's start to `up_to` in this segment; -1 if there is none."""
    start, best = log.log_start_offset, NO_TIMESTAMP
    step = segment.find(start)
    while step is not None and step.base_offset < up_to:
        if step.max_timestamp > best:
            if step.base_offset >= start and step.last_offset < up_to:
                best = step.max_timestamp
            else:
                data = segment.file().pread(step.size, step.position)
                limit_bytes = max(DECOMPRESSED_LIMIT_BYTES, log.config.max_message_bytes)
                found = latest_between(data, 0, start, up_to, limit_bytes=limit_bytes)
                best = max(best, found)
        step = segment.step_at(step.position + step.size)
    return best


def _first_not_older(
    segment: Segment, target_ms: int, log_start: int, limit_bytes: int
) -> tuple[int, int, int] | None:
    # The entry's batch is the first to reach its timestamp, so the look-up starts at or before the answer.
    step = segment.find(max(segment.time_index.look_up(target_ms), log_start))
    while step is not None:
        if step.max_timestamp >= target_ms:
            data = segment.file().pread(step.size, step.position)
            leader_epoch = int.from_bytes(data[12:16], "big", signed=True)
            found = first_not_older(
                data, 0, target_ms, from_offset=log_start, limit_bytes=limit_bytes
            )
            if found is not None:
                return *found, leader_epoch
        step = segment.step_at(step.position + step.size)
    return None
