"""SQLite on one machine: locks, busy writers, bells, and what is left behind."""

import asyncio
import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from rigs import HandClock, gone

from tidelog.clock import SystemClock
from tidelog.metastore import sqlite
from tidelog.metastore.contract import (
    MetastoreDamaged,
    MetastoreError,
    Session,
    SessionLost,
    Snapshot,
)
from tidelog.metastore.deaths import Deaths
from tidelog.metastore.leases import Leases
from tidelog.metastore.sqlite import SqliteMetastore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "metadata.db"


async def test_heartbeats_do_not_wait_for_a_writer(path, monkeypatch):
    monkeypatch.setattr(sqlite, "_BUSY_SECONDS", 0.2)
    async with SqliteMetastore(path, SystemClock()) as store:
        session = await store.open_session(1, 60_000)
        epoch = await store.lead(session)
        with sqlite3.connect(path, isolation_level=None) as stopped:
            stopped.execute("BEGIN IMMEDIATE")
            append = asyncio.create_task(store.append(epoch, b"a"))
            await store.heartbeat(session)
            assert not append.done()
            with pytest.raises(MetastoreError, match="locked"):
                await append
            assert (await store.tick()).log_end == 0
            stopped.execute("ROLLBACK")
        stopped.close()
        assert await store.append(epoch, b"b") == 1


async def test_a_lease_is_given_up_although_the_database_is_busy(path, monkeypatch):
    monkeypatch.setattr(sqlite, "_BUSY_SECONDS", 0.1)
    store = SqliteMetastore(path, SystemClock())
    await store.open()
    session = await store.open_session(1, 60_000)
    stopped = sqlite3.connect(path, isolation_level=None)
    stopped.execute("BEGIN IMMEDIATE")
    await store.close()
    stopped.close()
    async with SqliteMetastore(path, SystemClock()) as other:
        await gone(other, session)
        await other.open_session(1, 60_000)


def test_a_lease_that_somebody_saw_end_is_over_for_its_holder(tmp_path):
    """The holder is stopped between its last look at the clock and its stamp."""

    class Stopping(HandClock):
        steps = 0.0

        def monotonic(self) -> float:
            now, self.seconds = self.seconds, self.seconds + self.steps
            return now

    clock = Stopping()
    mine, theirs = Leases(tmp_path / "s", clock), Leases(tmp_path / "s", clock)
    session = Session(1, "a", 9_000)
    mine.take(session)
    clock.seconds += 5
    assert theirs.is_live(session)
    clock.steps = 8.0
    with pytest.raises(SessionLost):
        mine.renew(session)
    clock.steps = 0.0
    assert not theirs.is_live(session)
    with pytest.raises(SessionLost):
        mine.renew(session)


def test_a_lease_that_was_cleared_away_is_over_for_its_holder(tmp_path):
    clock = HandClock()
    mine, theirs = Leases(tmp_path / "s", clock), Leases(tmp_path / "s", clock)
    session = Session(1, "a", 9_000)
    mine.take(session)
    theirs.forget(session)
    with pytest.raises(SessionLost):
        mine.renew(session)


async def test_what_dead_processes_left_is_cleared_away(path):
    directory = path.with_name(path.name + ".sessions")
    directory.mkdir()
    (directory / "7-dead.lock").write_bytes(bytes(16))
    os.mkfifo(directory / "dead.bell")
    async with (
        SqliteMetastore(path, SystemClock()) as store,
        SqliteMetastore(path, SystemClock()) as other,
    ):
        session = await store.open_session(1, 60_000)
        await other.open_session(2, 60_000)
        names = {each.suffix for each in directory.iterdir()}
        assert names == {".lock", ".bell"}
        assert not (directory / "7-dead.lock").exists()
        assert not (directory / "dead.bell").exists()
        await store.close_session(session)
    assert list(directory.iterdir()) == []


def bells(path: Path) -> list[Path]:
    return list(path.with_name(path.name + ".sessions").glob("*.bell"))


def fill(bell: Path) -> None:
    pipe = os.open(bell, os.O_WRONLY | os.O_NONBLOCK)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(pipe, bytes(4096))
    os.close(pipe)


async def test_a_bell_that_is_rung_very_often_is_heard(path):
    async with (
        SqliteMetastore(path, SystemClock()) as writer,
        SqliteMetastore(path, SystemClock()) as reader,
    ):
        writer.poll_seconds = reader.poll_seconds = None
        [bell] = [each for each in bells(path) if each != writer._bells._path]
        fill(bell)
        tick = await reader.tick()
        waiting = asyncio.create_task(reader.wait(tick))
        await asyncio.sleep(0)
        await writer.open_session(1, 60_000)
        async with asyncio.timeout(30):
            assert len((await waiting).sessions) == 1


def test_many_processes_make_the_database_at_once(path):
    program = (
        "import asyncio, sys, pathlib\n"
        "from tidelog.clock import SystemClock\n"
        "from tidelog.metastore.sqlite import SqliteMetastore\n"
        "async def main():\n"
        "    async with SqliteMetastore(pathlib.Path(sys.argv[1]), SystemClock()) as store:\n"
        "        print(await store.cluster_id(sys.argv[2]))\n"
        "sys.stdin.readline()\n"
        "asyncio.run(main())\n"
    )
    children = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(path), f"id-{number}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(6)
    ]
    for child in children:
        assert child.stdin is not None
        child.stdin.write("\n")
        child.stdin.flush()
    answers = {child.communicate()[0] for child in children}
    assert [child.returncode for child in children] == [0] * 6
    assert len(answers) == 1


