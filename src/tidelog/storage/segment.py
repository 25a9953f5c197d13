"""A segment: a stretch of the log in one file, with its indexes.

    00000000000000004711.log         whole batches, back to back
    00000000000000004711.index       offset → position            (index.py)
    00000000000000004711.timeindex   timestamp → offset           (index.py)
    00000000000000004711.txnindex    aborted transactions         (txnindex.py)

Nothing is opened before it is needed, so that ten thousand partitions load quickly and an idle one costs no descriptor.
A segment knows nothing of high watermarks or producers: that is the log's business.
"""

import contextlib
import os
import struct
from typing import NamedTuple

from tidelog.errors import CorruptMessage
from tidelog.kernel import skip_batches
from tidelog.storage.config import LogConfig
from tidelog.storage.files import Buffer, File, Files
from tidelog.storage.index import (
    MAX_RELATIVE_OFFSET,
    CorruptIndex,
    OffsetIndex,
    TimeIndex,
)
from tidelog.storage.open_segments import OpenSegments
from tidelog.storage.txnindex import TransactionIndex

LOG, INDEX, TIME_INDEX, TXN_INDEX = ".log", ".index", ".timeindex", ".txnindex"
SUFFIXES = (LOG, INDEX, TIME_INDEX, TXN_INDEX)
DELETED, CLEANED, SWAP = ".deleted", ".cleaned", ".swap"

NO_TIMESTAMP = -1
_NEVER = 1 << 62
_UNKNOWN = -2

# | base offset | length | leader epoch, magic, crc, attributes | last offset delta | base, max timestamp |
_STEP = struct.Struct(">qi11xiqq")
_WINDOW_BYTES = 8192
_LENGTH_EXCLUDED = 12  # base offset and length itself are not counted in a batch's length
_NO_LIMIT = 1 << 62  # an offset beyond all
_LEAST_LENGTH = 49  # a header without records


