"""Whether a crash can have taken what was written, and what a directory was put back from: by broker epoch and boot id."""

import errno
import os

import pytest

from tidelog.names import TopicPartition
from tidelog.storage.config import LogConfig
from tidelog.storage.files import LocalFiles
from tidelog.storage.last_life import BOOT_NOTE, CLEAN_SHUTDOWN, LastLife
from tidelog.storage.manager import LogManager
from tidelog.testing.faulty_files import Fault, FaultyFiles, on


class Lives:
    """Lives of a broker on some directories."""

    def __init__(self, root, clock) -> None:
        self.root, self.clock, self.epoch = root, clock, 0
        self.files = LocalFiles()

    def start(self, *names: str) -> LogManager:
        paths = [str(self.root / each) for each in names or ("data",)]
        logs = LogManager(paths, files=self.files, clock=self.clock, config=LogConfig())
        logs.start(broker_id=0, cluster_id="c")
        return logs

    async def live(self, *names: str, boot: str = "monday") -> LogManager:
        logs = self.start(*names)
        self.epoch += 1
        await logs.begin_life(boot, self.epoch)
        return logs

    def last_epoch(self, *names: str, boot: str = "monday") -> int:
        logs = self.start(*names)
        try:
            return logs.last_epoch(boot)
        finally:
            logs.close(clean=False)


@pytest.fixture
def lives(tmp_path, clock) -> Lives:
    return Lives(tmp_path, clock)


async def test_a_clean_stop_keeps_everything_whatever_the_machine_did(lives):
    (await lives.live()).close()
    assert lives.last_epoch(boot="tuesday") == 1


async def test_a_kill_keeps_everything_as_long_as_the_machine_runs(lives):
    (await lives.live()).close(clean=False)
    assert lives.last_epoch() == 1
    assert lives.last_epoch(boot="tuesday") == -1


async def test_without_a_boot_id_nothing_is_known_after_a_kill(lives):
    (await lives.live(boot="")).close(clean=False)
    assert lives.last_epoch(boot="") == -1


async def test_a_new_directory_has_no_last_life(lives):
    assert lives.last_epoch() == -1
    (await lives.live("one")).close()
    assert lives.last_epoch("one", "two") == -1


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
async def test_a_backup_is_of_an_older_life(lives, tmp_path, clean):
    (await lives.live()).close(clean=clean)
    names = [each for each in (CLEAN_SHUTDOWN, BOOT_NOTE) if (tmp_path / "data" / each).exists()]
    backup = {each: (tmp_path / "data" / each).read_bytes() for each in names}
    (await lives.live()).close(clean=clean)
    for name, content in backup.items():
        (tmp_path / "data" / name).write_bytes(content)
    assert lives.last_epoch() == 1


async def test_a_directory_that_was_away_is_of_an_older_life(lives):
    (await lives.live("one", "two")).close()
    (await lives.live("one")).close()
    assert lives.last_epoch("one", "two") == -1


@pytest.mark.parametrize("ending", ["killed", "stopped"])
async def test_after_a_failed_sync_the_same_boot_says_nothing(lives, bench, tmp_path, ending):
    """The kernel forgets what it could not write (fsyncgate)."""
    lives.files = FaultyFiles(str(tmp_path))
    logs = await lives.live("one", "two")
    log = logs.get_or_create(TopicPartition("t", 0), None)
    bench.append(log, [b"x"])
    lives.files.plan = on("sync", ".log", Fault.IO_ERROR)
    with pytest.raises(Exception, match="failed"):
        log.flush()
    lives.files.plan = None
    logs.close(clean=ending == "stopped")
    assert lives.last_epoch("one", "two") == -1


async def test_a_disk_that_cannot_be_written_does_not_hide_that_it_failed(lives, bench, tmp_path):
    """Read-only: the note that it carries still says the same boot, that of the other directory does not."""
    logs = await lives.live("one", "two")
    logs.directories[1].last_life._files = _ReadOnly()
    logs._directory_failed(logs.directories[1], OSError(errno.EROFS, os.strerror(errno.EROFS)))
    logs.close(clean=False)
    assert lives.last_epoch("one", "two") == -1
    assert lives.last_epoch("two") == 1


class _ReadOnly(LocalFiles):
    def replace(self, path: str, data: bytes, *, sync: bool = True) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)


@pytest.mark.parametrize("note", [b"", b"of another day", b"\xff\xfe", b"7", b"-3 monday"])
def test_a_note_that_says_nothing(tmp_path, note):
    (tmp_path / BOOT_NOTE).write_bytes(note)
    life = LastLife(LocalFiles(), str(tmp_path))
    assert life.read() is None
    assert life.epoch_with_everything("monday") == -1


@pytest.mark.parametrize(
    "mark", ["", "[]", "{}", '{"version":0,"brokerEpoch":-1}', '{"brokerEpoch":"x"}']
)
def test_a_mark_without_an_epoch_is_a_clean_stop_of_nobody_knows_when(tmp_path, mark):
    """As Kafka before 3.7 and tidelog before it noted epochs leave it."""
    (tmp_path / CLEAN_SHUTDOWN).write_text(mark)
    life = LastLife(LocalFiles(), str(tmp_path))
    assert life.read() is True
    assert life.epoch_with_everything("monday") == -1
    assert life.read() is None


async def test_a_new_life_notes_no_high_watermark_of_its_own(lives, bench, tmp_path):
    """A log is opened with its end for the high watermark; what is committed is known later."""
    logs = await lives.live()
    where = TopicPartition("t", 0)
    bench.append(logs.get_or_create(where, None), [b"x"] * 5, commit=False)
    await logs.checkpoint_high_watermarks()
    logs.close(clean=False)
    (await lives.live()).close(clean=False)
    assert lives.start().noted_high_watermark(where) == 0
