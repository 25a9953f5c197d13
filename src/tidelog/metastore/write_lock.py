"""Who holds the write lock of a SQLite database in WAL mode, by the kernel's own list.

The lock is not asked about with F_GETLK: the file would have to be opened for that, and to close any descriptor of a file drops all
POSIX locks that the process has on it, SQLite's own among them.
"""

import os
from pathlib import Path

_LOCKS = Path("/proc/locks")
_WRITE_LOCK_BYTE = "120"
"""Of the `-shm` file; a part of SQLite's file format (walformat.html, WAL_WRITE_LOCK)."""


def holder(database: Path) -> int | None:
    """The process that holds the lock; None if nobody does, or the system does not tell."""
    try:
        found = os.stat(f"{database}-shm")
        lines = _LOCKS.read_text().splitlines()
    except OSError:
        return None
    file = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    for line in lines:
        # 3: POSIX  ADVISORY  WRITE 14211 fe:00:10011603 120 120
        words = line.split()
        if words[1:4] == ["POSIX", "ADVISORY", "WRITE"] and words[5:7] == [file, _WRITE_LOCK_BYTE]:
            return int(words[4])
    return None
