"""The machine's boot id: what was written before a crash is still there as long as it is the same (`storage/last_life.py`)."""

import contextlib
from pathlib import Path

_KERNELS = "/proc/sys/kernel/random/boot_id"


def this_boot() -> str:
    """Of this machine, since it was started; empty where the system has none."""
    with contextlib.suppress(OSError):
        return Path(_KERNELS).read_text().strip()
    return ""
