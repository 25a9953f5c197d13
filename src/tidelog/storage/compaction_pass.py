"""One pass of compaction over one log: map the dirty keys, then write each group of segments anew.

    cleaning = CleaningPass(job, files, throttle)
    mapped = cleaning.map_keys()                 how far the map reaches, and which segments become one
    for group in mapped.groups:
        cleaned = cleaning.clean(group)          <base>.log.cleaned and its indexes are written and synced
        ...                                      the log's owner swaps them in before the next group is cleaned
    cleaning.close()

Only closed segments are read, and no file of the log is changed: an abandoned pass leaves `.cleaned` files, which the
next one overwrites and the log removes when it is opened.  Memory is bounded by the job: the map, one read buffer (of
one batch at least) and one write buffer.
"""

import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tidelog.dataclass import dataclass
from tidelog.errors import CorruptMessage
from tidelog.kernel import scan_batches
from tidelog.records.batch import LOG_OVERHEAD, BatchHeader, parse_header
from tidelog.storage.compaction import SegmentFacts, group_segments
from tidelog.storage.compaction_filter import BatchFilter, LastBatch, Reach, Transactions
from tidelog.storage.files import File, Files
from tidelog.storage.index import OffsetIndex, TimeIndex
from tidelog.storage.keymap import KeyMap
from tidelog.storage.segment import CLEANED, INDEX, LOG, SUFFIXES, TIME_INDEX, TXN_INDEX, file_name
from tidelog.storage.txnindex import AbortedTransaction, TransactionIndex


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """All that a pass needs to know; plain values, so that it can be sent to another process."""

    directory: str
    segments: list[SegmentFacts]
    """Every segment below the first uncleanable offset."""
    first_dirty_offset: int
    first_uncleanable_offset: int
    aborted: list[AbortedTransaction]
    """Those that touch anything from the first segment to the first uncleanable offset."""
    producers: dict[int, LastBatch]
    """The live ones."""
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    map_bytes: int
    map_load_factor: float
    io_buffer_bytes: int


class Mapped(NamedTuple):
    end_offset: int
    """The pass cleans up to here; below the first uncleanable offset if the map was full before."""
    groups: list[list[int]]
    """Base offsets of the segments that become one."""
    utilization: float


class Cleaned(NamedTuple):
    """A group, written anew under the base offset of its first segment."""

    base_offset: int
    size_bytes: int
    bytes_read: int
    records_read: int
    records_kept: int


class CleaningPass:
    """See the module's docstring."""

    def __init__(self, job: Job, files: Files, spend: Callable[[int], None]) -> None:
        """`spend` is told of every byte read or written, and may wait."""
        self._job = job
        self._files = files
        self._spend = spend
        self._segments = {each.base_offset: each for each in job.segments}
        ends = [each.base_offset for each in job.segments[1:]] + [job.first_uncleanable_offset]
        self._ends = dict(zip(self._segments, ends, strict=True))
        self._keys = KeyMap(
            job.map_bytes,
            load_factor=job.map_load_factor,
            expected=job.first_uncleanable_offset - job.first_dirty_offset,
        )
        self._transactions = Transactions(job.aborted)
        self._filter: BatchFilter

    def map_keys(self) -> Mapped:
        """Fill the map from the first dirty offset on, as far as it has room."""
        job = self._job
        latest_offset = self._fill()
        self._filter = BatchFilter(
            keys=self._keys,
            latest_offset=latest_offset,
            end_of_round=job.first_uncleanable_offset,
            transactions=self._transactions,
            producers=job.producers,
            now_ms=job.now_ms,
            delete_retention_ms=job.delete_retention_ms,
        )
        groups = group_segments(
            [each for each in job.segments if each.base_offset <= latest_offset],
            segment_bytes=job.segment_bytes,
            index_bytes=job.segment_index_bytes,
            first_uncleanable_offset=job.first_uncleanable_offset,
        )
        bases = [[each.base_offset for each in group] for group in groups]
        return Mapped(latest_offset + 1, bases, self._keys.utilization)

    def clean(self, group: list[int]) -> Cleaned:
        """Write what is to be kept of a group; the groups must be cleaned in order."""
        judge = self._filter
        read, kept = judge.records_read, judge.records_kept
        writer = _Writer(self._job, self._files, self._spend, group[0])
        try:
            for base_offset in group:
                for buf, position, header in self._batches(self._segments[base_offset]):
                    retained = judge.keep(buf, position, header)
                    if retained is not None:
                        writer.write(retained)
            writer.finish(self._transactions.kept)
            self._transactions.kept.clear()
        finally:
            writer.close()
        return Cleaned(
            group[0],
            writer.size_bytes,
            sum(self._segments[each].size_bytes for each in group),
            judge.records_read - read,
            judge.records_kept - kept,
        )

    def close(self) -> None:
        self._keys.close()

    def _fill(self) -> int:
        job = self._job
        dirty = [
            each for each in job.segments if self._ends[each.base_offset] > job.first_dirty_offset
        ]
        begin = dirty[0].base_offset if dirty else job.first_dirty_offset
        # A transaction that ended before the first batch read would look as if it never did.
        transactions = Transactions(each for each in job.aborted if each.last_offset >= begin)
        reach = Reach(self._keys, transactions, job.first_dirty_offset)
        for segment in dirty:
            for buf, position, header in self._batches(segment):
                if not reach.add(buf, position, header):
                    return reach.latest_offset
            reach.advance(self._ends[segment.base_offset] - 1)
        return reach.latest_offset

    def _batches(self, segment: SegmentFacts) -> Iterator[tuple[memoryview, int, BatchHeader]]:
        path = os.path.join(self._job.directory, file_name(segment.base_offset))
        file = self._files.open(path)
        try:
            position = 0
            while position < segment.size_bytes:
                chunk = self._read(file, position, segment.size_bytes)
                found, stop, reason = scan_batches(chunk, 0, len(chunk))
                if not found or reason.startswith("corrupt"):
                    raise CorruptMessage(f"{path} at {position + stop}: {reason or 'no batch'}")
                for each in found:
                    yield chunk, each[0], parse_header(chunk, each[0])
                position += stop
        finally:
            file.close()

    def _read(self, file: File, position: int, end: int) -> memoryview:
        """A buffer full from `position` on, or more if the first batch is larger than that."""
        wanted = min(self._job.io_buffer_bytes, end - position)
        data = file.pread(wanted, position)
        if len(data) >= LOG_OVERHEAD:
            first = int.from_bytes(data[8:12], "big", signed=True) + LOG_OVERHEAD
            if len(data) < first <= end - position:
                data = file.pread(first, position)
        self._spend(len(data))
        return memoryview(data)


