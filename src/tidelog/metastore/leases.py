"""Leases between the processes of one machine: a locked, time-stamped file for each session.

The kernel frees the lock the moment its process dies, and the stamp grows old while the process hangs.  Renewing a
lease is one small write to the page cache; it waits for nobody, least of all for another process that is stopped.

Time is CLOCK_MONOTONIC, which all processes of a machine share; after a reboot no lock is held any more.

An end that anybody has seen is final for the holder.  An observer reads the clock first and the stamp afterwards;
the holder writes the stamp first and reads the clock afterwards.  So when an observer found the stamp too old, the
holder finds the renewal too late and gives the lease up.
"""

import contextlib
import fcntl
import os
import struct
import threading
from pathlib import Path

from tidelog.clock import Clock
from tidelog.dataclass import dataclass
from tidelog.metastore.contract import Session, SessionLost

_STAMP = struct.Struct("<d")
_LEASE = struct.Struct("<dq")
"""Time of the last renewal, number of the holder's process."""


@dataclass(slots=True)
class _Held:
    session: Session
    file: int
    stamp: float


class Leases:
    """The leases in a directory, and those among them that this handle holds.  May be used from several threads."""

    def __init__(self, directory: Path, clock: Clock) -> None:
        self._directory = directory
        self._clock = clock
        self._held: dict[str, _Held] = {}
        """By token."""
        self._lock = threading.Lock()

    def held(self) -> list[Session]:
        return [each.session for each in self._held.values()]

    def take(self, session: Session) -> float:
        """Begin a lease, and return until when it lives."""
        self._directory.mkdir(0o700, exist_ok=True)
        path = self._path(session)
        unfinished = path.with_suffix(".new")
        file = os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with self._lock:
            held = _Held(session, file, self._clock.monotonic())
            os.pwrite(file, _LEASE.pack(held.stamp, os.getpid()), 0)
            # Named only now: a file without a lock is that of a dead process.
            unfinished.rename(path)
            self._held[session.token] = held
            return _end(held)

    def renew(self, session: Session) -> float:
        """Begin the lease's time again and return until when it lives, or raise `SessionLost`."""
        with self._lock:
            held = self._held.get(session.token)
            if held is None:
                raise SessionLost(f"the session of broker {session.member} is over")
            now = self._clock.monotonic()
            if now <= _end(held) and os.fstat(held.file).st_nlink > 0:
                os.pwrite(held.file, _STAMP.pack(now), 0)
                if self._clock.monotonic() <= _end(held):
                    held.stamp = now
                    return _end(held)
            self._drop(session)
        raise SessionLost(f"the session of broker {session.member} is over")

    def forget(self, session: Session) -> None:
        """End a lease of this handle, or clear away what is left of another's that has ended."""
        with self._lock:
            self._drop(session)

    def _drop(self, session: Session) -> None:
        held = self._held.pop(session.token, None)
        # Unlinked first: nobody takes the file for that of a process that died.
        self._path(session).unlink(missing_ok=True)
        if held is not None:
            os.close(held.file)

    def is_live(self, session: Session) -> bool:
        return self.holder(session) is not None

    def holder(self, session: Session) -> int | None:
        """The process that holds a live lease; None when it has ended."""
        now = self._clock.monotonic()
        stamp, process = self._read(session)
        return process if now <= stamp + session.timeout_ms / 1000 else None

    def late_holder(self, session: Session) -> int | None:
        """The process that is alive and has let its lease run out; None if it has not, or is gone."""
        now = self._clock.monotonic()
        stamp, process = self._read(session)
        return process if now > stamp + session.timeout_ms / 1000 else None

    def _read(self, session: Session) -> tuple[float, int | None]:
        """The last renewal and the process of a lease; (…, None) if it is not held any more."""
        try:
            file = os.open(self._path(session), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return 0.0, None
        try:
            if session.token not in self._held and _is_unlocked(file):
                return 0.0, None
            content = os.pread(file, _LEASE.size, 0)
        finally:
            os.close(file)
        if len(content) < _LEASE.size:
            return 0.0, None
        stamp, process = _LEASE.unpack(content)
        return stamp, int(process)

    def sweep(self, known: set[str]) -> None:
        """Remove the files of sessions that ended without anybody to clear them away; `known` are tokens to keep."""
        for path in self._directory.glob("*.lock"):
            if path.stem.partition("-")[2] in known:
                continue
            with contextlib.suppress(FileNotFoundError):
                file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                try:
                    if _is_unlocked(file):
                        path.unlink()
                finally:
                    os.close(file)

    def _path(self, session: Session) -> Path:
        return self._directory / f"{session.member}-{session.token}.lock"


def _end(held: _Held) -> float:
    return held.stamp + held.session.timeout_ms / 1000


def _is_unlocked(file: int) -> bool:
    # A shared lock: two members that look at once do not take each other for the owner.
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
