"""The producers of a log together with their snapshots on disk, and their rebuilding from the log.

A snapshot is written for the start of every segment and at a clean stop, so a restart reads one small file and scans
only what came after it.
"""

import logging
import os
from collections.abc import Sequence
from typing import Protocol

from tidelog.clock import Clock
from tidelog.errors import CorruptMessage
from tidelog.records.batch import BatchHeader
from tidelog.records.control import EndTransactionMarker, read_marker
from tidelog.storage.files import Buffer, Files
from tidelog.storage.producers import Producers
from tidelog.storage.scanning import Scanned, producer_batches
from tidelog.storage.segment import Segment, file_name
from tidelog.storage.snapshots import CorruptSnapshot, decode_snapshot, encode_snapshot
from tidelog.storage.txnindex import AbortedTransaction

SNAPSHOT = ".snapshot"

_logger = logging.getLogger(__name__)


class Place(Protocol):
    """Where the log lives."""

    @property
    def files(self) -> Files: ...
    @property
    def directory(self) -> str: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def producer_expiration_ms(self) -> int: ...


class ProducerLog:
    """Producer state that can be saved and restored."""

    __slots__ = (
        "_clock",
        "_directory",
        "_expiration_ms",
        "_files",
        "_offsets",
        "state",
        "unsynced",
    )

    def __init__(self, place: Place, sizes: dict[str, int]) -> None:
        self._files = place.files
        self._directory = place.directory
        self._clock = place.clock
        self._expiration_ms = place.producer_expiration_ms
        self.state = Producers()
        names = (name for name in sizes if name.endswith(SNAPSHOT))
        self._offsets = sorted(int(n[:20]) for n in names if n[:20].isdigit())
        self.unsynced: list[str] = []
        """Snapshots, and other small files of the log, that its next flush has to sync."""

    # ------------------------------------------------------------------ appends

    def written(
        self,
        header: BatchHeader,
        base_offset: int,
        last_offset: int,
        batch: Buffer,
        segment: Segment,
    ) -> None:
        """A batch with a producer id was written."""
        if not header.is_control:
            self.state.update(header, base_offset, last_offset)
            return
        marker = maybe_marker(batch, header)
        if marker is None:
            return
        completed = self.state.end_transaction(
            header,
            base_offset,
            coordinator_epoch=marker.coordinator_epoch,
            aborted=not marker.commit,
        )
        if completed is not None and completed.aborted:
            segment.txn_index.append(
                AbortedTransaction(
                    completed.producer_id,
                    completed.first_offset,
                    completed.last_offset,
                    completed.last_stable_offset,
                )
            )

    def replay(self, batch: Scanned, segment: Segment) -> None:
        """The same, for a batch found in the log."""
        if batch.header is not None:
            self.written(batch.header, batch.base_offset, batch.last_offset, batch.data, segment)

    # ------------------------------------------------------------------ snapshots

    def snapshot(self, offset: int, *, sync: bool) -> None:
        """Save the state as that of the log below `offset`, unless there is such a snapshot."""
        if offset in self._offsets or offset == 0:
            return
        path = self._path(offset)
        self._files.replace(path, encode_snapshot(self.state.to_snapshot()), sync=sync)
        self._offsets = sorted([*self._offsets, offset])
        if not sync:
            self.unsynced.append(path)

    def restoring(self, segments: Sequence[Segment], log_start: int, end: int) -> "Restoring":
        """What `restore` does, in a form that a thread may run while the log goes on."""
        return Restoring(
            self._files,
            [(each, self._path(each)) for each in reversed(self._offsets) if each <= end],
            [(each.path, each.size, each.base_offset) for each in segments],
            (log_start, end),
            (self._clock.now_ms(), self._expiration_ms),
        )

    def restore(
        self, segments: Sequence[Segment], log_start: int, end: int, *, trust_missing: bool
    ) -> None:
        """Set the state to that of the log below `end`: the newest usable snapshot, and the log behind it.

        With `trust_missing`, no snapshot at all means that there are no producers, as after a clean stop; a damaged one
        means nothing, so the log is read.
        """
        if trust_missing and (not self._offsets or self._offsets[0] > end):
            self.state = Producers(end)
            return
        restoring = self.restoring(segments, log_start, end)
        self.state = restoring.run()
        for offset in restoring.damaged:
            self._remove(offset)

    def drop_strays(self, bases: Sequence[int], end: int) -> None:
        """Remove the snapshots that no segment begins with, except one at the log's end."""
        for offset in [each for each in self._offsets if each != end and each not in bases]:
            self._remove(offset)

    def drop_from(self, offset: int) -> None:
        """The log was truncated: remove the snapshots above `offset`."""
        for each in [each for each in self._offsets if each > offset]:
            self._remove(each)

    def drop_before(self, offset: int) -> None:
        """The log begins at `offset` now: older snapshots are of no use."""
        for each in [each for each in self._offsets if each < offset]:
            self._remove(each)

    def expire(self, now_ms: int) -> list[int]:
        return self.state.expire(now_ms, self._expiration_ms)

    def clear(self, offset: int) -> None:
        self.drop_from(-1)
        self.state.clear(offset)

    def moved_to(self, directory: str) -> None:
        self._directory = directory

    def _remove(self, offset: int) -> None:
        self._files.remove(self._path(offset))
        self._offsets.remove(offset)

    def _path(self, offset: int) -> str:
        return os.path.join(self._directory, file_name(offset, SNAPSHOT))


