"""Log directories: locks, identity, loading, deletion, checkpoints, one disk failing alone."""

import asyncio
import contextlib
import errno
import os
import subprocess
import sys
import threading
from pathlib import Path
from uuid import uuid4

import pytest

from tidelog.errors import KafkaStorageError, StartError
from tidelog.kernel import stamp_batch
from tidelog.names import TopicPartition
from tidelog.records.builder import build_batch
from tidelog.storage.checkpoints import read_offsets
from tidelog.storage.config import LogConfig
from tidelog.storage.files import LocalFiles
from tidelog.storage.flusher import Flusher
from tidelog.storage.manager import LogManager
from tidelog.testing.faulty_files import Fault, FaultyFiles

A, B = TopicPartition("a.b-c", 0), TopicPartition("a.b-c", 1)


@pytest.fixture
def manager(tmp_path, clock):
    made = []

    def make(*names, files=None, start=True, broker_id=0, cluster_id="c", **config):
        logs = LogManager(
            [str(tmp_path / name) for name in names or ("data",)],
            files=files or LocalFiles(),
            clock=clock,
            config=LogConfig(**config),
        )
        made.append(logs)
        if start:
            logs.start(broker_id=broker_id, cluster_id=cluster_id)
        return logs

    yield make
    for logs in made:
        logs.release()


def test_logs_come_back_with_their_topic_ids(manager, bench):
    logs = manager()
    topic_id = uuid4()
    for partition in (A, B):
        bench.append(logs.get_or_create(partition, topic_id), [b"x"])
    logs.get(A).delete_records(1)
    logs.close()
    again = manager()
    assert len(again) == 2
    assert again.get(A).topic_id == topic_id
    assert (again.get(A).log_start_offset, again.get(B).log_start_offset) == (1, 0)
    assert again.get(B).log_end_offset == 1
    assert again.get(TopicPartition("a.b-c", 2)) is None


def test_a_clean_stop_is_marked_and_a_start_removes_the_mark(manager, tmp_path):
    logs = manager()
    logs.close()
    mark = tmp_path / "data" / ".kafka_cleanshutdown"
    assert mark.exists()
    logs = manager()
    assert logs.directories[0].clean
    assert not mark.exists()


def test_a_second_process_is_refused_by_name_and_pid(manager, tmp_path):
    manager()
    code = (
        "import sys; from tidelog.clock import SystemClock; from tidelog.storage.config import LogConfig\n"
        "from tidelog.storage.files import LocalFiles; from tidelog.storage.manager import LogManager\n"
        "logs = LogManager([sys.argv[1]], files=LocalFiles(), clock=SystemClock(), config=LogConfig())\n"
        "logs.start(broker_id=0, cluster_id='c')"
    )
    path = str(tmp_path / "data")
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True)
    last = done.stderr.splitlines()[-1]
    assert "StartError" in last
    assert path in last
    assert f"process {os.getpid()}" in last


@pytest.mark.parametrize("identity", [{"broker_id": 1}, {"cluster_id": "other"}])
def test_a_directory_of_someone_else_is_refused(manager, identity):
    manager().close()
    with pytest.raises(StartError, match="belongs to"):
        manager(**identity)


def test_a_directory_that_cannot_be_made(manager, tmp_path):
    (tmp_path / "data").write_text("not a directory")
    with pytest.raises(StartError, match="no log directory can be used"):
        manager()


def test_a_deleted_log_is_gone_at_once_and_its_files_later(manager, bench, clock, tmp_path):
    logs = manager()
    log = logs.get_or_create(A, uuid4())
    bench.append(log, [b"x"])
    region = log.read(0, 100, up_to=1)
    logs.delete(A)
    assert logs.get(A) is None
    assert region.read()
    assert logs.get_or_create(A, uuid4()).log_end_offset == 0
    assert any(each.name.endswith("-delete") for each in (tmp_path / "data").iterdir())


