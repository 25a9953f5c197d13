"""A metastore in one SQLite file: the default, for one machine and any number of its processes.

The database is in WAL mode with synchronous=FULL, so an entry that was appended survives a power cut.  A session is a
file beside the database, held with a kernel lock and stamped with the time of the last heartbeat: the lock is
free the moment its process dies, and the stamp grows old when the process hangs.  Heartbeats therefore cost no
commit.  All blocking work runs in one thread of the handle's own.

What this process changes wakes its own waiters at once; what others change is found by polling
`PRAGMA data_version`, which reads no page when nothing happened.
"""

import asyncio
import contextlib
import fcntl
import os
import secrets
import sqlite3
import struct
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from tidelog.clock import Clock
from tidelog.metastore.contract import (
    Compacted,
    Controller,
    Entry,
    Fenced,
    MemberTaken,
    Metastore,
    MetastoreDamaged,
    MetastoreError,
    Session,
    SessionLost,
    Snapshot,
    Tick,
    Wakeups,
)

T = TypeVar("T")

_STAMP = struct.Struct("<d")

_SCHEMA = """
CREATE TABLE IF NOT EXISTS cluster (one INTEGER PRIMARY KEY CHECK (one = 1), id TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS session (member INTEGER PRIMARY KEY, token TEXT NOT NULL, timeout_ms INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS election (
    one INTEGER PRIMARY KEY CHECK (one = 1), epoch INTEGER NOT NULL, member INTEGER NOT NULL, token TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS entry (idx INTEGER PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS snapshot (one INTEGER PRIMARY KEY CHECK (one = 1), idx INTEGER NOT NULL, data BLOB NOT NULL);
"""


