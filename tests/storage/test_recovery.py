"""Loading a log after a clean stop, a kill and a damaged disk."""

import logging
import os
import struct
from pathlib import Path

import pytest

from tidelog.errors import CorruptMessage
from tidelog.records.builder import build_batch
from tidelog.storage import recovery
from tidelog.storage.files import LocalFiles
from tidelog.storage.segment import file_name


def path(bench, base=0, suffix=".log"):
    return os.path.join(bench.directory, file_name(base, suffix))


def fill(bench, log, count=20):
    for i in range(count):
        bench.append(log, [b"%d" % i * 20], producer_id=7, producer_epoch=0, base_sequence=i)


def warnings(caplog):
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]


def test_a_clean_stop_leaves_nothing_to_scan(bench, monkeypatch, caplog):
    log = bench.open(segment_bytes=1000)
    fill(bench, log)
    monkeypatch.setattr(recovery, "scan", None)
    again = bench.reopen_clean(log, segment_bytes=1000)
    assert (again.log_end_offset, again.recovery_point) == (20, 20)
    assert again.producers.by_id[7].last_sequence == 19
    assert len(bench.values(again)) == 20
    assert not warnings(caplog)


def test_a_clean_start_opens_no_file(bench):
    log = bench.open(segment_bytes=1000)
    fill(bench, log)
    again = bench.reopen_clean(log)
    assert all(each._file is None for each in again.segments)


@pytest.mark.parametrize("cut", [1, 11, 12, 30, 61, 90])
def test_a_torn_tail_is_cut_with_one_line(bench, caplog, cut):
    log = bench.open()
    fill(bench, log, 5)
    size = os.path.getsize(path(bench))
    step = size // 5
    os.truncate(path(bench), size - cut)
    again = bench.open()
    assert again.log_end_offset == 4
    [line] = warnings(caplog)
    assert path(bench) in line
    assert "offset 4" in line
    assert f"{os.path.getsize(path(bench)) + step - cut - again.size_bytes} bytes" in line
    assert os.path.getsize(path(bench)) == again.size_bytes
    assert bench.append(again, [b"x"]).base_offset == 4
    assert len(bench.values(again)) == 5


def test_a_corrupt_batch_ends_the_log_and_drops_the_segments_behind(bench, caplog):
    log = bench.open(segment_bytes=500)
    fill(bench, log)
    third = log.segments[2].base_offset
    with open(path(bench, third), "r+b") as file:
        file.seek(80)
        file.write(b"\xff\xff")
    again = bench.open(segment_bytes=500)
    assert again.log_end_offset == third
    lines = warnings(caplog)
    assert len(lines) == 2
    assert "cut at offset" in lines[0]
    assert "segments behind it" in lines[1]
    assert len(bench.values(again)) == third
    assert again.producers.by_id[7].last_sequence == third - 1


def test_segments_below_the_recovery_point_are_not_scanned(bench, monkeypatch):
    log = bench.open(segment_bytes=500)
    fill(bench, log)
    log.flush()
    fill_again = log.segments[3].base_offset
    scanned = []
    original = recovery.scan
    monkeypatch.setattr(
        recovery,
        "scan",
        lambda segment, tail: scanned.append(segment.base_offset) or original(segment, tail),
    )
    again = bench.open(segment_bytes=500, recovery_point=fill_again)
    assert scanned == [each.base_offset for each in log.segments[3:]]
    assert again.log_end_offset == 20
    assert again.recovery_point == fill_again
    assert again.producers.by_id[7].last_sequence == 19