async def test_deleted_files_are_removed_after_the_delay(manager, bench, clock, tmp_path):
    logs = manager(segment_bytes=200, retention_bytes=0)
    log = logs.get_or_create(A, None)
    for _ in range(3):
        bench.append(log, [b"x" * 60])
    logs.get_or_create(B, None)
    logs.delete(B)
    assert [each[1] for each in await logs.apply_retention()] == [0, 1, 2]
    await logs.remove_files()
    assert len(list((tmp_path / "data").glob("*/*.deleted"))) > 0
    clock.advance(60_000)
    await logs.remove_files()
    assert not list((tmp_path / "data").glob("*/*.deleted"))
    assert not list((tmp_path / "data").glob("*-delete"))


def test_an_interrupted_deletion_is_finished_by_the_next_run(manager):
    logs = manager()
    logs.get_or_create(A, None)
    logs.delete(A)
    logs.close()
    again = manager()
    assert len(again) == 0
    assert len(again._retired) == 1


def test_one_disk_fails_alone(manager, bench, tmp_path):
    files = FaultyFiles(str(tmp_path))
    logs = manager("one", "two", files=files)
    one, two = logs.get_or_create(A, None), logs.get_or_create(B, None)
    assert logs.home_of(A) is not logs.home_of(B)
    told = []
    logs.on_offline = lambda partitions, error: told.append(partitions)
    files.plan = lambda point: Fault.IO_ERROR if "/one/" in point.path else None
    with pytest.raises(KafkaStorageError):
        bench.append(one, [b"x"])
    bench.append(two, [b"x"])
    with pytest.raises(KafkaStorageError):
        logs.get(A)
    assert told == [[A]]
    assert logs.get_or_create(TopicPartition("n", 0), None).directory.startswith(
        str(tmp_path / "two")
    )
    logs.close()
    assert not (tmp_path / "one" / ".kafka_cleanshutdown").exists()
    assert (tmp_path / "two" / ".kafka_cleanshutdown").exists()


async def test_checkpoints_are_kafkas_text(manager, bench, tmp_path):
    logs = manager()
    log = logs.get_or_create(A, None)
    bench.append(log, [b"x", b"y"])
    log.flush()
    log.delete_records(1)
    await logs.checkpoint()
    for name, offset in (
        ("recovery-point-offset-checkpoint", 2),
        ("replication-offset-checkpoint", 2),
        ("log-start-offset-checkpoint", 1),
    ):
        assert (tmp_path / "data" / name).read_text() == f"0\n1\na.b-c 0 {offset}\n"


class SlowRenames(LocalFiles):
    """Every rename waits until another is about to happen, or for a moment: two writers of one file meet."""

    def __init__(self):
        self._meeting = threading.Barrier(2)

    def rename(self, source, target):
        if target.endswith("-checkpoint"):
            with contextlib.suppress(threading.BrokenBarrierError):
                self._meeting.wait(0.05)
            self._meeting.reset()
        super().rename(source, target)


async def test_two_checkpoints_at_once_do_not_meet(manager, bench, tmp_path):
    logs = manager(files=SlowRenames())
    bench.append(logs.get_or_create(A, None), [b"x"])
    await asyncio.gather(logs.checkpoint(), logs.checkpoint_high_watermarks(), logs.checkpoint())
    assert logs.directories[0].failure is None
    assert read_offsets(LocalFiles(), str(tmp_path / "data" / "replication-offset-checkpoint"))


def test_an_older_checkpoint_is_not_written_over_a_newer_one(manager, bench, tmp_path):
    logs = manager()
    log = logs.get_or_create(A, None)
    (directory,) = logs.directories
    late = directory.checkpoints()
    bench.append(log, [b"x"])
    log.flush()
    newer = directory.checkpoints()
    newer()
    late()
    path = str(tmp_path / "data" / "recovery-point-offset-checkpoint")
    assert read_offsets(LocalFiles(), path) == {A: 1}
    logs.close()
    newer()
    assert directory.last_life.read()


