"""The log: appends, reads, rolls, retention, truncation."""

import asyncio
import os

import pytest

from tidelog.errors import KafkaStorageError, OffsetOutOfRange, RecordListTooLarge
from tidelog.records.batch import parse_header, read_records
from tidelog.records.builder import build_batch
from tidelog.records.compression import Codec
from tidelog.storage.flusher import Flusher
from tidelog.testing.faulty_files import Fault, FaultyFiles, at, on


def names(bench, suffix=""):
    return sorted(name for name in os.listdir(bench.directory) if name.endswith(suffix))


def test_offsets_are_given_in_order_and_written_into_the_batch(bench):
    log = bench.open()
    first = bench.append(log, [b"a", b"b"], epoch=4)
    second = bench.append(log, [b"c"], epoch=4)
    assert (first.base_offset, first.last_offset, second.base_offset) == (0, 1, 2)
    region = log.read(2, 1000, up_to=3)
    header = parse_header(region.read())
    assert (header.base_offset, header.leader_epoch) == (2, 4)
    assert bench.values(log) == [b"a", b"b", b"c"]
    log.check()


def test_an_empty_log_has_nothing_to_read(bench):
    log = bench.open()
    assert log.read(0, 100, up_to=0) is None
    with pytest.raises(OffsetOutOfRange):
        log.read(1, 100, up_to=1)
    with pytest.raises(OffsetOutOfRange):
        log.read(-1, 100, up_to=1)


@pytest.mark.parametrize("max_bytes", [1, 80, 200, 1000, 5000, 1 << 20])
def test_regions_are_whole_batches_and_within_the_limit(bench, max_bytes):
    log = bench.open(segment_bytes=3000, index_interval_bytes=200)
    values = [b"%d" % i * (i % 30) for i in range(200)]
    for value in values:
        bench.append(log, [value])
    assert len(log.segments) > 3
    assert bench.values(log, max_bytes=max_bytes) == values
    for offset in range(0, 200, 7):
        region = log.read(offset, max_bytes, up_to=200)
        batch = parse_header(region.read())
        assert batch.base_offset == offset
        assert region.length <= max_bytes or region.length == batch.size
    log.hints.clear()
    assert bench.values(log, start=77, max_bytes=max_bytes) == values[77:]


def test_without_at_least_one_a_batch_that_is_too_large_is_not_returned(bench):
    log = bench.open()
    bench.append(log, [b"x" * 500])
    assert log.read(0, 100, up_to=1, at_least_one=False) is None
    assert log.read(0, 100, up_to=1).length > 500


def test_a_read_ends_at_the_limit_it_is_given(bench):
    log = bench.open(index_interval_bytes=0)
    for i in range(20):
        bench.append(log, [b"%d" % i], commit=False)
    for up_to in (1, 7, 19, 20):
        region = log.read(0, 1 << 20, up_to=up_to)
        offsets = [parse_header(region.read()).base_offset]
        assert offsets == [0]
        assert region.end_offset == up_to
    assert log.read(7, 100, up_to=7) is None


def test_an_offset_inside_a_batch_returns_the_batch(bench):
    log = bench.open()
    bench.append(log, [b"a", b"b", b"c"])
    assert read_records(log.read(1, 1000, up_to=3).read())[0].offset == 0


def test_a_region_outlives_its_segment(bench, clock):
    log = bench.open(segment_bytes=200, retention_bytes=0)
    for i in range(10):
        bench.append(log, [b"%d" % i * 50])
    region = log.read(0, 1000, up_to=10)
    content = region.read()
    log.delete_old_segments(clock.now_ms())
    clock.advance(60_000)
    for path in log.files_to_remove(clock.now_ms()):
        os.unlink(path)
    assert not [name for name in names(bench) if name.endswith(".deleted")]
    assert region.read() == content
    with pytest.raises(OffsetOutOfRange):
        log.read(0, 1000, up_to=10)


def test_segments_roll_by_size(bench):
    log = bench.open(segment_bytes=200)
    for _ in range(4):
        bench.append(log, [b"x" * 60])
    assert names(bench, ".log") == [f"{i:020d}.log" for i in range(4)]
    assert names(bench, ".snapshot") == [f"{i:020d}.snapshot" for i in range(1, 4)]


