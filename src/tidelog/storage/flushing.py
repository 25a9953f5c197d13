"""One flush of a log: what has to be synced, the syncing, and what is known afterwards."""

import contextlib
import os
from typing import TYPE_CHECKING

from tidelog.storage.producer_log import ProducerLog

if TYPE_CHECKING:
    from tidelog.storage.log import Log


class Flush:
    """Everything that a log had written when the flush was prepared.

    `run` blocks and belongs in a thread; it touches nothing that the loop changes.  `done` belongs on the loop.  If `run`
    raises, the log must be failed: after a failed fsync nobody knows what is on the disk.
    """

    __slots__ = (
        "_closed",
        "_directory",
        "_file",
        "_log",
        "_producers",
        "_snapshots",
        "_truncations",
        "up_to",
    )

    def __init__(self, log: "Log", producers: ProducerLog) -> None:
        self.up_to = log.log_end_offset
        self._log = log
        self._producers = producers
        self._file = log.segments[-1].file()
        self._closed = [each for each in log.segments[:-1] if not each.synced]
        self._snapshots, producers.unsynced = producers.unsynced, []
        if log.epochs.unsynced:
            self._snapshots.append(log.epochs.path)
            log.epochs.unsynced, log.directory_changed = False, True
        self._directory = log.directory if log.directory_changed else None
        log.directory_changed = False
        self._truncations = log.truncations

    def run(self) -> None:
        """Sync it all; `OSError` if the disk failed."""
        for segment in self._closed:
            # Retention or compaction may have taken the segment away meanwhile.
            with contextlib.suppress(FileNotFoundError):
                segment.sync()
        for path in self._snapshots:
            with contextlib.suppress(FileNotFoundError):
                self._sync_file(path)
        self._file.datasync()
        if self._directory is not None:
            with contextlib.suppress(FileNotFoundError):
                self._log.files.sync_directory(self._directory)

    def undo(self) -> None:
        """The flush could not begin: what it was to sync is left to the next."""
        self._producers.unsynced += self._snapshots
        if self._directory is not None:
            self._log.directory_changed = True

    def done(self) -> None:
        """The flush succeeded: move the recovery point."""
        log = self._log
        log.last_flush_ms = log.clock.now_ms()
        if self._truncations != log.truncations:
            return  # a segment that was closed may be written to again: the next flush syncs it all
        for segment in self._closed:
            segment.synced = True
        up_to = min(self.up_to, log.recovery_limit)
        if up_to > log.recovery_point:
            # Invariant: recovery_point <= log_end
            assert up_to <= log.log_end_offset
            log.recovery_point = up_to

    def _sync_file(self, path: str) -> None:
        file = self._log.files.open(os.fspath(path))
        try:
            file.datasync()
        finally:
            file.close()
