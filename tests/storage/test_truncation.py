"""Cutting a log back: full disks, flushes under way, checkpoints and producers."""

import asyncio
import os
import threading

import pytest

from tidelog.errors import KafkaStorageError
from tidelog.kernel import stamp_batch
from tidelog.names import TopicPartition
from tidelog.records.builder import build_batch
from tidelog.storage import producer_log, truncation
from tidelog.storage.checkpoints import read_offsets
from tidelog.storage.config import LogConfig
from tidelog.storage.files import LocalFiles
from tidelog.storage.manager import LogManager
from tidelog.storage.snapshots import SnapshotEntry, encode_snapshot
from tidelog.testing.faulty_files import Fault, FaultyFiles, at

TP = TopicPartition("orders", 3)


def fill(bench, log, count, *, epoch=0, producer_id=7):
    known = log.producers.by_id.get(producer_id)
    sequence = known.last_sequence + 1 if known else 0
    for i in range(count):
        bench.append(
            log, [b"%d" % i * 20], epoch=epoch, producer_id=producer_id, producer_epoch=0,
            base_sequence=sequence + i,
        )  # fmt: skip


@pytest.mark.parametrize("how", ["truncate_to", "truncate_fully_to"])
def test_a_disk_that_is_full_at_any_point_of_a_cut(bench, tmp_path, how):
    """The log stays whole and usable; the cut is done when there is room."""

    def prepared(name):
        bench.directory = os.path.join(str(tmp_path), name, str(TP))
        files = FaultyFiles(os.path.join(str(tmp_path), name))
        log = bench.open(files=files, segment_bytes=400)
        fill(bench, log, 6)
        fill(bench, log, 6, epoch=2)
        return files, log

    target = 4 if how == "truncate_to" else 20
    files, log = prepared("count")
    begun = len(files.points)
    getattr(log, how)(target)
    for number in range(begun, len(files.points)):
        files, log = prepared(f"{number}")
        files.plan = at(number, Fault.NO_SPACE)
        with pytest.raises(KafkaStorageError):
            getattr(log, how)(target)
        files.plan = None
        assert log.failure is None
        log.check()
        end = log.log_end_offset
        if end not in (0, 20):
            # What is known of producers is what is in the log.
            assert log.producers.by_id[7].last_offset == end - 1
            assert log.epochs.epoch_for(end - 1) == log.epochs.latest
            assert [each.offset for each in bench.records(log)][-1:] == [log.high_watermark - 1]
        getattr(log, how)(target)
        log.check()
        assert log.log_end_offset == target
        known = log.producers.by_id.get(7)
        assert (known.last_sequence if known else -1) == (3 if how == "truncate_to" else -1)
        log.close(clean=False)
        again = bench.open(files=files.kill(), segment_bytes=400)
        assert again.log_end_offset == target
        assert again.epochs.entries() == ([(0, 0)] if how == "truncate_to" else [])
        known = again.producers.by_id.get(7)
        assert (known.last_sequence if known else -1) == (3 if how == "truncate_to" else -1)


def test_a_follower_appends_nothing_before_the_epochs_are_written(bench, tmp_path):
    """Else records would be taken for those of an epoch that was cut off."""
    files = FaultyFiles(str(tmp_path))
    log = bench.open(files=files)
    fill(bench, log, 3, epoch=1)
    fill(bench, log, 3, epoch=2)
    files.plan = lambda point: Fault.NO_SPACE if "leader-epoch" in point.path else None
    with pytest.raises(KafkaStorageError):
        log.truncate_to(3)
    assert log.log_end_offset == 3
    batch = bytearray(build_batch([(1, b"k", b"v", ())]))
    stamp_batch(batch, 0, 3, 1)
    with pytest.raises(KafkaStorageError):
        log.append_as_follower(bytes(batch))
    files.plan = None
    log.append_as_follower(bytes(batch))
    log.close(clean=False)
    again = bench.open(files=files.kill(), recovery_point=4)
    assert again.epochs.entries() == [(1, 0)]


def test_a_flush_under_way_says_nothing_of_what_comes_after_a_cut(bench, tmp_path):
    files = FaultyFiles(str(tmp_path))
    log = bench.open(files=files, segment_bytes=400)
    files.sync_directory(str(tmp_path))
    fill(bench, log, 9)
    assert len(log.segments) > 2
    flush = log.prepare_flush()
    flush.run()
    log.truncate_to(log.segments[0].base_offset + 1)
    flush.done()
    fill(bench, log, 9)
    log.flush()
    end = log.log_end_offset
    again = bench.open(
        files=files.cut_power(), segment_bytes=400, recovery_point=log.recovery_point
    )
    assert again.log_end_offset == end


def test_producers_are_known_after_a_log_was_cut_and_grew_back(bench):
    log = bench.open()
    fill(bench, log, 10)
    log = bench.reopen_clean(log)
    log.truncate_to(5)
    fill(bench, log, 5)
    log.flush()
    again = bench.reopen_clean(log)
    assert again.log_end_offset == 10
    assert again.producers.by_id[7].last_sequence == 9


