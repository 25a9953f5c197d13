"""Small batches appended with one write.

A log takes one batch at a time (`Log.append_as_leader`), and for a small one the call to the disk and the bookkeeping
around it cost more than its bytes.  When a producer does not wait for its answers, one read from its connection brings
many of them.  Here they are stamped, joined and written at once: all of them, or none.

Only the plain case is taken: a segment that has room for all of them and that has begun already, and producers that go on
where they were.  `fits` tells; the rest goes one by one.
"""

from typing import TYPE_CHECKING

from tidelog.errors import KafkaError
from tidelog.kernel import stamp_batch
from tidelog.records.batch import BatchHeader
from tidelog.storage.producers import MAX_SEQUENCE

if TYPE_CHECKING:
    from tidelog.storage.log import Log


class Gathered:
    """Checked batches for one log, in their order, and what they add up to."""

    __slots__ = ("batches", "headers", "largest_bytes", "newest_ms", "records", "size_bytes")

    def __init__(self) -> None:
        self.batches: list[tuple[memoryview, int, int]] = []
        """A batch in a writable buffer, how many records it has, and its largest timestamp."""
        self.headers: dict[int, BatchHeader] = {}
        """Those of the batches that have a producer id, by their place among all."""
        self.largest_bytes = 0
        self.size_bytes = 0
        self.records = 0
        self.newest_ms = -1
        """The largest timestamp of all."""

    def add(
        self,
        data: memoryview,
        records: int,
        max_timestamp: int,
        header: BatchHeader | None = None,
    ) -> None:
        """`header` is wanted of a batch that has a producer id."""
        if header is not None:
            self.headers[len(self.batches)] = header
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
        and (not gathered.headers or _go_on(log, gathered))
    )


def _go_on(log: "Log", gathered: Gathered) -> bool:
    """Whether every producer goes on where it was: a repeated, a missing or an outdated batch is answered one by one."""
    last: dict[int, BatchHeader] = {}
    for header in gathered.headers.values():
        before = last.get(header.producer_id)
        if before is None:
            try:
                if log.producers.check(header, client=True) is not None:
                    return False
            except KafkaError:
                return False
        elif (
            header.producer_epoch != before.producer_epoch
            or header.base_sequence != (before.last_sequence + 1) & MAX_SEQUENCE
        ):
            return False
        last[header.producer_id] = header
    return True


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
    if gathered.headers:
        _note_producers(log, gathered, base_offset)
    return base_offset


def _note_producers(log: "Log", gathered: Gathered, offset: int) -> None:
    """What the log knows of its producers follows the write."""
    for position, (_, records, _) in enumerate(gathered.batches):
        header = gathered.headers.get(position)
        if header is not None:
            log.producers.update(header, offset, offset + records - 1)
        offset += records
