"""Sparse indexes of a segment: offset → position in the file, and timestamp → offset.

Kafka's files, entry for entry, big-endian:

    .index       | relative offset int32 | position int32 |                       8 bytes
    .timeindex   | timestamp int64       | relative offset int32 |               12 bytes

An entry of the offset index names the *last* offset of the batch that begins at the position.  New entries gather in
memory and reach the file a page at a time, on roll and on close: an index past the recovery point is rebuilt from the
log anyway, so a crash loses nothing.  Kafka maps the file for writing and grows it beforehand; we write instead,
because a full disk under a mapped write ends the process with SIGBUS.  Reading is through a map, made on first use.
"""

import mmap
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from tidelog.kernel import find_floor
from tidelog.storage.files import Files

_SAVE_BYTES = 4096

_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")
_POSITION = struct.Struct(">i")

MAX_RELATIVE_OFFSET = (1 << 31) - 1


class CorruptIndex(Exception):
    """The index does not fit its segment; it has to be rebuilt."""


class IndexFile:
    """Fixed-size entries, of which every field grows from one to the next."""

    __slots__ = ("_entry", "_files", "_first_bytes", "_map", "_stored", "_tail", "entries", "path")

    def __init__(self, files: Files, path: str, entry: struct.Struct, stored_bytes: int) -> None:
        """`stored_bytes` is the size of the file on disk, 0 for a new one."""
        self.path = path
        self._files = files
        self._entry = entry
        self._first_bytes = entry.size - 4
        """Of the first field; the second and last is an int32."""
        self._stored = stored_bytes // entry.size
        self._tail = bytearray()
        self._map: mmap.mmap | None = None
        self.entries = self._stored

    def at(self, slot: int) -> tuple[Any, ...]:
        """The entry in a slot."""
        below = slot - self._stored
        if below >= 0:
            return self._entry.unpack_from(self._tail, below * self._entry.size)
        return self._entry.unpack_from(self._mapped(), slot * self._entry.size)

    def last(self) -> tuple[Any, ...] | None:
        return self.at(self.entries - 1) if self.entries else None

    def floor(self, target: int, field: int = 0) -> int:
        """The last slot whose `field` is at most `target`, or -1."""
        stored, size = self._stored, self._entry.size
        key_bytes, key_at = (self._first_bytes, 0) if field == 0 else (4, self._first_bytes)
        if self._tail:
            slot = find_floor(self._tail, self.entries - stored, size, key_bytes, target, key_at)
            if slot >= 0 or not stored:
                return stored + slot
        return find_floor(self._mapped(), stored, size, key_bytes, target, key_at) if stored else -1

    def add(self, entry: bytes) -> None:
        self._tail += entry
        self.entries += 1
        if len(self._tail) >= _SAVE_BYTES:
            try:
                self.save()
            except OSError:
                # The entries stay in memory; whoever closes the segment tries again and reports.
                return

    def save(self) -> None:
        """Write what is only in memory."""
        if not self._tail:
            return
        file = self._files.open(self.path, create=True)
        try:
            file.pwrite(self._tail, self._stored * self._entry.size)
        finally:
            file.close()
        self._stored = self.entries
        self._tail.clear()

    def truncate(self, entries: int) -> None:
        """Keep the first `entries`."""
        if entries >= self.entries:
            return
        if entries < self._stored:
            self._unmap()
            file = self._files.open(self.path, create=True)
            try:
                file.truncate(entries * self._entry.size)
            finally:
                file.close()
            self._stored = entries
        del self._tail[(entries - self._stored) * self._entry.size :]
        self.entries = entries

    def reset(self) -> None:
        """Forget everything, and whatever the file held."""
        self._unmap()
        self._tail.clear()
        self._stored = self.entries = 0
        file = self._files.open(self.path, create=True)
        try:
            file.truncate(0)
        finally:
            file.close()

    def sync(self) -> None:
        """Write and sync; blocking."""
        self.save()
        if self._files.exists(self.path):
            file = self._files.open(self.path)
            try:
                file.datasync()
            finally:
                file.close()

    def release(self) -> None:
        """Give the map back; the next look-up makes a new one."""
        self._unmap()

    def _mapped(self) -> mmap.mmap:
        wanted = self._stored * self._entry.size
        if self._map is None or len(self._map) < wanted:
            self._unmap()
            file = self._files.open(self.path)
            try:
                self._map = file.map()
            finally:
                file.close()
            if len(self._map) < wanted:
                raise CorruptIndex(f"{self.path} is shorter than it was")
        return self._map

    def _unmap(self) -> None:
        if self._map is not None:
            self._map.close()
            self._map = None


