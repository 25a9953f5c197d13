"""The aborted transactions of a segment, so that a read-committed consumer can skip their records.

Kafka's file, one entry for each abort marker in the segment, in the order of the markers:

    | version int16 = 0 | producer id int64 | first offset int64 | last offset int64 | last stable offset int64 |

Most segments have none, and then there is no file.  An entry for which there is no room stays in memory until there is, at the latest
until the segment is closed: a crash loses nothing, because the index of the segment that is written to is rebuilt.
"""

import struct
from typing import NamedTuple

from tidelog.storage.files import Files, will_pass

_ENTRY = struct.Struct(">hqqqq")
_VERSION = 0


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    """Offset of the abort marker."""
    last_stable_offset: int
    """Last stable offset right after this transaction ended."""


class TransactionIndex:
    """Aborted transactions, read from the file when first asked for."""

    __slots__ = ("_entries", "_files", "_saved", "path")

    def __init__(self, files: Files, path: str, *, exists: bool) -> None:
        self.path = path
        self._files = files
        self._entries: list[AbortedTransaction] | None = None if exists else []
        self._saved = 0
        """How many of the entries are in the file."""

    def append(self, aborted: AbortedTransaction) -> None:
        self.entries().append(aborted)
        try:
            self.save()
        except OSError as error:
            if not will_pass(error):
                raise

    def save(self) -> None:
        """Write what is only in memory."""
        if self._entries is None or self._saved == len(self._entries):
            return
        data = b"".join(_ENTRY.pack(_VERSION, *each) for each in self._entries[self._saved :])
        file = self._files.open(self.path, create=True)
        try:
            file.pwrite(data, self._saved * _ENTRY.size)
        finally:
            file.close()
        self._saved = len(self._entries)

    def entries(self) -> list[AbortedTransaction]:
        if self._entries is None:
            data = self._files.read(self.path)
            whole = len(data) - len(data) % _ENTRY.size
            self._entries = [
                AbortedTransaction(*fields[1:]) for fields in _ENTRY.iter_unpack(data[:whole])
            ]
            self._saved = len(self._entries)
        return self._entries

    def overlapping(self, first: int, up_to: int) -> tuple[list[AbortedTransaction], bool]:
        """Those that touch [first, up_to), and whether later segments can hold no more of them."""
        found = []
        for each in self.entries():
            if each.last_offset >= first and each.first_offset < up_to:
                found.append(each)
            if each.last_stable_offset >= up_to:
                return found, True
        return found, False

    def truncate_to(self, offset: int) -> None:
        """Drop the transactions whose marker is at `offset` or later."""
        entries = self.entries()
        kept = [each for each in entries if each.last_offset < offset]
        if len(kept) < len(entries):
            self._rewrite(kept)

    def reset(self) -> None:
        if self._entries is None or self._entries:
            self._rewrite([])

    def sync(self) -> None:
        """Write and sync; blocking."""
        self.save()
        if self._entries is None or self._entries:
            file = self._files.open(self.path)
            try:
                file.datasync()
            finally:
                file.close()

    def _rewrite(self, kept: list[AbortedTransaction]) -> None:
        saved = min(self._saved, len(kept))
        file = self._files.open(self.path, create=True)
        try:
            file.truncate(saved * _ENTRY.size)
        finally:
            file.close()
        self._entries, self._saved = kept, saved