def test_a_broken_checkpoint_costs_a_scan_and_no_data(manager, bench, tmp_path):
    logs = manager()
    bench.append(logs.get_or_create(A, None), [b"x"])
    logs.close()
    (tmp_path / "data" / "recovery-point-offset-checkpoint").write_text("0\n5\n")
    again = manager()
    assert not again.directories[0].clean
    assert again.get(A).log_end_offset == 1


def test_a_changed_recovery_point_is_not_taken_for_the_end_of_the_log(
    manager, bench, tmp_path, caplog
):
    logs = manager()
    bench.append(logs.get_or_create(A, None), [b"x"] * 7)
    logs.close()
    path = tmp_path / "data" / "recovery-point-offset-checkpoint"
    path.write_text(path.read_text().replace(" 7\n", " 5\n"))
    again = manager()
    assert not again.directories[0].clean
    assert again.get(A).log_end_offset == 7
    assert "was changed after the last stop" in caplog.text


@pytest.mark.parametrize("mark", ["", '{"version":0,"brokerEpoch":7}'])
def test_the_clean_mark_of_kafka_itself_is_believed(manager, bench, tmp_path, mark):
    logs = manager()
    bench.append(logs.get_or_create(A, None), [b"x"] * 7)
    logs.close()
    (tmp_path / "data" / ".kafka_cleanshutdown").write_text(mark)
    assert manager().directories[0].clean


def test_a_new_log_does_not_inherit_a_checkpoint(manager, tmp_path):
    logs = manager()
    logs.close()
    for name in ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint"):
        (tmp_path / "data" / name).write_text("0\n1\na.b-c 0 5\n")
    assert manager().get_or_create(A, None).log_start_offset == 0


def test_few_descriptors_for_many_logs(manager, bench):
    logs = manager()
    for index in range(50):
        bench.append(logs.get_or_create(TopicPartition("t", index), None), [b"x"])
    logs.close()
    before = len(os.listdir("/proc/self/fd"))
    again = manager()
    assert len(again) == 50
    assert len(os.listdir("/proc/self/fd")) - before < 5


def test_the_limit_on_open_segments_holds_over_all_logs(tmp_path, clock, bench):
    logs = LogManager(
        [str(tmp_path / "data")],
        files=LocalFiles(),
        clock=clock,
        config=LogConfig(),
        open_segments_max=5,
    )
    logs.start(broker_id=0, cluster_id="c")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(2):
        for index in range(30):
            bench.append(logs.get_or_create(TopicPartition("t", index), None), [b"x"])
    assert len(os.listdir("/proc/self/fd")) - before <= 5
    logs.close()


async def test_a_full_disk_does_not_take_the_directory_offline(manager, bench, tmp_path):
    files = FaultyFiles(str(tmp_path))
    logs = manager(files=files)
    log = logs.get_or_create(A, None)
    files.plan = lambda point: Fault.NO_SPACE
    await logs.checkpoint()
    with pytest.raises(KafkaStorageError):
        logs.get_or_create(B, None)
    files.plan = None
    await logs.checkpoint()
    bench.append(log, [b"x"])
    bench.append(logs.get_or_create(B, None), [b"x"])


def test_a_disk_that_is_full_at_the_start_is_not_a_failed_one(manager, bench, tmp_path):
    """With another directory beside it, too: offline it would stay so after there is room again."""
    logs = manager("one", "two")
    bench.append(logs.get_or_create(A, None), [b"x"])
    bench.append(logs.get_or_create(B, None), [b"x"])
    logs.release()
    files = FaultyFiles(str(tmp_path))
    files.plan = lambda point: (
        Fault.NO_SPACE if point.action in ("create", "write") and "/two/" in point.path else None
    )
    with pytest.raises(StartError, match=r"two cannot be opened.*No space left.*Make room"):
        manager("one", "two", files=files)
    files.plan = None
    again = manager("one", "two", files=files)
    assert [each.failure for each in again.directories] == [None, None]
    assert {each.topic_partition for each in again} == {A, B}


