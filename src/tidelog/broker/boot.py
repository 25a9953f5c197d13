"""Whether what was written before a crash is still there: it is, as long as the machine has not been started anew.

A process that is killed loses nothing that it has written, for the kernel has it; a machine that loses its power
forgets what was not synced.  The two are told apart by the kernel's boot id, which is noted beside the data.  So a
broker that was killed keeps its place among the in-sync replicas, and one that lost records never leads with what is left.
"""

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from tidelog.storage.files import Files

_NOTE = ".tidelog_boot"
_KERNELS = "/proc/sys/kernel/random/boot_id"


def this_boot() -> str:
    """Of this machine, since it was started; empty where the system has none."""
    with contextlib.suppress(OSError):
        return Path(_KERNELS).read_text().strip()
    return ""


class Boot:
    """The note of a broker's data directories."""

    def __init__(self, files: Files, directories: Iterable[str], boot_id: str) -> None:
        self._files = files
        self._paths = [os.path.join(each, _NOTE) for each in directories]
        self._boot_id = boot_id

    def is_the_same(self) -> bool:
        """Whether the machine runs since before the broker's last life began."""
        return bool(self._boot_id) and all(self._noted(path) for path in self._paths)

    def note(self) -> None:
        """From now on the cluster knows of what an earlier crash may have taken."""
        for path in self._paths:
            with contextlib.suppress(OSError):  # a directory that failed; it counts as changed
                if not self._noted(path):
                    self._files.replace(path, self._boot_id.encode())

    def _noted(self, path: str) -> bool:
        try:
            return self._files.read(path).decode(errors="replace") == self._boot_id
        except OSError:
            return False