def cleaned_paths(directory: str, base_offset: int) -> dict[str, str]:
    """The files of a new segment, by what follows the base offset in their names."""
    return {
        suffix: os.path.join(directory, file_name(base_offset, suffix + CLEANED))
        for suffix in SUFFIXES
    }


class _Writer:
    """A new segment with its indexes, all under names that end in `.cleaned`."""

    def __init__(
        self, job: Job, files: Files, spend: Callable[[int], None], base_offset: int
    ) -> None:
        paths = cleaned_paths(job.directory, base_offset)
        for path in paths.values():
            files.remove(path)  # of a pass that was abandoned
        self.size_bytes = 0
        self._spend = spend
        self._directory = job.directory
        self._files = files
        self._buffer_bytes = job.io_buffer_bytes
        self._interval_bytes = job.index_interval_bytes
        self._pending = bytearray()
        self._since_entry = 0
        self._largest_timestamp = (-1, base_offset)
        self._index = OffsetIndex(files, paths[INDEX], base_offset)
        self._time_index = TimeIndex(files, paths[TIME_INDEX], base_offset)
        self._transaction_index = TransactionIndex(files, paths[TXN_INDEX], exists=False)
        self._log = files.open(paths[LOG], create=True)

    def write(self, batch: memoryview) -> None:
        header = parse_header(batch, 0)
        if header.max_timestamp > self._largest_timestamp[0]:
            self._largest_timestamp = (header.max_timestamp, header.last_offset)
        if self._since_entry > self._interval_bytes:
            self._index.append(header.last_offset, self.size_bytes + len(self._pending))
            self._time_index.append(*self._largest_timestamp)
            self._since_entry = 0
        self._pending += batch
        self._since_entry += len(batch)
        if len(self._pending) >= self._buffer_bytes:
            self._flush()

    def finish(self, aborted: list[AbortedTransaction]) -> None:
        """Write the rest and have everything on the disk."""
        self._flush()
        if self._largest_timestamp[0] >= 0:
            self._time_index.append(*self._largest_timestamp)
        for each in aborted:
            self._transaction_index.append(each)
        self._log.datasync()
        for index in (self._index, self._time_index):
            index.save()
            # An index that is missing, rather than empty, is taken for a damaged one.
            self._files.open(index.path, create=True).close()
            index.sync()
        self._transaction_index.sync()
        self._files.sync_directory(self._directory)

    def close(self) -> None:
        self._log.close()

    def _flush(self) -> None:
        if self._pending:
            self._log.pwrite(self._pending, self.size_bytes)
            self._spend(len(self._pending))
            self.size_bytes += len(self._pending)
            self._pending = bytearray()