def manager(root, files, clock):
    config = LogConfig(segment_bytes=400, index_interval_bytes=0)
    return LogManager([root], files=files, clock=clock, config=config)


def test_a_segment_that_lost_its_tail_ends_the_log(bench, tmp_path, clock, caplog):
    """At the end of a batch, so that nothing looks torn: the offsets tell."""
    logs = manager(str(tmp_path), FaultyFiles(str(tmp_path)), clock)
    logs.start(broker_id=0, cluster_id="c")
    asyncio.run(logs.begin_life("monday", 1))
    log = logs.get_or_create(TP, None)
    fill(bench, log, 9)
    first = log.segments[0]
    lost = first.find(2)
    assert len(log.segments) > 2
    logs.close(clean=False)
    os.truncate(os.path.join(str(tmp_path), str(TP), first.path.rpartition("/")[2]), lost.position)
    again = manager(str(tmp_path), FaultyFiles(str(tmp_path)), clock)
    again.start(broker_id=0, cluster_id="c")
    log = again.get(TP)
    assert log.log_end_offset == 2
    assert log.producers.by_id[7].last_sequence == 1
    assert "missing" in caplog.text
    assert again.last_epoch("monday") == -1  # a kill does not do that: it has lost something
    again.close(clean=False)


@pytest.mark.parametrize("producer_id", [7, -1], ids=["with producers", "without"])
async def test_a_cut_reads_the_log_off_the_loop_if_at_all(bench, monkeypatch, producer_id):
    """A segment of small batches takes seconds to read; where no producer is known there is nothing to read for."""
    log = bench.open()
    for i in range(20):
        sequence = {"producer_id": 7, "producer_epoch": 0, "base_sequence": i}
        bench.append(log, [b"x"], **(sequence if producer_id >= 0 else {}))
    readers = []
    original = producer_log.producer_batches

    def watched(*args):
        readers.append(threading.get_ident())
        return original(*args)

    monkeypatch.setattr(producer_log, "producer_batches", watched)
    async with truncation.prepared(log, 12) as restored:
        log.truncate_to(12, restored)
    assert len(readers) == (producer_id >= 0)
    assert threading.get_ident() not in readers
    assert log.log_end_offset == 12
    if producer_id >= 0:
        assert log.producers.by_id[7].last_sequence == 11


async def test_a_log_that_is_about_to_be_cut_is_not_taken_for_synced_behind_it(
    bench, tmp_path, clock
):
    """Whatever ends or is written down meanwhile."""
    logs = manager(str(tmp_path), FaultyFiles(str(tmp_path)), clock)
    logs.start(broker_id=0, cluster_id="c")
    log = logs.get_or_create(TP, None)
    fill(bench, log, 9)
    log.flush()
    await logs.checkpoint()
    directory = logs.directories[0]
    assert directory.noted_recovery_points == {TP: 9}
    async with truncation.prepared(log, 4) as restored:
        assert directory.noted_recovery_points == {TP: 4}
        log.flush()
        await logs.checkpoint()
        assert directory.noted_recovery_points == {TP: 4}
        log.truncate_to(4, restored)
    fill(bench, log, 2)
    log.flush()
    assert log.recovery_point == 6
    logs.close()


async def test_a_checkpoint_on_its_way_does_not_name_what_is_cut(bench, tmp_path, clock):
    """It was taken before the cut, and a thread writes it afterwards."""
    config = LogConfig(segment_bytes=400)
    logs = LogManager([str(tmp_path)], files=LocalFiles(), clock=clock, config=config)
    logs.start(broker_id=0, cluster_id="c")
    log, (directory,) = logs.get_or_create(TP, None), logs.directories
    fill(bench, log, 9)
    log.flush()
    on_its_way = directory.checkpoints()
    async with truncation.prepared(log, 4) as restored:
        log.truncate_to(4, restored)
    on_its_way()
    noted = read_offsets(LocalFiles(), str(tmp_path / "recovery-point-offset-checkpoint"))
    assert noted.get(TP, 0) <= 4
    logs.close()


def test_recovery_learns_anew_what_a_power_cut_has_brought_back(bench):
    """Files from before a cut, of epochs and producers that are no longer in the log."""
    log = bench.open(segment_bytes=400)
    fill(bench, log, 4, epoch=1)
    fill(bench, log, 8, epoch=3)
    second = log.segments[2].base_offset
    log.close(clean=False)
    names = [f"{second:020d}.snapshot", "leader-epoch-checkpoint"]
    paths = [os.path.join(bench.directory, each) for each in names]
    with open(paths[1], "w") as file:
        file.write("0\n2\n1 0\n5 6\n")
    entry = SnapshotEntry(9, 0, 77, 3, 0, bench.clock.now_ms(), -1, -1)
    with open(paths[0], "wb") as file:
        file.write(encode_snapshot([entry]))
    log = bench.open(segment_bytes=400)
    assert log.epochs.entries() == [(1, 0), (3, 4)]
    log.truncate_to(second)  # by the snapshot, if it is there
    assert list(log.producers.by_id) == [7]