def test_missing_and_wrong_indexes_are_rebuilt(bench, caplog):
    log = bench.open(segment_bytes=2000, index_interval_bytes=0)
    fill(bench, log, 40)
    log.close()
    before = {each.name: each.read_bytes() for each in Path(bench.directory).iterdir()}
    first, second = log.segments[0].base_offset, log.segments[1].base_offset
    os.unlink(path(bench, first, ".index"))
    with open(path(bench, second, ".index"), "ab") as file:
        file.write(struct.pack(">ii", 5, 1 << 30))
    again = bench.open(segment_bytes=2000, index_interval_bytes=0, clean=True, recovery_point=40)
    assert len(bench.values(again)) == 40
    assert len(warnings(caplog)) == 2
    for name in (file_name(first, ".index"), file_name(second, ".index")):
        assert Path(bench.directory, name).read_bytes() == before[name]


def test_kafkas_preallocated_index_is_rebuilt(bench):
    log = bench.open(index_interval_bytes=0)
    fill(bench, log, 10)
    log.close()
    for suffix, entry in ((".index", 8), (".timeindex", 12)):
        os.truncate(path(bench, 0, suffix), entry * 1000)
    again = bench.open(clean=True, recovery_point=10)
    assert len(bench.values(again, start=5)) == 5


def test_a_lost_snapshot_is_made_good_from_the_log(bench):
    log = bench.open(segment_bytes=500)
    fill(bench, log)
    log.flush()
    for name in os.listdir(bench.directory):
        if name.endswith(".snapshot"):
            with open(os.path.join(bench.directory, name), "r+b") as file:
                file.write(b"\x00\x09")
    again = bench.open(segment_bytes=500, recovery_point=20)
    assert again.producers.by_id[7].last_sequence == 19


def test_leader_epochs_come_back_from_the_log(bench):
    log = bench.open()
    for epoch in (0, 0, 2, 5):
        bench.append(log, [b"x"], epoch=epoch)
    log.flush()
    for damage in (os.unlink, lambda path: Path(path).write_text("rubbish")):
        damage(os.path.join(bench.directory, "leader-epoch-checkpoint"))
        assert bench.open().epochs.entries() == [(0, 0), (2, 2), (5, 3)]


def test_the_log_start_is_respected(bench):
    log = bench.open()
    fill(bench, log, 10)
    again = bench.open(log_start_offset=6)
    assert (again.log_start_offset, again.log_end_offset) == (6, 10)
    assert len(bench.values(again)) == 4


def test_a_log_that_ends_before_its_start_is_emptied(bench):
    log = bench.open()
    fill(bench, log, 10)
    again = bench.open(log_start_offset=50)
    assert (again.log_start_offset, again.log_end_offset) == (50, 50)
    assert bench.append(again, [b"x"]).base_offset == 50


def test_a_batch_larger_than_a_chunk_is_recovered(bench):
    log = bench.open()
    bench.append(log, [b"small"])
    bench.append(log, [b"x" * 3_000_000])
    bench.append(log, [b"small"])
    again = bench.open()
    assert [len(each) for each in bench.values(again)] == [5, 3_000_000, 5]


