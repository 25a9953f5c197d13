"""Disk space claimed beforehand: there while a segment is written, given back when it is closed, harmless after a crash."""

import os

import pytest

from tidelog.storage.files import LocalFiles
from tidelog.testing.faulty_files import Fault, FaultyFiles, on

SEGMENT = {"segment_bytes": 4096, "preallocate": True}


def sizes(bench):
    """The lengths of the log files, oldest first."""
    names = sorted(name for name in os.listdir(bench.directory) if name.endswith(".log"))
    return [os.path.getsize(os.path.join(bench.directory, name)) for name in names]


def fill(bench, log, batches, size=1000):
    for number in range(batches):
        bench.append(log, [b"%d" % number + bytes([65]) * size])


def test_a_segment_has_its_space_from_the_start_and_gives_back_the_rest(bench):
    log = bench.open(**SEGMENT)
    assert sizes(bench) == [4096]
    assert log.size_bytes == 0
    fill(bench, log, 5)
    closed, active = sizes(bench)
    assert closed == log.segments[0].size < 4096
    assert active == 4096
    log = bench.reopen_clean(log, **SEGMENT)
    assert sizes(bench) == [each.size for each in log.segments]
    assert len(bench.values(log)) == 5


def test_an_empty_log_is_empty_after_a_clean_stop(bench):
    log = bench.reopen_clean(bench.open(clean=True, **SEGMENT), **SEGMENT)
    assert sizes(bench) == [0]
    assert log.log_end_offset == 0


def test_a_read_ends_where_the_batches_end(bench):
    log = bench.open(**SEGMENT)
    fill(bench, log, 2)
    region = log.read(0, 1 << 20, up_to=2)
    assert region.length == log.size_bytes
    assert len(bench.values(log)) == 2


@pytest.mark.parametrize("batches", [0, 1, 3, 4, 9])
def test_zeros_behind_the_last_batch_are_cut_after_a_kill(bench, caplog, batches):
    log = bench.open(**SEGMENT)
    fill(bench, log, batches)
    log.close(clean=False)
    log = bench.open(**SEGMENT)
    assert log.log_end_offset == batches
    assert len(bench.values(log)) == batches
    assert sizes(bench)[-1] == log.segments[-1].size
    assert "nothing but zeros" in caplog.text
    assert "corrupt" not in caplog.text
    fill(bench, log, 5)
    assert log.log_end_offset == batches + 5


def test_a_closed_segment_that_got_its_zeros_back_costs_nothing_behind_it(bench):
    """A power cut may undo the truncation of a closed segment."""
    log = bench.open(**SEGMENT)
    fill(bench, log, 8)
    first = log.segments[0]
    log.close(clean=False)
    os.truncate(first.path, 4096)
    log = bench.open(**SEGMENT)
    assert len(bench.values(log)) == 8


def test_zeros_in_place_of_batches_end_the_log(bench):
    """The next segment does not go on where the zeros begin: what was there is lost."""
    log = bench.open(segment_bytes=4096)
    fill(bench, log, 8)
    first = log.segments[0]
    size = first.size
    log.close(clean=False)
    os.truncate(first.path, size // 2)
    os.truncate(first.path, size)
    os.truncate(first.path, os.path.getsize(first.path))
    log = bench.open(segment_bytes=4096)
    assert len(log.segments) == 1
    assert len(bench.values(log)) < 4


def test_a_full_disk_is_told_when_a_segment_is_begun(bench):
    from tidelog.errors import KafkaStorageError

    files = FaultyFiles(bench.root)
    log = bench.open(files=files, **SEGMENT)
    files.plan = on("allocate", ".log", Fault.NO_SPACE)
    with pytest.raises(KafkaStorageError, match="roll"):
        fill(bench, log, 9)
    end = log.log_end_offset
    assert log.failure is None
    files.plan = None
    fill(bench, log, 1)
    assert len(bench.values(log)) == end + 1


@pytest.mark.parametrize("seed", range(30))
def test_synced_batches_survive_a_power_cut(bench, seed):
    files = FaultyFiles(bench.root)
    files.make_directory(bench.directory)
    files.sync_directory(bench.root)
    log = bench.open(files=files, **SEGMENT)
    fill(bench, log, 3 + seed % 7)
    log.flush()
    synced = log.log_end_offset
    fill(bench, log, seed % 5)
    files.cut_power(seed)
    log = bench.open(files=LocalFiles(), recovery_point=synced if seed % 2 else 0, **SEGMENT)
    values = bench.values(log)
    assert len(values) >= synced
    assert log.log_end_offset == len(values)