class Step(NamedTuple):
    """One batch, as far as walking over it needs to know."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    max_timestamp: int


def file_name(base_offset: int, suffix: str = LOG) -> str:
    return f"{base_offset:020d}{suffix}"


class Segment:
    """One segment of a log."""

    __slots__ = (
        "_bytes_since_entry",
        "_file",
        "_files",
        "_max_index_entries",
        "_max_time_entries",
        "_max_timestamp",
        "_max_timestamp_offset",
        "_open_segments",
        "_rebuild",
        "_rebuilt",
        "base_offset",
        "created_ms",
        "directory",
        "first_timestamp",
        "full",
        "index_interval_bytes",
        "last_indexable_offset",
        "offset_index",
        "recently_used",
        "reserved",
        "roll_after",
        "size",
        "synced",
        "time_index",
        "txn_index",
    )

    def __init__(
        self,
        files: Files,
        directory: str,
        base_offset: int,
        *,
        config: LogConfig,
        open_segments: OpenSegments,
        created_ms: int,
        sizes: dict[str, int] | None = None,
    ) -> None:
        """`sizes` are the files found on disk; without them the segment is new and empty."""
        self._files = files
        self._open_segments = open_segments
        self.directory = directory
        self.base_offset = base_offset
        self.created_ms = created_ms
        stem = os.path.join(directory, file_name(base_offset, ""))
        found = sizes or {}
        bare = file_name(base_offset, "")
        self.size = found.get(bare + LOG, 0)
        """Bytes of whole batches; what lies behind in the file is not part of the log."""
        self.offset_index = OffsetIndex(
            files, stem + INDEX, base_offset, found.get(bare + INDEX, 0)
        )
        self.time_index = TimeIndex(
            files, stem + TIME_INDEX, base_offset, found.get(bare + TIME_INDEX, 0)
        )
        self.txn_index = TransactionIndex(
            files, stem + TXN_INDEX, exists=found.get(bare + TXN_INDEX, 0) > 0
        )
        self._file: File | None = None
        self._rebuild = self.size > 0 and bare + INDEX not in found
        self._rebuilt = False
        self._max_timestamp = _UNKNOWN if self.size else NO_TIMESTAMP
        self._max_timestamp_offset = base_offset
        self.first_timestamp = _UNKNOWN if self.size else NO_TIMESTAMP
        """Largest timestamp of the first batch: the age of the segment counts from it."""
        self.last_indexable_offset = base_offset + MAX_RELATIVE_OFFSET
        self.full = False
        """An index has no room for another entry."""
        self.roll_after = _NEVER
        """The segment is closed when a batch with a later timestamp comes."""
        self._bytes_since_entry = 0
        self.reserved = False
        """The file is longer than `size`: the rest is for batches to come, and gone when the segment is closed."""
        self.recently_used = True
        self.synced = False
        """All that the segment will ever hold is on the disk."""
        self.set_config(config)

    def __repr__(self) -> str:
        return f"<Segment {self.path} {self.size} bytes>"

    def set_config(self, config: LogConfig) -> None:
        self.index_interval_bytes = config.index_interval_bytes
        # Kafka keeps one slot of the time index free for the entry that closing the segment adds.
        self._max_index_entries = config.segment_index_bytes // 8
        self._max_time_entries = config.segment_index_bytes // 12 - 1

    @property
    def path(self) -> str:
        return os.path.join(self.directory, file_name(self.base_offset))

    def file(self) -> File:
        """The log file, opened if need be; whoever holds on to it can read it although the segment is deleted."""
        self.recently_used = True
        return self._file or self._open()

    # ------------------------------------------------------------------ writing

    def create(self, reserve_bytes: int) -> None:
        """Make the file, and claim its disk space beforehand (preallocate) if that is asked for."""
        file = self._files.open(self.path, create=True)
        try:
            if reserve_bytes:
                self.reserved = True
                file.allocate(reserve_bytes)
        finally:
            file.close()

    def give_back(self) -> None:
        """Give back the disk space that was claimed and not used."""
        if self.reserved:
            self.cut_tail()
            self.reserved = False

    def append(self, data: Buffer, length: int, last_offset: int, max_timestamp: int) -> None:
        """Write whole batches at the end; `OSError` leaves the segment as it was."""
        (self._file or self._open()).pwrite(data, self.size)
        self.written(length, last_offset, max_timestamp)

    def write(self, data: Buffer) -> None:
        """Put bytes behind the end; they become part of the segment when `written` tells of them."""
        (self._file or self._open()).pwrite(data, self.size)

    def written(self, length: int, last_offset: int, max_timestamp: int) -> None:
        """A batch of `length` bytes lies behind the end: take it in, and index it where one is due."""
        position = self.size
        self.size = position + length
        self.recently_used = True
        if position == 0:
            self.first_timestamp = max_timestamp
        if max_timestamp > self._max_timestamp:
            self._max_timestamp = max_timestamp
            self._max_timestamp_offset = last_offset
        if self._bytes_since_entry > self.index_interval_bytes:
            # The batch is written, whatever becomes of the index: then the next one gets the entry.
            with contextlib.suppress(OSError):
                self.add_index_entry(last_offset, position)
        self._bytes_since_entry += length

    def has_slots(self, entries: int) -> bool:
        """Whether the indexes have room for so many more entries."""
        return (
            self.offset_index.entries + entries < self._max_index_entries
            and self.time_index.entries + entries < self._max_time_entries
        )

    def add_index_entry(self, last_offset: int, position: int) -> None:
        # First the one that may have to look at its file: whenever the offset index gets an entry the time index has the maximum.
        self.time_index.append(self._max_timestamp, self._max_timestamp_offset)
        self.offset_index.append(last_offset, position)
        self._bytes_since_entry = 0
        self.full = (
            self.offset_index.entries >= self._max_index_entries
            or self.time_index.entries >= self._max_time_entries
        )

    def cut_tail(self) -> None:
        """Remove what a failed write left behind the end."""
        self.file().truncate(self.size)

    def truncate_to(self, offset: int) -> int:
        """Drop the batch that holds `offset` and all after it; returns the bytes dropped."""
        step = self.find(offset)
        if step is None:
            return 0
        return self.truncate_at(step.position, offset)

    def truncate_at(self, position: int, offset: int) -> int:
        """Drop everything from `position`, which is where the batch with `offset` begins."""
        dropped = self.size - position
        # First what does no harm by being too short, should the disk refuse the rest.
        self.txn_index.truncate_to(offset)
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.file().truncate(position)
        self.size = position
        self.full = self.synced = False
        self._bytes_since_entry = 0
        if position == 0:
            self.first_timestamp = self._max_timestamp = NO_TIMESTAMP
            self.roll_after = _NEVER
            self._max_timestamp_offset = self.base_offset
        else:
            self._find_max_timestamp()
        return dropped

    def seal(self) -> None:
        """No more is appended: complete the indexes and write them."""
        self.give_back()
        if self.size and self._max_timestamp != _UNKNOWN:
            self.time_index.append(self._max_timestamp, self._max_timestamp_offset)
        self.txn_index.save()
        for index in (self.offset_index, self.time_index):
            index.save()
            if not index.entries:
                # Kafka takes a missing index for a damaged segment.
                self._files.open(index.path, create=True).close()

    def sync(self) -> None:
        """Sync the log and its indexes; blocking."""
        self._files_to_sync().datasync()
        self.offset_index.sync()
        self.time_index.sync()
        self.txn_index.sync()

    def set_times(
        self, first_timestamp: int, max_timestamp: int, max_timestamp_offset: int
    ) -> None:
        """What recovery found out by scanning."""
        self.first_timestamp = first_timestamp
        self._max_timestamp = max_timestamp
        self._max_timestamp_offset = max_timestamp_offset
        self._rebuild = False

    # ------------------------------------------------------------------ looking up

    def maximum_timestamp(self) -> tuple[int, int]:
        """The largest timestamp and the last offset of the first batch that has it; (-1, …) when empty."""
        if self._max_timestamp == _UNKNOWN:
            self._prepare()
        return self._max_timestamp, self._max_timestamp_offset

    def begin_timestamp(self) -> int:
        """The timestamp from which the segment's age counts; -1 when it has none."""
        if self.first_timestamp == _UNKNOWN:
            step = self.step_at(0)
            self.first_timestamp = step.max_timestamp if step else NO_TIMESTAMP
        return self.first_timestamp

    def find(self, offset: int) -> Step | None:
        """The first batch that ends at `offset` or later; None if all end before it."""
        self._prepare()
        try:
            return self._walk(self.offset_index.look_up(offset), offset)
        except CorruptIndex as error:
            if self._rebuilt:
                # It is the log itself, and reading all of it again would not mend that.
                raise CorruptMessage(str(error)) from None
            self._rebuild_indexes(str(error))
        return self.walk(self.offset_index.look_up(offset), offset)

    def walk(self, position: int, offset: int) -> Step | None:
        """The same, looking only from the batch at `position` on; `CorruptMessage` if there are no batches."""
        try:
            return self._walk(position, offset)
        except CorruptIndex as error:
            raise CorruptMessage(str(error)) from None

    def _walk(self, position: int, offset: int) -> Step | None:
        """The same; `CorruptIndex` if what led to `position` was wrong."""
        if position < 0:
            raise CorruptIndex(f"{self.offset_index.path} points to {position}")
        window, start = b"", position
        file = self.file()
        while position + _STEP.size <= self.size:
            if position + _STEP.size > start + len(window):
                start = position
                window = file.pread(min(_WINDOW_BYTES, self.size - position), position)
                if len(window) < _STEP.size:
                    return None
            skipped, _ = skip_batches(
                window, position - start, self.base_offset, offset, self.size - start
            )
            position = start + skipped
            if position + _STEP.size > start + len(window):
                continue
            base, length, delta, _, timestamp = _STEP.unpack_from(window, position - start)
            size = length + _LENGTH_EXCLUDED
            if length < _LEAST_LENGTH or delta < 0 or base < self.base_offset:
                raise CorruptIndex(f"{self.path}: no batch begins at {position}")
            if base + delta >= offset:
                if position + size > self.size:
                    raise CorruptIndex(f"{self.path}: the batch at {position} is cut off")
                return Step(position, size, base, base + delta, timestamp)
            position += size
        return None

    def boundary(self, start: int, limit: int) -> tuple[int, int]:
        """The last end of a batch at or before `limit`, walking no further back than `start`.

        Returns its position and the offset after that batch; (start, -1) when not one batch fits.
        """
        self._prepare()
        position = max(start, self.offset_index.before_position(limit))
        end_offset = -1
        window, window_start = b"", position
        file = self.file()
        while position + _STEP.size <= self.size:
            if position + _STEP.size > window_start + len(window):
                window_start = position
                # With the header of the batch that reaches beyond.
                wanted = limit - position + _STEP.size
                window = file.pread(min(wanted, _WINDOW_BYTES, self.size - position), position)
                if len(window) < _STEP.size:
                    break
            skipped, after = skip_batches(
                window, position - window_start, self.base_offset, _NO_LIMIT, limit - window_start
            )
            position = window_start + skipped
            end_offset = max(end_offset, after)
            if position + _STEP.size <= window_start + len(window):
                # The batch that does not fit tells where the one before it ended.
                base = _STEP.unpack_from(window, skipped)[0]
                return position, base if position > start else -1
        return position, end_offset

    def step_at(self, position: int) -> Step | None:
        """The batch at a position; None at the end."""
        return self.walk(position, -1)

    def next_offset(self) -> int:
        """The offset after the last batch, read from the file."""
        last = self.base_offset
        position: int = self.offset_index.before_position(self.size)
        try:
            step = self._walk(position, -1)
        except CorruptIndex as error:
            self._rebuild_indexes(str(error))
            step = self.step_at(self.offset_index.before_position(self.size))
        while step is not None:
            last = step.last_offset + 1
            step = self.step_at(step.position + step.size)
        return last

    # ------------------------------------------------------------------ files

    def paths(self) -> list[str]:
        """Every file that the segment may have."""
        stem = os.path.join(self.directory, file_name(self.base_offset, ""))
        return [stem + suffix for suffix in SUFFIXES]

    def mark_deleted(self) -> list[str]:
        """Rename the files so that a restart removes them; returns the new paths.  All of them or, after `OSError`, none."""
        renamed = []
        try:
            for path in reversed(self.paths()):  # the log itself last: with it the segment is gone
                if self._files.exists(path):
                    self._files.rename(path, path + DELETED)
                    renamed.append(path)
        except OSError:
            for path in renamed:
                self._files.rename(path + DELETED, path)
            raise
        return [path + DELETED for path in renamed]

    def release(self) -> None:
        """Give back descriptor and maps; the next use opens them again."""
        self._open_segments.forget(self)
        self.let_go()

    def let_go(self) -> None:
        self._file = None
        self.offset_index.release()
        self.time_index.release()

    def moved_to(self, directory: str) -> None:
        """The directory of the log was renamed."""
        self.directory = directory
        stem = os.path.join(directory, file_name(self.base_offset, ""))
        self.offset_index.path = stem + INDEX
        self.time_index.path = stem + TIME_INDEX
        self.txn_index.path = stem + TXN_INDEX

    def _open(self) -> File:
        if self._max_timestamp == _UNKNOWN:
            self._prepare()
        if self._file is None:
            self._file = self._files.open(self.path, create=self.size == 0)
            self._open_segments.opened(self)
        return self._file

    def _files_to_sync(self) -> File:
        # Runs in a thread: it must not touch the shared book of open segments.
        return self._file or self._files.open(self.path)

    def _prepare(self) -> None:
        """Check the indexes when they are first needed, and rebuild them if they do not fit."""
        if self._max_timestamp != _UNKNOWN:
            return
        try:
            if self._rebuild:
                raise CorruptIndex(f"{self.offset_index.path} is missing")
            self.offset_index.check(self.size)
            self.time_index.check(self.base_offset + MAX_RELATIVE_OFFSET)
            self._max_timestamp = NO_TIMESTAMP
            self._find_max_timestamp()
        except CorruptIndex as error:
            self._rebuild_indexes(str(error))

    def _rebuild_indexes(self, why: str) -> None:
        from tidelog.storage.recovery import rebuild_indexes

        self._max_timestamp = NO_TIMESTAMP
        self._rebuilt = True
        rebuild_indexes(self, why)

    def _find_max_timestamp(self) -> None:
        """From the time index, and the batches behind its last entry."""
        timestamp, offset = self.time_index.maximum()
        # Whenever the offset index gets an entry the time index has the maximum up to there.
        step = self._walk(self.offset_index.before_position(self.size), -1)
        while step is not None:
            if step.max_timestamp > timestamp:
                timestamp, offset = step.max_timestamp, step.last_offset
            step = self._walk(step.position + step.size, -1)
        self._max_timestamp, self._max_timestamp_offset = timestamp, offset
