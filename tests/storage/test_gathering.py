"""Batches that are appended together end up as if they had come one by one."""

from pathlib import Path

import pytest

from tidelog.errors import KafkaStorageError
from tidelog.records.batch import parse_header
from tidelog.records.builder import build_batch
from tidelog.storage import gathering
from tidelog.testing.faulty_files import Fault, FaultyFiles, at, on


def small(bench, *sizes, timestamp=None):
    now = bench.clock.now_ms() if timestamp is None else timestamp
    gathered = gathering.Gathered()
    for size in sizes:
        records = 1 + size % 3
        data = build_batch([(now, b"k", b"x" * size, ())] * records)
        gathered.add(memoryview(data), records, now)
    return gathered


def files_of(log):
    log.close()
    return {
        path.name: path.read_bytes()
        for path in sorted(Path(log.directory).iterdir())
        if path.suffix in (".log", ".index", ".timeindex")
    }


def test_together_or_one_by_one_makes_the_same_files(bench, tmp_path):
    sizes = [10, 700, 30, 4000, 5, 5, 5, 2000, 3000]
    together = bench.open(index_interval_bytes=1000)
    bench.append(together, [b"first"])
    assert gathering.fits(together, small(bench, *sizes), 0)
    assert gathering.append(together, small(bench, *sizes), 0) == 1
    together.high_watermark = together.log_end_offset
    together.check()
    assert len(bench.values(together)) == 1 + sum(1 + size % 3 for size in sizes)
    found = files_of(together)

    bench.directory += "-other"
    single = bench.open(index_interval_bytes=1000)
    bench.append(single, [b"first"])
    for size in sizes:
        ((batch, _, _),) = small(bench, size).batches
        single.append_as_leader(batch, leader_epoch=0, header=parse_header(batch))
    assert files_of(single) == found


def test_what_does_not_fit_is_left_to_the_usual_way(bench):
    batches = small(bench, 100, 200)
    log = bench.open(segment_bytes=2000, segment_ms=1000, flush_messages=100)
    assert not gathering.fits(log, batches, 0), "the segment has not begun"
    bench.append(log, [b"first"])
    assert gathering.fits(log, batches, 0)
    assert not gathering.fits(log, batches, 1), "an epoch begins"
    assert not gathering.fits(log, small(bench, *[200] * 10), 0), "the segment is full before"
    late = small(bench, 1, timestamp=bench.clock.now_ms() + 5000)
    assert not gathering.fits(log, late, 0), "the segment is too old for it"
    assert not gathering.fits(log, small(bench, *[1] * 60), 0), "a flush is due with them"
    log.fail(OSError(5, "broken"))
    assert not gathering.fits(log, batches, 0)


def test_full_indexes_take_no_more(bench):
    log = bench.open(segment_index_bytes=48, index_interval_bytes=0)
    bench.append(log, [b"first"])
    assert gathering.fits(log, small(bench, 1, 1), 0)
    assert not gathering.fits(log, small(bench, 1, 1, 1, 1), 0)


@pytest.mark.parametrize("fault", [Fault.NO_SPACE, Fault.SHORT])
def test_a_full_disk_leaves_the_log_as_it_was(bench, fault):
    files = FaultyFiles(bench.root)
    log = bench.open(files=files)
    bench.append(log, [b"first"])
    before = (log.log_end_offset, log.segments[-1].size)
    files.plan = at(len(files.points), fault)
    with pytest.raises(KafkaStorageError):
        gathering.append(log, small(bench, 100, 200, 300), 0)
    files.plan = None
    assert (log.log_end_offset, log.segments[-1].size) == before
    log.check()
    assert bench.values(log) == [b"first"]
    assert gathering.append(log, small(bench, 100), 0) == 1
    log.high_watermark = log.log_end_offset
    assert len(bench.values(log)) == 3


def test_a_broken_disk_takes_the_log_offline(bench):
    files = FaultyFiles(bench.root)
    log = bench.open(files=files)
    bench.append(log, [b"first"])
    files.plan = on("write", ".log", Fault.IO_ERROR)
    with pytest.raises(KafkaStorageError):
        gathering.append(log, small(bench, 100, 200), 0)
    assert log.failure is not None
    assert log.log_end_offset == 1


def of_producer(bench, *sequences, producer_id=7):
    gathered = gathering.Gathered()
    for sequence in sequences:
        data = build_batch(
            [(bench.clock.now_ms(), b"k", b"v", ())] * 2,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
        )
        gathered.add(memoryview(data), 2, bench.clock.now_ms(), parse_header(data))
    return gathered


def test_producers_are_known_after_the_write_and_after_recovery(bench):
    log = bench.open()
    bench.append(log, [b"first"])
    for sequences in ((0, 2), (4, 6, 8, 10)):
        batches = of_producer(bench, *sequences)
        assert gathering.fits(log, batches, 0)
        gathering.append(log, batches, 0)
    known = log.producers.to_snapshot()
    assert [each.last_sequence for each in known] == [3, 5, 7, 9, 11]
    assert [each.last_offset for each in known] == [4, 6, 8, 10, 12]
    log.close()
    assert bench.open().producers.to_snapshot() == known


def test_a_failed_write_leaves_the_producers_as_they_were(bench):
    files = FaultyFiles(bench.root)
    log = bench.open(files=files)
    bench.append(log, [b"first"])
    gathering.append(log, of_producer(bench, 0), 0)
    before = log.producers.to_snapshot()
    files.plan = at(len(files.points), Fault.NO_SPACE)
    with pytest.raises(KafkaStorageError):
        gathering.append(log, of_producer(bench, 2, 4), 0)
    files.plan = None
    assert log.producers.to_snapshot() == before
    assert gathering.fits(log, of_producer(bench, 2, 4), 0)
    assert not gathering.fits(log, of_producer(bench, 4), 0)
