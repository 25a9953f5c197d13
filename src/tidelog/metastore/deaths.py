"""Hear of the death of other processes of this machine from the kernel, at once and without looking.

    deaths = Deaths(on_death)
    deaths.watch({123, 456})        # on the event loop; replaces those watched before
    deaths.watch(set())

Where the kernel cannot tell (pidfd needs Linux 5.3), `watch` returns False, and one has to look.  A death is a hint: who
hears it looks for himself.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable

_CAN = hasattr(os, "pidfd_open")


class Deaths:
    """The processes that are watched; belongs to one event loop."""

    def __init__(self, on_death: Callable[[], None]) -> None:
        self._on_death = on_death
        self._watched: dict[int, int] = {}
        """By process: a descriptor that becomes readable when it dies."""
        self._dead: set[int] = set()
        """Told of once: a child may keep the lease of a dead process for a while."""

    def watch(self, processes: set[int]) -> bool:
        """Watch these and no others; False when some of them cannot be."""
        self._dead &= processes
        for process in self._watched.keys() - processes:
            self._forget(process)
        for process in processes - self._watched.keys() - self._dead:
            self._watch(process)
        return self._watched.keys() == processes

    def _watch(self, process: int) -> None:
        # It may be dead by now, or belong to another container.
        with contextlib.suppress(OSError):
            if _CAN:
                self._watched[process] = os.pidfd_open(process)
                asyncio.get_running_loop().add_reader(self._watched[process], self._died, process)

    def _died(self, process: int) -> None:
        self._forget(process)
        self._dead.add(process)
        self._on_death()

    def _forget(self, process: int) -> None:
        file = self._watched.pop(process)
        asyncio.get_running_loop().remove_reader(file)
        os.close(file)