class SqliteMetastore(Metastore):
    """A handle on the database at `path`, which is made when it is not there."""

    poll_seconds = 0.1

    def __init__(self, path: Path, clock: Clock) -> None:
        self._database = _Database(path, clock)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="metastore")
        self._wakeups = Wakeups()
        self._closed = False

    async def open(self) -> None:
        await self._run(self._database.open)

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            await self._run(self._database.close)
            self._thread.shutdown()

    async def cluster_id(self, proposal: str) -> str:
        return await self._run(lambda: self._database.cluster_id(proposal))

    async def open_session(self, member: int, timeout_ms: int) -> Session:
        return await self._change(lambda: self._database.open_session(member, timeout_ms))

    async def heartbeat(self, session: Session) -> None:
        await self._run(lambda: self._database.heartbeat(session))

    async def close_session(self, session: Session) -> None:
        await self._change(lambda: self._database.close_session(session))

    async def lead(self, session: Session) -> int | None:
        return await self._change(lambda: self._database.lead(session))

    async def controller(self) -> Controller | None:
        return await self._run(self._database.controller)

    async def append(self, epoch: int, data: bytes) -> int:
        return await self._change(lambda: self._database.append(epoch, data))

    async def read(self, after: int, limit: int = 1000) -> list[Entry]:
        return await self._run(lambda: self._database.read(after, limit))

    async def snapshot(self) -> Snapshot | None:
        return await self._run(self._database.snapshot)

    async def save_snapshot(self, epoch: int, snapshot: Snapshot) -> None:
        await self._run(lambda: self._database.save_snapshot(epoch, snapshot))

    async def tick(self) -> Tick:
        return await self._run(self._database.tick)

    def wakeups(self) -> Wakeups:
        return self._wakeups

    async def _run(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except (sqlite3.Error, OSError) as error:
            # SQLite's own word for a file that it cannot read is the bare class; the others have one of their own.
            kind = MetastoreDamaged if type(error) is sqlite3.DatabaseError else MetastoreError
            raise kind(f"the metastore {self._database.path}: {error}") from error

    async def _change(self, work: Callable[[], T]) -> T:
        result = await self._run(work)
        self._wakeups.ring()
        return result


class _Database:
    """The blocking side; every method runs in the handle's thread, one at a time."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self.path = path
        self._leases = _Leases(path.with_name(path.name + ".sessions"), clock)
        self._connection: sqlite3.Connection | None = None
        self._seen_version = -1
        self._seen: tuple[int, int, list[tuple[int, str, int]]] = (0, 0, [])

    def open(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # The connection is made and used in the handle's one thread, except that the interpreter may close it.
        connection = sqlite3.connect(
            self.path, timeout=10, isolation_level=None, check_same_thread=False
        )
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.executescript(_SCHEMA)
        self._connection = connection

    def close(self) -> None:
        if self._connection is None:
            return
        for session in self._leases.held():
            self.close_session(session)
        self._connection.close()
        self._connection = None

    def cluster_id(self, proposal: str) -> str:
        with self._transaction() as db:
            db.execute("INSERT OR IGNORE INTO cluster VALUES (1, ?)", (proposal,))
            return str(db.execute("SELECT id FROM cluster").fetchone()[0])

    def open_session(self, member: int, timeout_ms: int) -> Session:
        with self._transaction() as db:
            old = db.execute("SELECT * FROM session WHERE member = ?", (member,)).fetchone()
            if old is not None and self._leases.is_live(Session(*old)):
                raise MemberTaken(f"broker id {member} is in use by another live broker")
            session = Session(member, secrets.token_hex(8), timeout_ms)
            self._leases.take(session)
            if old is not None:
                self._leases.forget(Session(*old))
            db.execute(
                "INSERT OR REPLACE INTO session VALUES (?, ?, ?)",
                (member, session.token, timeout_ms),
            )
        return session

    def heartbeat(self, session: Session) -> None:
        self._check_live(session)
        self._leases.stamp(session)

    def close_session(self, session: Session) -> None:
        with self._transaction() as db:
            db.execute("DELETE FROM session WHERE token = ?", (session.token,))
        self._leases.forget(session)

    def lead(self, session: Session) -> int | None:
        with self._transaction() as db:
            self._check_live(session)
            row = db.execute("SELECT epoch, member, token FROM election").fetchone()
            epoch, member, token = row or (0, -1, "")
            if token == session.token:
                return int(epoch)
            if self._live_token(member) == token != "":
                return None
            db.execute(
                "INSERT OR REPLACE INTO election VALUES (1, ?, ?, ?)",
                (epoch + 1, session.member, session.token),
            )
            return int(epoch) + 1

    def controller(self) -> Controller | None:
        row = self._db.execute("SELECT member, epoch, token FROM election").fetchone()
        if row is None or self._live_token(row[0]) != row[2]:
            return None
        return Controller(row[0], row[1])

    def append(self, epoch: int, data: bytes) -> int:
        with self._transaction() as db:
            self._fence(epoch)
            index = self._log_end() + 1
            db.execute("INSERT INTO entry VALUES (?, ?)", (index, data))
        return index

    def read(self, after: int, limit: int) -> list[Entry]:
        rows = self._db.execute(
            "SELECT idx, data FROM entry WHERE idx > ? ORDER BY idx LIMIT ?", (after, limit)
        ).fetchall()
        # The snapshot is looked at after the rows, so one saved in between is not missed.
        cut = self._db.execute("SELECT max(idx) FROM snapshot").fetchone()[0] or 0
        if rows[0][0] > after + 1 if rows else cut > after:
            raise Compacted(f"the log is cut up to {cut}; {after} was asked for")
        return [Entry(*row) for row in rows]

    def snapshot(self) -> Snapshot | None:
        row = self._db.execute("SELECT idx, data FROM snapshot").fetchone()
        return Snapshot(*row) if row else None

    def save_snapshot(self, epoch: int, snapshot: Snapshot) -> None:
        with self._transaction() as db:
            self._fence(epoch)
            db.execute(
                "INSERT OR REPLACE INTO snapshot VALUES (1, ?, ?)", (snapshot.number, snapshot.data)
            )
            db.execute("DELETE FROM entry WHERE idx <= ?", (snapshot.number,))

    def tick(self) -> Tick:
        version = self._db.execute("PRAGMA data_version").fetchone()[0]
        if version != self._seen_version:
            self._look()
            # Written by others between the two reads: the next tick will differ again.
            self._seen_version = version
        log_end, epoch, sessions = self._seen
        live = (each for each in sessions if self._leases.is_live(Session(*each)))
        return Tick(log_end, epoch, frozenset((member, token) for member, token, _ in live))

    def _look(self) -> None:
        row = self._db.execute("SELECT epoch FROM election").fetchone()
        sessions = self._db.execute("SELECT member, token, timeout_ms FROM session").fetchall()
        self._seen = (self._log_end(), row[0] if row else 0, sessions)

    @property
    def _db(self) -> sqlite3.Connection:
        if self._connection is None:
            raise MetastoreError(f"the metastore {self.path} is closed")
        return self._connection

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        # IMMEDIATE takes the write lock first, so that what is checked still holds when it is written.
        db = self._db
        db.execute("BEGIN IMMEDIATE")
        try:
            yield db
        except BaseException:
            db.execute("ROLLBACK")
            raise
        db.execute("COMMIT")
        # data_version does not tell of this connection's own commits.
        self._seen_version = -1

    def _fence(self, epoch: int) -> None:
        row = self._db.execute("SELECT epoch FROM election").fetchone()
        present = row[0] if row else 0
        if epoch != present:
            raise Fenced(f"controller epoch {epoch} is over; the present one is {present}")

    def _log_end(self) -> int:
        row = self._db.execute(
            "SELECT max(coalesce((SELECT max(idx) FROM entry), 0), coalesce((SELECT idx FROM snapshot), 0))"
        ).fetchone()
        return int(row[0])

    def _live_token(self, member: int) -> str | None:
        row = self._db.execute("SELECT * FROM session WHERE member = ?", (member,)).fetchone()
        return str(row[1]) if row and self._leases.is_live(Session(*row)) else None

    def _check_live(self, session: Session) -> None:
        if self._live_token(session.member) != session.token:
            raise SessionLost(f"the session of broker {session.member} is over")


class _Leases:
    """A locked, time-stamped file for each session.

    Time is CLOCK_MONOTONIC, which all processes of a machine share; after a reboot no lock is held any more.
    """

    def __init__(self, directory: Path, clock: Clock) -> None:
        self._directory = directory
        self._clock = clock
        self._held: dict[str, tuple[Session, int]] = {}
        """By token: sessions of this handle and their open files."""

    def held(self) -> list[Session]:
        return [session for session, _ in self._held.values()]

    def take(self, session: Session) -> None:
        self._directory.mkdir(exist_ok=True)
        file = os.open(self._path(session), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._held[session.token] = (session, file)
        self.stamp(session)

    def stamp(self, session: Session) -> None:
        _, file = self._held[session.token]
        os.pwrite(file, _STAMP.pack(self._clock.monotonic()), 0)

    def forget(self, session: Session) -> None:
        _, file = self._held.pop(session.token, (None, -1))
        if file >= 0:
            os.close(file)
        self._path(session).unlink(missing_ok=True)

    def is_live(self, session: Session) -> bool:
        try:
            file = os.open(self._path(session), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            if session.token not in self._held and self._is_unlocked(file):
                return False
            stamp = os.pread(file, _STAMP.size, 0)
        finally:
            os.close(file)
        if len(stamp) < _STAMP.size:
            return False
        age_ms = (self._clock.monotonic() - _STAMP.unpack(stamp)[0]) * 1000
        return bool(age_ms <= session.timeout_ms)

    def _is_unlocked(self, file: int) -> bool:
        # A shared lock: two members that look at once do not take each other for the owner.
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _path(self, session: Session) -> Path:
        return self._directory / f"{session.member}-{session.token}.lock"
