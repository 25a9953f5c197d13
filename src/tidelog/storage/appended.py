"""The answer to an append."""

from typing import NamedTuple

from tidelog.records.batch import BatchHeader
from tidelog.storage.producers import WrittenBatch

NO_TIMESTAMP = -1


class Appended(NamedTuple):
    """Where a batch went."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    """-1 unless the topic's timestamps are those of the append."""
    duplicate: bool = False
    """The batch was there already; the offsets are those of the first time."""


def repeat_of(batch: WrittenBatch, header: BatchHeader) -> Appended:
    """The answer to a batch that was written before."""
    timestamp = batch.timestamp if header.is_log_append_time else NO_TIMESTAMP
    return Appended(batch.base_offset, batch.last_offset, timestamp, True)
