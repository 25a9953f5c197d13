"""Which leader epoch wrote which offsets (KIP-101): the memory behind truncation and OffsetForLeaderEpoch.

Kept as (epoch, start offset) pairs, both strictly growing, in `leader-epoch-checkpoint`.
"""

import os
from bisect import bisect_left, bisect_right
from itertools import pairwise

from tidelog.storage.checkpoints import (
    LEADER_EPOCHS,
    MalformedCheckpoint,
    read_epochs,
    write_epochs,
)
from tidelog.storage.files import Files, will_pass

UNDEFINED = -1


class LeaderEpochs:
    """The epochs of one log.  Invariant: epochs and start offsets grow from entry to entry."""

    __slots__ = ("_epochs", "_files", "_starts", "latest", "path", "unsaved", "unsynced")

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self.path = os.path.join(directory, LEADER_EPOCHS)
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self.latest = UNDEFINED
        """The newest epoch that has records, or is about to; -1 when there is none."""
        self.unsaved = False
        """Recovery has found what the file does not hold, or the log was cut and the file could not be written."""
        self.unsynced = False
        """The file was written, and the log's next flush has to sync it: what lies past the recovery point is found again
        in the log, so an append need not wait for the disk."""

    def load(self) -> None:
        """Read the checkpoint; `MalformedCheckpoint` when it cannot be used."""
        entries = read_epochs(self._files, self.path)
        if any(a[0] >= b[0] or a[1] >= b[1] for a, b in pairwise(entries)):
            raise MalformedCheckpoint(f"{self.path}: epochs and offsets do not grow")
        self._set(entries)

    def entries(self) -> list[tuple[int, int]]:
        """(epoch, start offset), oldest first."""
        return list(zip(self._epochs, self._starts, strict=True))

    def assign(self, epoch: int, start_offset: int, *, save: bool = True) -> None:
        """Records from `start_offset` on belong to `epoch`; nothing happens if it is known already."""
        if epoch <= self.latest:
            return
        # An epoch that wrote nothing, or whose records were cut off, leaves no trace.
        kept = [each for each in self.entries() if each[1] < start_offset]
        self._set([*kept, (epoch, start_offset)])
        if save:
            self.save()
        else:
            self.unsaved = True

    def forget(self, epoch: int) -> None:
        """The newest epoch could not be written down, so it has not begun."""
        self._set([each for each in self.entries() if each[0] != epoch])

    def end_offset_for(
        self, epoch: int, log_end_offset: int, led_epoch: int = UNDEFINED
    ) -> tuple[int, int]:
        """The largest epoch at most `epoch`, and where it ended; (-1, -1) when none is that old.

        The answer of OffsetForLeaderEpoch: the end of the latest epoch is the log's end.  `led_epoch` counts as one that
        begins there, if it is newer than all that have records.
        """
        if led_epoch > self.latest and self.latest < epoch <= led_epoch:
            if epoch == led_epoch or self.latest == UNDEFINED:
                return epoch, log_end_offset
            return self.latest, log_end_offset
        if epoch == UNDEFINED or not self._epochs or epoch > self.latest:
            return UNDEFINED, UNDEFINED
        if epoch == self.latest:
            return epoch, log_end_offset
        above = bisect_right(self._epochs, epoch)
        if above == 0:
            # Older than anything known: the records that could tell are gone.
            return epoch, self._starts[0]
        return self._epochs[above - 1], self._starts[above]

    def epoch_for(self, offset: int) -> int:
        """The epoch that wrote `offset`, or -1."""
        above = bisect_right(self._starts, offset)
        return self._epochs[above - 1] if above else UNDEFINED

    def cut_from_end(self, offset: int) -> None:
        """The log now ends at `offset`; the file is to be written."""
        kept = bisect_left(self._starts, offset)
        if kept < len(self._starts):
            self._set(self.entries()[:kept])
            self.unsaved = True

    def truncate_from_end(self, offset: int) -> None:
        """The log now ends at `offset`."""
        self.cut_from_end(offset)
        if self.unsaved:
            self.save()

    def truncate_from_start(self, offset: int) -> None:
        """The log now begins at `offset`; the epoch that holds it is kept, and begins there."""
        above = bisect_right(self._starts, offset)
        if above == 0 or self._starts[0] == offset:
            return
        self._set([(self._epochs[above - 1], offset), *self.entries()[above:]])
        try:
            self.save()
        except OSError as error:
            # Room is made by deleting.  What the file tells of before the start is dropped when it is next read or written.
            if not will_pass(error):
                raise

    def clear(self) -> None:
        if self._epochs:
            self._set([])
            self.save()

    def moved_to(self, directory: str) -> None:
        self.path = os.path.join(directory, LEADER_EPOCHS)

    def save(self) -> None:
        """Write the file; the log's next flush syncs it."""
        write_epochs(self._files, self.path, self.entries(), sync=False)
        self.unsaved, self.unsynced = False, True

    def _set(self, entries: list[tuple[int, int]]) -> None:
        self._epochs = [epoch for epoch, _ in entries]
        self._starts = [start for _, start in entries]
        self.latest = self._epochs[-1] if self._epochs else UNDEFINED
        assert all(a < b for a, b in zip(self._epochs, self._epochs[1:], strict=False))
        assert all(a < b for a, b in zip(self._starts, self._starts[1:], strict=False))