def test_the_transaction_index_is_rebuilt(bench):
    log = bench.open()
    bench.append(log, [b"a"], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    bench.marker(log, 7, commit=False)
    os.unlink(path(bench, 0, ".txnindex"))
    assert bench.open().aborted_transactions(0, 2) == [(7, 0)]


# ---------------------------------------------------------------------- interrupted swaps


def cleaned(bench, base, offsets, suffix):
    """A cleaned segment as the worker leaves it."""
    data = b"".join(
        bytes(build_batch([(1, b"k", b"clean", ())], base_offset=each, leader_epoch=0))
        for each in offsets
    )
    with open(path(bench, base, ".log" + suffix), "wb") as file:
        file.write(data)


def three_segments(bench):
    log = bench.open(segment_bytes=200)
    for i in range(3):
        bench.append(log, [b"%d" % i * 60])
    log.flush()
    return log


def test_cleaned_segments_take_the_place_of_old_ones(bench, clock):
    log = three_segments(bench)
    region = log.read(0, 1000, up_to=3)
    cleaned(bench, 0, [1], ".cleaned")
    log.replace_segments([0], [0, 1])
    log.check()
    assert bench.values(log) == [b"clean", b"2" * 60]
    assert region.read()
    clock.advance(60_000)
    for each in log.files_to_remove(clock.now_ms()):
        LocalFiles().remove(each)
    assert not [name for name in os.listdir(bench.directory) if name.endswith(".deleted")]
    assert bench.values(bench.open(recovery_point=3)) == [b"clean", b"2" * 60]


def test_cleaned_files_are_dropped_on_start(bench):
    three_segments(bench)
    cleaned(bench, 0, [1], ".cleaned")
    assert len(bench.values(bench.open(recovery_point=3))) == 3
    assert not os.path.exists(path(bench, 0, ".log.cleaned"))


def test_a_swap_is_finished_on_start(bench):
    three_segments(bench)
    cleaned(bench, 0, [1], ".swap")
    assert bench.values(bench.open(recovery_point=3)) == [b"clean", b"2" * 60]


def test_a_swap_beside_a_cleaned_file_is_undone(bench):
    three_segments(bench)
    cleaned(bench, 1, [1], ".swap")
    cleaned(bench, 0, [0], ".cleaned")
    assert bench.values(bench.open(recovery_point=3)) == [b"0" * 60, b"1" * 60, b"2" * 60]


def test_an_index_entry_that_points_between_batches_is_noticed(bench, caplog):
    log = bench.open(segment_bytes=4000, index_interval_bytes=100)
    fill(bench, log, 60)
    bench.reopen_clean(log)
    index = Path(path(bench, suffix=".index"))
    entries = bytearray(index.read_bytes())
    for at in range(4, len(entries), 8):
        (position,) = struct.unpack_from(">i", entries, at)
        struct.pack_into(">i", entries, at, position + 7)
    index.write_bytes(entries)
    again = bench.open(segment_bytes=4000, clean=True, recovery_point=60)
    assert len(bench.values(again)) == 60
    assert again.failure is None
    assert any("rebuilding the indexes" in each for each in warnings(caplog))


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("epochs", ["0\n2\n3 0\n1 10\n", "0\n2\n0 10\n1 0\n", "nonsense"])
def test_a_damaged_epoch_file_is_made_good_from_the_log(bench, caplog, epochs, clean):
    log = bench.open()
    for epoch in range(4):
        bench.append(log, [b"v"] * 5, epoch=epoch)
    expected = log.epochs.entries()
    bench.reopen_clean(log)
    Path(bench.directory, "leader-epoch-checkpoint").write_text(epochs)
    again = bench.open(clean=clean, recovery_point=20)
    assert again.epochs.entries() == expected
    assert again.log_end_offset == 20


def test_a_damaged_snapshot_does_not_forget_producers_after_a_clean_stop(bench):
    log = bench.open()
    fill(bench, log, 5)
    bench.reopen_clean(log)
    Path(path(bench, 5, ".snapshot")).write_bytes(b"nonsense")
    again = bench.open(clean=True, recovery_point=5)
    assert again.producers.by_id[7].last_sequence == 4


def test_damage_behind_a_clean_stop_is_an_error_of_the_reader_alone(bench):
    log = bench.open(segment_bytes=1000)
    fill(bench, log)
    again = bench.reopen_clean(log, segment_bytes=1000)
    Path(path(bench)).write_bytes(b"\xff" * 900)
    last = again.segments[-1].base_offset
    with pytest.raises(CorruptMessage):
        again.read(0, 1000, up_to=20)
    assert again.failure is None
    assert again.read(last, 10_000, up_to=20) is not None


def test_a_damaged_swap_is_dropped_while_the_old_segment_is_there(bench, caplog):
    log = bench.open(segment_bytes=1000)
    fill(bench, log)
    bench.reopen_clean(log)
    Path(path(bench, suffix=".log.swap")).write_bytes(b"\xfe" * 300)
    again = bench.open()
    assert len(bench.values(again)) == 20
    assert not os.path.exists(path(bench, suffix=".log.swap"))
    assert any("is dropped" in each for each in warnings(caplog))