class NoDescriptors(LocalFiles):
    """Files that cannot be opened while `gone` is set; those alone whose names end with `only`."""

    gone = False
    only = ""

    def open(self, path, *, create=False):
        self._check(path)
        return super().open(path, create=create)

    def sync_directory(self, path):
        self._check(path)
        super().sync_directory(path)

    def _check(self, path):
        if self.gone and path.endswith(self.only):
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)


async def test_a_want_of_descriptors_passes(manager, bench):
    files = NoDescriptors()
    logs = manager(files=files, segment_bytes=200)
    log = logs.get_or_create(A, None)
    for _ in range(5):
        bench.append(log, [b"x" * 50])
    for segment in log.segments:
        segment.release()
    files.gone = True
    await logs.checkpoint()
    with pytest.raises(KafkaStorageError, match="Too many open files"):
        bench.append(log, [b"x" * 50])
    with pytest.raises(KafkaStorageError, match="Too many open files"):
        log.read(0, 100, up_to=5)
    with pytest.raises(KafkaStorageError, match="Too many open files"):
        await Flusher().flush(log, 5)
    files.gone = False
    bench.append(log, [b"y" * 50])
    await Flusher().flush(log, 6)
    assert log.recovery_point == 6
    assert len(bench.values(log)) == 6


async def test_an_append_of_a_new_epoch_waits_for_no_disk(manager, bench, tmp_path):
    files = FaultyFiles(str(tmp_path))
    log = manager(files=files).get_or_create(A, None)
    files.points.clear()
    bench.append(log, [b"x"], epoch=7)
    assert not [each for each in files.points if "sync" in each.action]
    await Flusher().flush(log, 1)
    synced = {os.path.basename(each.path) for each in files.points if each.action == "sync"}
    assert "leader-epoch-checkpoint" in synced


def test_epochs_that_recovery_found_are_written_down(manager, bench, tmp_path):
    logs = manager()
    log = logs.get_or_create(A, None)
    bench.append(log, [b"x"], epoch=7)
    (tmp_path / "data" / str(A) / "leader-epoch-checkpoint").unlink()
    logs.release()
    manager()
    text = (tmp_path / "data" / str(A) / "leader-epoch-checkpoint").read_text()
    assert text == "0\n1\n7 0\n"


def test_many_logs_are_closed_together(manager, bench):
    logs = manager()
    for index in range(100):
        bench.append(logs.get_or_create(TopicPartition("t", index), None, sync=False), [b"x"])
    assert logs.close()
    again = manager()
    assert all(each.clean for each in again.directories)
    assert {each.log_end_offset for each in again} == {1}


def test_a_log_that_is_set_aside_is_kept_and_not_found_again(manager, tmp_path):
    logs = manager()
    where = TopicPartition("orders", 0)
    logs.get_or_create(where, None)
    path = Path(logs.set_aside(where))
    assert path.name.startswith("orders-0.")
    assert path.name.endswith("-stray")
    assert logs.get(where) is None
    assert logs.set_aside(where) is None
    logs.close()
    again = manager()
    assert len(again) == 0
    assert path.is_dir()
    again.close()


def test_sizes_of_files_that_vanish_meanwhile(tmp_path, monkeypatch):
    for name in ("a", "b.deleted", "c"):
        (tmp_path / name).write_bytes(b"12345")
    scan = os.scandir

    @contextlib.contextmanager
    def removing(directory):
        with scan(directory) as entries:
            listed = list(entries)
        (tmp_path / "b.deleted").unlink()
        yield listed

    monkeypatch.setattr(os, "scandir", removing)
    assert LocalFiles().sizes(str(tmp_path)) == {"a": 5, "c": 5}


