"""A metastore in one SQLite file: the default, for one machine and any number of its processes.

The database is in WAL mode with synchronous=FULL, so an entry that was appended survives a power cut.  Sessions are
files beside the database (leases.py), so that heartbeats cost no commit and do not queue behind one.  All blocking
work runs in two threads of the handle's own: one for the database, one for heartbeats.

What a process changes wakes its own waiters at once and those of other processes through a pipe (bells.py); the
kernel tells of a process that died (deaths.py).  One that hangs is found by polling, and so is whatever was not
heard.  A poll is `PRAGMA data_version`, which reads no page when nothing happened, and a look at each lease.

A process that is stopped in the middle of a commit holds the database's write lock.  Others then read, wait and keep their
leases, but cannot write: they get a `MetastoreError` after `_BUSY_SECONDS`.  Once its session is over it counts as dead, and
whoever waits for the lock ends it (write_lock.py): nothing else would free the others.
"""

import asyncio
import contextlib
import logging
import os
import secrets
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from tidelog.clock import Clock
from tidelog.metastore import write_lock
from tidelog.metastore.bells import Bells
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
from tidelog.metastore.deaths import Deaths
from tidelog.metastore.leases import Leases

_log = logging.getLogger(__name__)

T = TypeVar("T")

_BUSY_SECONDS = 10.0
"""How long to wait for a process that is writing; longer than any commit, even on a slow disk."""
_SLOWER_TOLD = 5
"""How much longer to wait before looking for deaths when the kernel tells of them."""
_SLOWEST_SECONDS = 1.0
_DELETES = 10_000
"""How many entries are cut in one transaction: others want to write too."""
_WAL_BYTES = 16 * 1024 * 1024
"""What a large transaction leaves of the write-ahead log's file."""

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

    ends_with_process = True
    poll_seconds = 0.1
    """While deaths are not told; otherwise `_SLOWER_TOLD` times as long."""

    def __init__(self, path: Path, clock: Clock) -> None:
        super().__init__()
        directory = path.with_name(path.name + ".sessions")
        self._wakeups = Wakeups()
        self._leases = Leases(directory, clock)
        self._database = _Database(path, self._leases)
        self._bells = Bells(directory, self._wakeups.ring)
        self._deaths = Deaths(self._wakeups.ring)
        self._deaths_are_told = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="metastore")
        self._heart = ThreadPoolExecutor(1, thread_name_prefix="metastore-heart")
        self._closed = False

    async def open(self) -> None:
        await self._run(self._database.open)
        await self._run(self._bells.hang)
        self._bells.listen()

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._bells.take_down()
            self._deaths.watch(set())
            await self._run(self._database.close)
            await self._run(self._bells.ring_others)
            self._thread.shutdown()
            self._heart.shutdown()

    async def cluster_id(self, proposal: str) -> str:
        return await self._run(lambda: self._database.cluster_id(proposal))

    async def open_session(self, member: int, timeout_ms: int) -> Session:
        session, deadline = await self._change(
            lambda: self._database.open_session(member, timeout_ms)
        )
        self._set_deadline(session, deadline)
        return session

    async def heartbeat(self, session: Session) -> None:
        try:
            deadline = await self._run(lambda: self._leases.renew(session), self._heart)
        except SessionLost:
            self._forget_deadline(session)
            self._wakeups.ring()
            raise
        self._set_deadline(session, deadline)

    async def close_session(self, session: Session) -> None:
        self._forget_deadline(session)
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
        while await self._run(lambda: self._database.cut(epoch)):
            pass

    async def tick(self) -> Tick:
        tick, others = await self._run(self._database.tick)
        if not self._closed:
            self._deaths_are_told = self._deaths.watch(others)
        return tick

    def wakeups(self) -> Wakeups:
        return self._wakeups

    def _poll_after(self, tick: Tick) -> float | None:
        seconds = super()._poll_after(tick)
        if seconds is None or not self._deaths_are_told:
            return seconds
        return min(seconds * _SLOWER_TOLD, _SLOWEST_SECONDS)

    async def _run(self, work: Callable[[], T], thread: ThreadPoolExecutor | None = None) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(thread or self._thread, work)
        except (sqlite3.Error, OSError) as error:
            # SQLite's own word for a file that it cannot read is the bare class; the others have one of their own.
            kind = MetastoreDamaged if type(error) is sqlite3.DatabaseError else MetastoreError
            raise kind(f"the metastore {self._database.path}: {error}") from error

    async def _change(self, work: Callable[[], T]) -> T:
        def work_and_tell() -> T:
            result = work()
            self._bells.ring_others()
            return result

        result = await self._run(work_and_tell)
        self._wakeups.ring()
        return result


