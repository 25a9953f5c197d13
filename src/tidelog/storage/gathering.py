"""Small batches appended with one write.

A log takes one batch at a time (`Log.append_as_leader`), and for a small one the call to the disk and the bookkeeping
around it cost more than its bytes.  When a producer does not wait for its answers, one read from its connection brings
many of them.  Here they are stamped, joined and written at once: all of them, or none.

Only the plain case is taken: batches without a producer id, into a segment that has room for all of them and that has
begun already.  `fits` tells; the rest goes one by one.
"""

from typing import TYPE_CHECKING

from tidelog.kernel import stamp_batch

if TYPE_CHECKING:
    from tidelog.storage.log import Log


class Gathered:
    """Checked batches for one log, in their order, and what they add up to."""

    __slots__ = ("batches", "largest_bytes", "newest_ms", "records", "size_bytes")

    def __init__(self) -> None:
        self.batches: list[tuple[memoryview, int, int]] = []
        """A batch in a writable buffer, how many records it has, and its largest timestamp."""
        self.largest_bytes = 0
        self.size_bytes = 0
        self.records = 0
        self.newest_ms = -1
        """The largest timestamp of all."""

    def add(self, data: memoryview, records: int, max_timestamp: int) -> None:
        self.batches.append((data, records, max_timestamp))
        length = len(data)
        self.size_bytes += length
        self.records += records
        if length > self.largest_bytes:
            self.largest_bytes = length
        if max_timestamp > self.newest_ms:
            self.newest_ms = max_timestamp


def fits(log: "Log", gathered: Gathered, leader_epoch: int) -> bool:
    """Whether `append` may be called: nothing has to be begun, closed or flushed for these batches."""
    segment, config = log.segments[-1], log.config
    end_offset = log.log_end_offset + gathered.records
    return (
        log.failure is None
        and leader_epoch == log.epochs.latest
        and 0 < segment.size <= config.segment_bytes - gathered.size_bytes
        and gathered.newest_ms <= segment.roll_after
        and end_offset <= segment.last_indexable_offset
        and segment.has_slots(len(gathered.batches))
        and end_offset - log.recovery_point < config.flush_messages
    )


def append(log: "Log", gathered: Gathered, leader_epoch: int) -> int:
    """Append batches that fit; returns the offset of the first record.

    Their base offsets and the leader epoch are written into them.  Where the write fails the log is as it was before.
    """
    segment, batches = log.segments[-1], gathered.batches
    base_offset = offset = log.log_end_offset
    for data, records, _ in batches:
        stamp_batch(data, 0, offset, leader_epoch)
        offset += records
    try:
        segment.write(
            batches[0][0] if len(batches) == 1 else b"".join([each[0] for each in batches])
        )
    except OSError as error:
        raise log.write_failed(segment, error) from error
    offset = base_offset
    for data, records, max_timestamp in batches:
        offset += records
        segment.written(len(data), offset - 1, max_timestamp)
    log.log_end_offset = offset
    return base_offset