@pytest.mark.parametrize("how", ["leader", "follower"])
def test_a_want_of_descriptors_for_an_index_doubles_no_offset(manager, bench, how):
    """An index that was let go is opened again for its next entry, which comes behind the write."""
    files = NoDescriptors()
    logs = manager(files=files, index_interval_bytes=0)
    for number in range(3):
        bench.append(logs.get_or_create(A, None), [b"%d" % number], timestamp=number)
    logs.close()
    log = manager(files=files, index_interval_bytes=0).get(A)
    bench.append(log, [b"3"], timestamp=3)
    log.segments[-1].let_go()
    files.gone, files.only = True, "index"
    with contextlib.suppress(KafkaStorageError, OSError):
        if how == "leader":
            bench.append(log, [b"4"], timestamp=4)
        else:
            log.append_as_follower(b"".join(bytes(_stamped(each)) for each in (4, 5)))
    files.gone = False
    log.high_watermark = end = log.log_end_offset
    bench.append(log, [b"%d" % end], timestamp=end)
    assert bench.values(log) == [b"%d" % each for each in range(end + 1)]
    assert log.max_timestamp()[:2] == (end, end)


def _stamped(offset):
    batch = build_batch([(offset, b"key", b"%d" % offset, ())])
    stamp_batch(batch, 0, offset, 0)
    return batch


def test_a_full_disk_lets_records_be_deleted(manager, bench, tmp_path):
    """To make room is what one does then; what the file still has is dropped by the next start."""
    files = FaultyFiles(str(tmp_path))
    logs = manager(files=files)
    log = logs.get_or_create(A, None)
    for epoch in (1, 2, 3):
        bench.append(log, [b"x"], epoch=epoch)
    files.plan = lambda _: Fault.NO_SPACE
    assert log.delete_records(2) == 2
    files.plan = None
    assert log.failure is None
    assert log.epochs.entries() == [(3, 2)]
    logs.close()
    again = manager(files=files)
    assert again.get(A).epochs.entries() == [(3, 2)]


def test_what_fails_on_a_deleted_log_is_not_the_directorys_fault(manager, bench):
    logs = manager()
    log = logs.get_or_create(A, None)
    other = logs.get_or_create(B, None)
    bench.append(log, [b"x"], producer_id=7, producer_epoch=0, base_sequence=0)
    logs.delete(A)
    log.fail(FileNotFoundError(errno.ENOENT, "No such file or directory"))
    assert logs.directories[0].failure is None
    bench.append(other, [b"x"])


async def test_a_want_of_descriptors_while_a_partition_is_opened_passes(manager, bench, tmp_path):
    files = NoDescriptors()
    logs = manager(files=files)
    bench.append(logs.get_or_create(A, None), [b"x"])
    files.gone = True
    with pytest.raises(KafkaStorageError):
        logs.get_or_create(A, uuid4())
    logs.sync_directories()
    assert logs.directories[0].failure is None
    files.gone = False
    topic_id = uuid4()
    assert logs.get_or_create(A, topic_id).topic_id == topic_id


async def test_a_tree_that_cannot_be_removed_is_told_of_its_own_directory(manager, bench, tmp_path):
    """The name of one directory may begin with that of another."""
    files = FaultyFiles(str(tmp_path))
    logs = manager("data1", "data10", files=files)
    first, second = logs.get_or_create(A, None), logs.get_or_create(B, None)
    assert "data10" in second.directory
    logs.delete(B)
    files.plan = lambda point: Fault.IO_ERROR if "data10" in point.path else None
    bench.clock.advance(120_000)
    await logs.remove_files()
    assert logs.directories[0].failure is None
    assert logs.directories[1].failure is not None
    bench.append(first, [b"x"])


async def test_retention_that_is_stopped_half_way_leaves_a_whole_log(manager, bench, tmp_path):
    files = FaultyFiles(str(tmp_path))
    logs = manager(files=files, segment_bytes=200, retention_ms=1000)
    log = logs.get_or_create(A, None)
    for _ in range(5):
        bench.append(log, [b"x" * 60])
    doomed = os.path.basename(log.segments[2].path)
    bench.clock.advance(2000)
    files.plan = lambda point: Fault.NO_SPACE if doomed in point.path else None
    await logs.apply_retention()
    files.plan = None
    assert log.failure is None
    assert log.log_start_offset == log.segments[0].base_offset == 2
    assert len(bench.values(log)) == 3
    await logs.apply_retention()
    assert log.log_start_offset == 5