class _Database:
    """The blocking side; every method runs in the handle's thread, one at a time."""

    def __init__(self, path: Path, leases: Leases) -> None:
        self.path = path
        self._leases = leases
        self._connection: sqlite3.Connection | None = None
        self._seen_version = -1
        self._seen: tuple[int, int, list[tuple[int, str, int]]] = (0, 0, [])

    def open(self) -> None:
        self.path.parent.mkdir(0o700, parents=True, exist_ok=True)
        # There are credentials in it.  SQLite gives the files beside it the same mode; one that was there keeps its own.
        with contextlib.suppress(FileExistsError):
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
        # The connection is made and used in the handle's one thread, except that the interpreter may close it.
        connection = sqlite3.connect(
            self.path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            _switch_to_wal(connection)
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute(f"PRAGMA journal_size_limit={_WAL_BYTES}")
            connection.executescript(_SCHEMA)
            rows = connection.execute("SELECT token FROM session").fetchall()
        except BaseException:
            connection.close()
            raise
        self._leases.sweep({token for (token,) in rows})
        self._connection = connection

    def close(self) -> None:
        if self._connection is None:
            return
        for session in self._leases.held():
            with contextlib.suppress(sqlite3.OperationalError):
                self.close_session(session)
        self._connection.close()
        self._connection = None

    def cluster_id(self, proposal: str) -> str:
        with self._transaction() as db:
            db.execute("INSERT OR IGNORE INTO cluster VALUES (1, ?)", (proposal,))
            return str(db.execute("SELECT id FROM cluster").fetchone()[0])

    def open_session(self, member: int, timeout_ms: int) -> tuple[Session, float]:
        """The session and until when it lives."""
        session = Session(member, secrets.token_hex(8), timeout_ms)
        with self._transaction() as db:
            old = db.execute("SELECT * FROM session WHERE member = ?", (member,)).fetchone()
            if old is not None and self._leases.is_live(Session(*old)):
                raise MemberTaken(f"broker id {member} is in use by another live broker")
            if old is not None:
                self._leases.forget(Session(*old))
            db.execute(
                "INSERT OR REPLACE INTO session VALUES (?, ?, ?)",
                (member, session.token, timeout_ms),
            )
            deadline = self._leases.take(session)
        return session, deadline

    def close_session(self, session: Session) -> None:
        # The lease ends here, even when the database cannot be written at the moment.
        self._leases.forget(session)
        with self._transaction() as db:
            db.execute("DELETE FROM session WHERE token = ?", (session.token,))

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

    def cut(self, epoch: int) -> bool:
        """Delete some of the entries that the snapshot stands for, from the oldest on; False when none is left."""
        with self._transaction() as db:
            self._fence(epoch)
            deleted = db.execute(
                "DELETE FROM entry WHERE idx IN (SELECT idx FROM entry"
                " WHERE idx <= (SELECT idx FROM snapshot) ORDER BY idx LIMIT ?)",
                (_DELETES,),
            )
            return deleted.rowcount == _DELETES

    def tick(self) -> tuple[Tick, set[int]]:
        """The tick, and the processes that hold the live sessions, without this one."""
        version = self._db.execute("PRAGMA data_version").fetchone()[0]
        if version != self._seen_version:
            self._look()
            # Written by others between the two reads: the next tick will differ again.
            self._seen_version = version
        log_end, epoch, sessions = self._seen
        holders = {
            (member, token): process
            for member, token, timeout_ms in sessions
            if (process := self._leases.holder(Session(member, token, timeout_ms))) is not None
        }
        others = set(holders.values()) - {os.getpid()}
        return Tick(log_end, epoch, frozenset(holders)), others

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
        try:
            db.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            if not self._end_who_holds_the_lock():
                raise
            db.execute("BEGIN IMMEDIATE")
        try:
            yield db
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:  # where the disk is full SQLite may have ended it by itself
                db.execute("ROLLBACK")
            raise
        # data_version does not tell of this connection's own commits.
        self._seen_version = -1

    def _end_who_holds_the_lock(self) -> bool:
        """Kill the process that keeps everybody from writing, if its session is over; whether it was."""
        process = write_lock.holder(self.path)
        rows = self._db.execute("SELECT member, token, timeout_ms FROM session").fetchall()
        for session in (Session(*row) for row in rows):
            if process is not None and self._leases.late_holder(session) == process:
                _log.warning(
                    "broker %d (process %d) hangs while it writes metadata, and its session is over: it is killed",
                    session.member,
                    process,
                )
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
                return True
        return False

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


def _switch_to_wal(connection: sqlite3.Connection) -> None:
    """Several processes may do so at once on a new file, and SQLite does not wait for this lock by itself."""
    give_up = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > give_up:
                raise
            time.sleep(0.01)