class Restoring:
    """Finds out the producers of a log below an offset.  It only reads, so `run` may belong to a thread."""

    def __init__(
        self,
        files: Files,
        snapshots: list[tuple[int, str]],
        segments: list[tuple[str, int, int]],
        offsets: tuple[int, int],
        expiry: tuple[int, int],
    ) -> None:
        """Snapshots by offset, newest first; segments by path, size and base offset; the log's start and the end that is wanted."""
        self._files = files
        self._snapshots = snapshots
        self._segments = segments
        self._log_start, self._end = offsets
        self._now_ms, self._expiration_ms = expiry
        self.damaged: list[int] = []
        """Offsets of the snapshots that cannot be read."""

    def run(self) -> Producers:
        """The producers; `OSError` if the disk refuses."""
        state = Producers()
        start = self._load_newest(state)
        for number, (path, size, base_offset) in enumerate(self._segments):
            rest = self._segments[number + 1 : number + 2]
            behind = rest[0][2] if rest else self._end
            if not size or behind <= start or base_offset >= self._end:
                continue
            file = self._files.open(path)
            try:
                for header, data in producer_batches(file, size, start, self._end):
                    _learn(state, header, data)
            except CorruptMessage as error:
                _logger.warning("producers that wrote behind this are not known: %s", error)
            finally:
                file.close()
        state.end_offset = self._end
        return state

    def _load_newest(self, state: Producers) -> int:
        """Take over the newest snapshot that is sound; returns up to where the log need not be read."""
        for offset, path in self._snapshots:
            try:
                entries = decode_snapshot(self._files.read(path))
            except (CorruptSnapshot, FileNotFoundError) as error:
                _logger.warning("%s is not usable and dropped: %s", path, error)
                self.damaged.append(offset)
                continue
            state.load(entries, offset, now_ms=self._now_ms, expiration_ms=self._expiration_ms)
            return offset
        return self._log_start


def _learn(state: Producers, header: BatchHeader, batch: Buffer) -> None:
    """Like `ProducerLog.written`, where the transaction index is known to be right already."""
    if not header.is_control:
        state.update(header, header.base_offset, header.last_offset)
    elif (marker := maybe_marker(batch, header)) is not None:
        state.end_transaction(
            header,
            header.base_offset,
            coordinator_epoch=marker.coordinator_epoch,
            aborted=not marker.commit,
        )


def maybe_marker(batch: Buffer, header: BatchHeader) -> EndTransactionMarker | None:
    """The transaction marker of a control batch; None if compaction has emptied it or it is another control."""
    return read_marker(batch) if header.count else None