def test_segments_roll_by_the_time_between_their_batches(bench, clock):
    log = bench.open(segment_ms=1000)
    bench.append(log, [b"a"])
    clock.advance(1000)
    bench.append(log, [b"b"])
    assert len(log.segments) == 1
    clock.advance(1)
    bench.append(log, [b"c"])
    assert len(log.segments) == 2
    # A reopened log still knows when its segment began.
    clock.advance(1001)
    log = bench.reopen_clean(log, segment_ms=1000)
    bench.append(log, [b"d"])
    assert len(log.segments) == 3


def test_a_segment_without_timestamps_rolls_by_the_clock(bench, clock):
    log = bench.open(segment_ms=1000)
    bench.append(log, [b"a"], timestamp=-1)
    assert not log.roll_if_old(clock.now_ms() + 1000)
    assert log.roll_if_old(clock.now_ms() + 1001)


def test_segments_roll_when_an_index_is_full(bench):
    log = bench.open(index_interval_bytes=0, segment_index_bytes=60)
    for _ in range(30):
        bench.append(log, [b"x"])
    assert all(each.offset_index.entries <= 60 // 8 for each in log.segments)
    assert len(log.segments) > 3


def test_segments_roll_before_an_offset_is_too_far_for_the_index(bench):
    log = bench.open()
    bench.append(log, [b"a"])
    far = build_batch([(1, b"k", b"far", ())], base_offset=1 << 33, leader_epoch=0)
    log.append_as_follower(far)
    log.high_watermark = log.log_end_offset
    assert [each.base_offset for each in log.segments] == [0, 1 << 33]
    assert bench.values(log) == [b"a", b"far"]


def test_a_batch_larger_than_a_segment_is_refused(bench):
    log = bench.open(segment_bytes=100)
    with pytest.raises(RecordListTooLarge):
        bench.append(log, [b"x" * 100])
    bench.append(log, [b"x"])


def test_a_follower_keeps_offsets_and_epochs(bench):
    log = bench.open()
    batches = build_batch([(1, None, b"a", ())], base_offset=5, leader_epoch=2) + build_batch(
        [(1, None, b"b", ())], base_offset=9, leader_epoch=3
    )
    appended = log.append_as_follower(batches)
    assert (appended.base_offset, appended.last_offset, log.log_end_offset) == (5, 9, 10)
    assert log.epochs.entries() == [(2, 5), (3, 9)]


# ---------------------------------------------------------------------- timestamps


def test_a_timestamp_is_found_inside_a_compressed_batch(bench):
    log = bench.open(index_interval_bytes=0, segment_bytes=1000)
    for start in range(0, 500, 10):
        rows = [(1000 + start + i, b"k", b"v", ()) for i in range(10)]
        data = build_batch(rows, codec=Codec.GZIP)
        log.append_as_leader(data, leader_epoch=7, header=parse_header(data))
    log.high_watermark = 500
    for target in (0, 1000, 1001, 1234, 1499):
        expected = max(target, 1000)
        assert log.find_timestamp(target, up_to=500) == (expected, expected - 1000, 7)
    assert log.find_timestamp(1500, up_to=500) is None
    assert log.find_timestamp(1234, up_to=200) is None
    assert log.max_timestamp() == (1499, 499, 7)


def test_timestamps_need_not_grow(bench):
    log = bench.open(index_interval_bytes=0, segment_bytes=400)
    stamps = [50, 10, 70, 20, 60, 30, 90, 5, 80, 1]
    for stamp in stamps:
        bench.append(log, [b"x"], timestamp=stamp)
    for target in range(100):
        expected = next(((s, i, 0) for i, s in enumerate(stamps) if s >= target), None)
        assert log.find_timestamp(target, up_to=10) == expected
    reopened = bench.reopen_clean(log)
    assert reopened.find_timestamp(75, up_to=10) == (90, 6, 0)
    assert reopened.max_timestamp() == (90, 6, 0)


# ---------------------------------------------------------------------- retention


def test_retention_by_time_deletes_whole_segments_and_keeps_one_to_write_to(bench, clock):
    log = bench.open(segment_bytes=200, retention_ms=1000)
    for _ in range(3):
        bench.append(log, [b"x" * 60])
        clock.advance(600)
    deleted = log.delete_old_segments(clock.now_ms())
    assert [base for base, _ in deleted] == [0, 1]
    assert "retention.ms=1000" in deleted[0][1]
    assert log.log_start_offset == 2
    clock.advance(5000)
    assert [base for base, _ in log.delete_old_segments(clock.now_ms())] == [2]
    assert (log.log_start_offset, log.log_end_offset) == (3, 3)
    assert bench.append(log, [b"y"]).base_offset == 3
    log.check()


def test_retention_by_size(bench, clock):
    log = bench.open(segment_bytes=200, retention_bytes=300)
    for _ in range(5):
        bench.append(log, [b"x" * 60])
    size = log.segments[0].size
    log.delete_old_segments(clock.now_ms())
    assert log.size_bytes == 3 * size


def test_retention_never_passes_the_high_watermark(bench, clock):
    log = bench.open(segment_bytes=200, retention_ms=0)
    for _ in range(5):
        bench.append(log, [b"x" * 60], commit=False)
    log.high_watermark = 2
    clock.advance(10)
    log.delete_old_segments(clock.now_ms())
    assert log.log_start_offset == 2


def test_deleted_records_are_gone_and_their_segments_follow(bench, clock):
    log = bench.open(segment_bytes=200)
    for _ in range(5):
        bench.append(log, [b"x" * 60])
    assert log.delete_records(3) == 3
    assert log.delete_records(1) == 3
    with pytest.raises(OffsetOutOfRange):
        log.read(2, 100, up_to=5)
    with pytest.raises(OffsetOutOfRange):
        log.delete_records(6)
    assert [base for base, _ in log.delete_old_segments(clock.now_ms())] == [0, 1, 2]
    assert log.delete_records(-1) == 5
    assert log.read(5, 100, up_to=5) is None


def test_compacted_logs_are_not_deleted_by_age(bench, clock):
    log = bench.open(segment_bytes=200, retention_ms=0, cleanup_policy=("compact",))
    for _ in range(3):
        bench.append(log, [b"x" * 60])
    clock.advance(1000)
    assert log.delete_old_segments(clock.now_ms()) == []


# ---------------------------------------------------------------------- truncation


@pytest.mark.parametrize("offset", [0, 1, 3, 4, 9, 10, 11])
def test_truncation_drops_everything_from_an_offset(bench, offset):
    log = bench.open(segment_bytes=400)
    for i in range(10):
        bench.append(log, [b"%d" % i * 30], epoch=i // 3)
    log.truncate_to(offset)
    log.check()
    kept = min(offset, 10)
    assert log.log_end_offset == kept
    assert len(bench.values(log)) == kept
    assert all(start < kept for _, start in log.epochs.entries())
    assert bench.append(log, [b"new"], epoch=9).base_offset == kept
    assert bench.values(log)[-1] == b"new"


# ---------------------------------------------------------------------- failures


@pytest.mark.parametrize("fault", [Fault.NO_SPACE, Fault.SHORT])
def test_a_full_disk_refuses_the_append_and_the_next_one_works(bench, fault):
    files = FaultyFiles(bench.root)
    log = bench.open(files=files)
    bench.append(log, [b"a"])
    files.plan = on("write", ".log", fault)
    with pytest.raises(KafkaStorageError, match="No space left"):
        bench.append(log, [b"b" * 1000])
    assert log.log_end_offset == 1
    assert os.path.getsize(log.segments[0].path) == log.size_bytes
    files.plan = None
    assert bench.append(log, [b"c"]).base_offset == 1
    assert bench.values(log) == [b"a", b"c"]
    assert log.failure is None


def test_a_broken_disk_takes_the_log_offline(bench):
    files = FaultyFiles(bench.root)
    log = bench.open(files=files)
    told = []
    log.on_failure = lambda log, error: told.append(error)
    bench.append(log, [b"a"])
    files.plan = on("write", ".log", Fault.IO_ERROR)
    with pytest.raises(KafkaStorageError):
        bench.append(log, [b"b"])
    files.plan = None
    for action in (lambda: bench.append(log, [b"c"]), lambda: log.read(0, 10, up_to=1)):
        with pytest.raises(KafkaStorageError):
            action()
    assert len(told) == 1


def test_a_failed_roll_leaves_the_log_as_it_was(bench):
    files = FaultyFiles(bench.root)
    log = bench.open(files=files, segment_bytes=200)
    bench.append(log, [b"a" * 60])
    start = len(files.points)
    for number in range(20):
        files.plan = at(start + number, Fault.NO_SPACE)
        start = len(files.points) - number
        try:
            bench.append(log, [b"b" * 60])
            break
        except KafkaStorageError:
            assert log.log_end_offset == 1
    log.check()
    files.plan = None
    bench.append(log, [b"c" * 60])
    assert bench.values(log)[0] == b"a" * 60
    assert bench.values(log)[-1] == b"c" * 60


def test_a_marker_that_a_broken_disk_cannot_index_takes_the_log_offline(bench):
    files = FaultyFiles(bench.root)
    log = bench.open(files=files)
    bench.append(log, [b"a"], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    files.plan = on("write", ".txnindex", Fault.IO_ERROR)
    with pytest.raises(KafkaStorageError):
        bench.marker(log, 7, commit=False)
    assert log.failure
    assert bench.open().aborted_transactions(0, 2) == [(7, 0)]


@pytest.mark.parametrize("action", ["create", "write"])
@pytest.mark.parametrize("then", ["kill", "stop", "abort", "cut"])
def test_a_marker_that_a_full_disk_cannot_index_is_indexed_later(bench, action, then):
    """A transaction is aborted where there is no room: the marker may still fit, its entry in the index not."""

    def write(sequence):
        bench.append(
            log, [b"a"], producer_id=7, producer_epoch=0, base_sequence=sequence, transactional=True
        )

    files = FaultyFiles(bench.root)
    log = bench.open(files=files)
    write(0)
    files.plan = on(action, ".txnindex", Fault.NO_SPACE)
    bench.marker(log, 7, commit=False)
    assert log.failure is None
    assert log.aborted_transactions(0, 2) == [(7, 0)]
    with pytest.raises(KafkaStorageError, match="No space left"):
        log.roll()
    write(1)
    bench.marker(log, 7, commit=False)
    told = [(7, 0), (7, 2)]
    assert log.aborted_transactions(0, 4) == told
    files.plan = None
    if then == "abort":
        write(2)
        bench.marker(log, 7, commit=False)
        told.append((7, 4))
    elif then == "cut":
        log.truncate_to(2)
        told.pop()
    if then == "kill":
        log = bench.open(files=files.kill())
    else:
        log = bench.reopen_clean(log)
    assert log.aborted_transactions(0, log.log_end_offset) == told


# ---------------------------------------------------------------------- flushing


def test_flushes_without_readers_leave_nothing_behind(bench):
    log = bench.open(files=FaultyFiles(bench.root))
    for _ in range(100):
        bench.append(log, [b"a"])
        log.flush()
    assert len(log.hints) <= 64


async def test_concurrent_flushes_share_one_sync(bench):
    files = FaultyFiles(bench.root)
    log = bench.open(files=files, flush_messages=1)
    bench.append(log, [b"a"])
    assert log.flush_due()
    flusher = Flusher()
    await asyncio.gather(*(flusher.flush(log, 1) for _ in range(10)))
    assert (
        sum(point.action == "sync" and point.path.endswith(".log") for point in files.points) == 1
    )
    assert log.recovery_point == 1
    assert not log.flush_due()


async def test_a_failed_sync_takes_the_log_offline(bench):
    files = FaultyFiles(bench.root)
    log = bench.open(files=files)
    bench.append(log, [b"a"])
    files.plan = on("sync", ".log", Fault.IO_ERROR)
    with pytest.raises(KafkaStorageError):
        await Flusher().flush(log, 1)
    with pytest.raises(KafkaStorageError):
        bench.append(log, [b"a"])


async def test_a_roll_syncs_the_closed_segment_in_the_background(bench):
    log = bench.open(segment_bytes=200)
    flusher = Flusher()
    log.on_roll = flusher.flush_soon
    for _ in range(3):
        bench.append(log, [b"x" * 60])
    await flusher.settle()
    assert log.recovery_point >= 2
    assert [each.synced for each in log.segments] == [True, True, False]


def test_the_largest_timestamp_is_one_that_can_be_read(bench):
    log = bench.open()
    for timestamp in (900, 500, 700, 800):
        bench.append(log, [b"a", b"b"], timestamp=timestamp)
    assert log.max_timestamp()[:2] == (900, 0)
    log.delete_records(1)
    assert log.max_timestamp()[:2] == (900, 1)
    log.delete_records(2)
    assert log.max_timestamp()[:2] == (800, 6)
    assert log.max_timestamp(up_to=6)[:2] == (700, 4)
    assert log.max_timestamp(up_to=2) is None