async def test_every_commit_is_synced(path):
    async with SqliteMetastore(path, SystemClock()) as store:

        def settings() -> list[object]:
            names = ("journal_mode", "synchronous")
            return [store._database._db.execute(f"PRAGMA {n}").fetchone()[0] for n in names]

        full = 2
        assert await store._run(settings) == ["wal", full]


async def test_the_write_ahead_log_does_not_stay_large(path, monkeypatch):
    monkeypatch.setattr(sqlite, "_WAL_BYTES", 100_000)
    async with SqliteMetastore(path, SystemClock()) as store:
        epoch = await store.lead(await store.open_session(1, 60_000))
        for number in range(1, 6):
            await store.append(epoch, bytes(3_000_000))
            await store.save_snapshot(epoch, Snapshot(number, bytes(2_000_000)))
        await store.append(epoch, b"small")
        await store.append(epoch, b"small")
        wal = path.with_name(path.name + "-wal")
        assert wal.stat().st_size < 12_000_000
        assert path.stat().st_size < 12_000_000


@pytest.fixture
def child() -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        yield child


async def test_a_death_is_told_once(child):
    heard = asyncio.Event()
    deaths = Deaths(heard.set)
    assert deaths.watch({child.pid})
    child.kill()
    async with asyncio.timeout(30):
        await heard.wait()
    # Nobody has buried it yet, so the kernel still knows it.
    assert not deaths.watch({child.pid})
    child.communicate()
    assert not deaths.watch({child.pid})
    assert deaths.watch(set())


async def test_a_file_that_is_no_database(path):
    path.write_bytes(b"something else" * 1000)
    store = SqliteMetastore(path, SystemClock())
    with pytest.raises(MetastoreDamaged, match="not a database"):
        await store.open()
    await store.close()


async def test_a_directory_that_is_not_there_and_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    store = SqliteMetastore(tmp_path / "file" / "metadata.db", SystemClock())
    with pytest.raises(MetastoreError, match=r"metadata\.db"):
        await store.open()
    await store.close()


class FullAtCommit:
    """A connection whose disk is full when a transaction is to be committed."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    @property
    def in_transaction(self) -> bool:
        return self._connection.in_transaction

    def execute(self, statement: str, *values):
        if statement == "COMMIT":
            raise sqlite3.OperationalError("database or disk is full")
        return self._connection.execute(statement, *values)


async def test_a_commit_that_fails_for_a_full_disk_leaves_no_transaction_behind(path):
    """Else this process would hold the write lock for ever, and never write again itself."""
    async with SqliteMetastore(path, SystemClock()) as store:
        epoch = await store.lead(await store.open_session(1, 60_000))
        database = store._database
        whole = database._connection
        database._connection = FullAtCommit(whole)
        with pytest.raises(MetastoreError, match="disk is full"):
            await store.append(epoch, b"a")
        database._connection = whole
        assert await store.append(epoch, b"b") == 1
        assert [each.data for each in await store.read(0)] == [b"b"]


async def test_a_full_disk_is_an_error_of_the_metastore_and_passes(path):
    async with SqliteMetastore(path, SystemClock()) as store:
        epoch = await store.lead(await store.open_session(1, 60_000))
        run, connection = store._run, store._database._connection
        pages = await run(lambda: connection.execute("PRAGMA page_count").fetchone()[0])
        await run(lambda: connection.execute(f"PRAGMA max_page_count={pages}").fetchone())
        with pytest.raises(MetastoreError, match="disk is full"):
            await store.append(epoch, bytes(100_000))
        await run(lambda: connection.execute("PRAGMA max_page_count=1000000").fetchone())
        assert await store.append(epoch, b"b") == 1


_STOPS_WHILE_IT_WRITES = """
import asyncio, os, signal, sys
from pathlib import Path
from tidelog.clock import SystemClock
from tidelog.metastore.sqlite import SqliteMetastore

async def main():
    store = SqliteMetastore(Path(sys.argv[1]), SystemClock())
    await store.open()
    await store.lead(await store.open_session(1, int(sys.argv[2])))
    with store._database._transaction():
        print("writes", flush=True)
        os.kill(os.getpid(), signal.SIGSTOP)

asyncio.run(main())
"""


@pytest.mark.parametrize(
    "timeout_ms", [300, 60_000], ids=["its session is over", "it has a session"]
)
async def test_a_broker_that_was_stopped_while_it_writes(path, monkeypatch, timeout_ms):
    """It holds the lock: when its session is over it is ended, so that the others can go on."""
    monkeypatch.setattr(sqlite, "_BUSY_SECONDS", 1.0)
    command = [sys.executable, "-c", _STOPS_WHILE_IT_WRITES, str(path), str(timeout_ms)]
    stopped = await asyncio.to_thread(subprocess.Popen, command, stdout=subprocess.PIPE, text=True)
    try:
        assert stopped.stdout is not None
        assert await asyncio.to_thread(stopped.stdout.readline) == "writes\n"
        while _state(stopped.pid) != "T":  # noqa: ASYNC110  (nobody rings)
            await asyncio.sleep(0.01)
        if timeout_ms == 300:
            async with SqliteMetastore(path, SystemClock()) as store:
                session = await store.open_session(2, 60_000)
                assert await store.lead(session) == 2
            assert await asyncio.to_thread(stopped.wait, 10) == -signal.SIGKILL
        else:
            with pytest.raises(MetastoreError, match="locked"):
                async with SqliteMetastore(path, SystemClock()) as store:
                    await store.open_session(2, 60_000)
            assert stopped.poll() is None
    finally:
        stopped.kill()
        stopped.wait()
        if stopped.stdout is not None:
            stopped.stdout.close()


def _state(process: int) -> str:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