class IndexedPosition(NamedTuple):
    offset: int
    position: int


class OffsetIndex(IndexFile):
    """Offset → position of the batch that ends with it."""

    __slots__ = ("base_offset",)

    def __init__(self, files: Files, path: str, base_offset: int, stored_bytes: int = 0) -> None:
        super().__init__(files, path, _OFFSET_ENTRY, stored_bytes)
        self.base_offset = base_offset

    def append(
        self,
        last_offset: int,
        position: int,
        pack: Callable[[int, int], bytes] = _OFFSET_ENTRY.pack,
    ) -> None:
        self.add(pack(last_offset - self.base_offset, position))

    def look_up(self, offset: int) -> int:
        """A position at or before the batch that holds `offset`."""
        slot = self.floor(offset - self.base_offset)
        return int(self.at(slot)[1]) if slot >= 0 else 0

    def before_position(self, position: int) -> int:
        """The start of the last indexed batch at or before `position`; 0 when there is none."""
        slot = self.floor(position, 1)
        return int(self.at(slot)[1]) if slot >= 0 else 0

    def truncate_to(self, offset: int) -> None:
        """Drop the entries of batches that end at `offset` or later."""
        self.truncate(self.floor(offset - self.base_offset - 1) + 1)

    def check(self, log_bytes: int) -> None:
        """Raise `CorruptIndex` unless the last entry fits the segment."""
        entry = self.last()
        # An empty entry is what Kafka's preallocation leaves after a crash.
        if entry and (entry[0] < 0 or not 0 < entry[1] < log_bytes):
            raise CorruptIndex(f"{self.path}: last entry {entry} for a log of {log_bytes} bytes")


class TimeIndex(IndexFile):
    """Timestamp → last offset of the first batch that reaches it."""

    __slots__ = ("_last_timestamp", "base_offset")

    def __init__(self, files: Files, path: str, base_offset: int, stored_bytes: int = 0) -> None:
        super().__init__(files, path, _TIME_ENTRY, stored_bytes)
        self.base_offset = base_offset
        self._last_timestamp: int | None = None

    def append(self, timestamp: int, last_offset: int) -> None:
        """Add an entry unless the index has reached that timestamp already."""
        if self._last_timestamp is None:
            entry = self.last()
            self._last_timestamp = entry[0] if entry else -1
        if timestamp > self._last_timestamp:
            self.add(_TIME_ENTRY.pack(timestamp, last_offset - self.base_offset))
            self._last_timestamp = timestamp

    def maximum(self) -> tuple[int, int]:
        """The largest timestamp and its offset; (-1, base offset) when empty."""
        entry = self.last()
        return (entry[0], self.base_offset + entry[1]) if entry else (-1, self.base_offset)

    def look_up(self, timestamp: int) -> int:
        """An offset at or before the first record with at least this timestamp."""
        slot = self.floor(max(timestamp - 1, -1))  # a client may ask for any time
        return self.base_offset + int(self.at(slot)[1]) if slot >= 0 else self.base_offset

    def truncate_to(self, offset: int) -> None:
        """Drop the entries that name `offset` or later."""
        self.truncate(self.floor(offset - self.base_offset - 1, 1) + 1)
        self._last_timestamp = None

    def reset(self) -> None:
        super().reset()
        self._last_timestamp = None

    def check(self, last_offset: int) -> None:
        """Raise `CorruptIndex` unless the last entry fits the segment."""
        entry = self.last()
        if entry and (entry[0] < 0 or not 0 <= entry[1] <= last_offset - self.base_offset):
            raise CorruptIndex(f"{self.path}: last entry {entry}")
