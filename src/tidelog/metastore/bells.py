"""Wake-ups between the processes of one machine: a named pipe for each handle, in a directory that they share.

    bells = Bells(directory, on_ring)
    bells.hang()            # in any thread
    bells.listen()          # on the event loop; `on_ring` is called there when another process rings
    bells.ring_others()     # after a change, from any thread
    bells.take_down()       # on the event loop

A ring is a hint, not a message: it may be lost, and several may come as one.  Whoever waits looks at the store itself,
and now and then without being called, because a process that is killed rings nobody.
"""

import asyncio
import contextlib
import errno
import os
import secrets
from collections.abc import Callable
from pathlib import Path

_SUFFIX = ".bell"


class Bells:
    """This handle's pipe, and the way to those of the others."""

    def __init__(self, directory: Path, on_ring: Callable[[], None]) -> None:
        self._path = directory / f"{secrets.token_hex(8)}{_SUFFIX}"
        self._on_ring = on_ring
        self._pipe = -1

    def hang(self) -> None:
        """Make the pipe, where the file system has pipes; elsewhere changes are found by looking."""
        self._path.parent.mkdir(0o700, parents=True, exist_ok=True)
        unfinished = self._path.with_suffix(".new")
        with contextlib.suppress(OSError):
            os.mkfifo(unfinished, 0o600)
            # Opened for writing too: otherwise it reads as ended whenever no other process has it open.
            self._pipe = os.open(unfinished, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            # Named only now: a bell that nobody listens to is taken for that of a dead process.
            unfinished.rename(self._path)

    def listen(self) -> None:
        if self._pipe >= 0:
            asyncio.get_running_loop().add_reader(self._pipe, self._rung)

    def take_down(self) -> None:
        if self._pipe >= 0:
            asyncio.get_running_loop().remove_reader(self._pipe)
            self._path.unlink(missing_ok=True)
            os.close(self._pipe)
            self._pipe = -1

    def ring_others(self) -> None:
        with contextlib.suppress(OSError), os.scandir(self._path.parent) as files:
            for file in files:
                if file.name.endswith(_SUFFIX) and file.name != self._path.name:
                    _ring(file.path)

    def _rung(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while os.read(self._pipe, 4096):
                pass
        self._on_ring()


def _ring(path: str) -> None:
    try:
        pipe = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ENXIO:
            # Its process is gone.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        return
    try:
        # A full pipe is rung already.
        with contextlib.suppress(OSError):
            os.write(pipe, b"!")
    finally:
        os.close(pipe)
