"""Many small batches appended with one write.

A log takes one batch at a time (`Log.append_as_leader`), and for a small one the call to the disk and the bookkeeping
around it cost more than its bytes.  When a producer does not wait for its answers, one read from its connection brings
many of them.  Here they are stamped, joined and written at once: all of them, or none.

Only the plain case is taken: batches without a producer id, into a segment that has room for all of them and that has
begun already.  `fits` tells; the rest goes one by one.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidelog.kernel import stamp_batch

if TYPE_CHECKING:
    from tidelog.storage.log import Log

Small = tuple[memoryview, int, int]
"""A checked batch in a writable buffer, how many records it has, and its largest timestamp."""


def fits(log: "Log", batches: Sequence[Small], leader_epoch: int) -> bool:
    """Whether `append` may be called: nothing has to be begun, closed or flushed for these batches."""
    segment = log.segments[-1]
    records = sum(count for _, count, _ in batches)
    end_offset = log.log_end_offset + records
    return (
        log.failure is None
        and leader_epoch == log.epochs.latest
        and segment.size > 0
        and segment.size + sum(len(data) for data, _, _ in batches) <= log.config.segment_bytes
        and max(timestamp for _, _, timestamp in batches) <= segment.roll_after
        and end_offset <= segment.last_indexable_offset
        and segment.has_slots(len(batches))
        and end_offset - log.recovery_point < log.config.flush_messages
    )


def append(log: "Log", batches: Sequence[Small], leader_epoch: int) -> int:
    """Append batches that fit, in their order; returns the offset of the first record.

    Their base offsets and the leader epoch are written into them.  Where the write fails the log is as it was before.
    """
    segment = log.segments[-1]
    base_offset = offset = log.log_end_offset
    for data, count, _ in batches:
        stamp_batch(data, 0, offset, leader_epoch)
        offset += count
    try:
        segment.write(b"".join([data for data, _, _ in batches]))
    except OSError as error:
        raise log.write_failed(segment, error) from error
    offset = base_offset
    for data, count, timestamp in batches:
        offset += count
        segment.written(len(data), offset - 1, timestamp)
    log.log_end_offset = offset
    return base_offset
