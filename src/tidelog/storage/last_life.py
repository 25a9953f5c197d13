"""What a log directory tells of the broker's last life on it: under which broker epoch it was, and whether all that was written is there.

    .kafka_cleanshutdown    there only between a clean stop and the next start, with the broker epoch (KIP-966)
    .tidelog_boot           broker epoch and boot id of the machine, from the start on

A process that is killed loses nothing that it has written, for the kernel has it; a machine that loses its power
forgets what was not synced.  The two are told apart by the kernel's boot id.  So a broker that was killed keeps its place
among the in-sync replicas, and one that may have lost records does not lead with what is left.  A directory that was put back
from a backup, or that was away, tells an older epoch.  Once a disk has failed no boot id is noted: what the kernel could not
write, it forgets.
"""

import contextlib
import json
import os

from tidelog.kernel import crc32c
from tidelog.storage.checkpoints import RECOVERY_POINTS
from tidelog.storage.files import Files

CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
BOOT_NOTE = ".tidelog_boot"
NO_EPOCH = -1

_CHECKSUM = "recoveryPointsCrc32c"
_IN_DOUBT = "diskFailed"


class LastLife:
    """The two notes of one log directory."""

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory
        self.epoch = NO_EPOCH
        """Of the broker when it last ran here; -1 if that is not known."""
        self._boot_id: str | None = ""
        """Of the machine when the broker last began to run here; None if it stopped cleanly."""
        self._present_epoch = NO_EPOCH
        self._in_doubt = False

    def read(self) -> bool | None:
        """Take in the notes; None without a mark of a clean stop, else whether the checkpoint is still the one it was made with.

        The mark is removed: from now on a crash is a crash.
        """
        self._read_note()
        path = self._in(CLEAN_SHUTDOWN)
        if not self._files.exists(path):
            return None
        fits = self._read_mark(path)
        self._files.remove(path)
        self._files.sync_directory(self._directory)
        return fits

    def epoch_with_everything(self, boot_id: str) -> int:
        """The epoch under which the broker last ran here, if all that it wrote is still there; else -1."""
        if self._boot_id is None or (boot_id and self._boot_id == boot_id):
            return self.epoch
        return NO_EPOCH

    def distrust(self) -> None:
        """Something is missing, whatever the notes say."""
        self._boot_id = ""

    def begin(self, boot_id: str, epoch: int) -> None:
        """From now on the cluster knows of what an earlier crash may have taken."""
        self._present_epoch = epoch
        self._write_note("" if self._in_doubt else boot_id, sync=True)

    def cast_doubt(self) -> None:
        """A disk has failed: whatever comes, this life has not kept everything that was written."""
        if self._in_doubt:
            return
        self._in_doubt = True
        if self._present_epoch != NO_EPOCH:
            with contextlib.suppress(OSError):  # it may be this one
                self._write_note("", sync=False)

    def end(self) -> None:
        """Write the mark of a clean stop."""
        mark = {"version": 0, "brokerEpoch": self._present_epoch, _CHECKSUM: self._checksum()}
        if self._in_doubt:
            mark[_IN_DOUBT] = True
        self._files.replace(self._in(CLEAN_SHUTDOWN), json.dumps(mark).encode())

    def _write_note(self, boot_id: str, *, sync: bool) -> None:
        note = f"{self._present_epoch} {boot_id}"
        self._files.replace(self._in(BOOT_NOTE), note.encode(), sync=sync)

    def _read_note(self) -> None:
        self.epoch, self._boot_id = NO_EPOCH, ""
        with contextlib.suppress(FileNotFoundError):
            epoch, _, boot_id = (
                self._files.read(self._in(BOOT_NOTE)).decode(errors="replace").partition(" ")
            )
            if epoch.isdigit():
                self.epoch, self._boot_id = int(epoch), boot_id

    def _read_mark(self, path: str) -> bool:
        """Kafka's own mark does not tell of the checkpoint; before 3.7 it is an empty file."""
        self.epoch, self._boot_id = NO_EPOCH, ""
        try:
            mark = json.loads(self._files.read(path))
        except ValueError:
            return True
        if not isinstance(mark, dict):
            return True
        epoch = mark.get("brokerEpoch")
        fits = mark.get(_CHECKSUM) in (None, self._checksum())
        if isinstance(epoch, int):
            self.epoch = epoch
            if fits and not mark.get(_IN_DOUBT):
                self._boot_id = None
        return fits

    def _checksum(self) -> int:
        # After a clean stop a recovery point is taken for a log's end, and the file has no check of its own.
        try:
            return crc32c(self._files.read(self._in(RECOVERY_POINTS)))
        except FileNotFoundError:
            return 0

    def _in(self, name: str) -> str:
        return os.path.join(self._directory, name)
