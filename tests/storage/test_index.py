"""Indexes: Kafka's bytes, look-ups in the file and in memory, truncation."""

import struct

import pytest

from tidelog.storage.checkpoints import MalformedCheckpoint, read_offsets
from tidelog.storage.epochs import LeaderEpochs
from tidelog.storage.files import LocalFiles
from tidelog.storage.index import CorruptIndex, OffsetIndex, TimeIndex


@pytest.fixture
def offset_index(tmp_path):
    return OffsetIndex(LocalFiles(), str(tmp_path / "1000.index"), 1000)


@pytest.mark.parametrize("saved", [0, 1, 50, 100])
def test_look_up_finds_the_floor_in_file_and_memory(offset_index, saved):
    for i in range(100):
        if i == saved:
            offset_index.save()
        offset_index.append(1000 + 10 * i + 9, 100 * (i + 1))
    for offset in range(1000, 2009):
        below = (offset - 1009) // 10
        assert offset_index.look_up(offset) == (100 * (below + 1) if offset >= 1009 else 0)
    for position in range(0, 10_200, 7):
        assert offset_index.before_position(position) == min(position // 100 * 100, 10_000)


def test_entries_are_kafkas_bytes(offset_index, tmp_path):
    offset_index.append(1007, 4200)
    offset_index.save()
    assert (tmp_path / "1000.index").read_bytes() == struct.pack(">ii", 7, 4200)
    times = TimeIndex(LocalFiles(), str(tmp_path / "1000.timeindex"), 1000)
    times.append(1_700_000_000_000, 1007)
    times.append(1_600_000_000_000, 1009)
    times.save()
    expected = struct.pack(">qi", 1_700_000_000_000, 7)
    assert (tmp_path / "1000.timeindex").read_bytes() == expected


@pytest.mark.parametrize("saved", [0, 5, 10])
@pytest.mark.parametrize("keep", [0, 3, 5, 7, 10])
def test_truncation(offset_index, saved, keep):
    for i in range(10):
        if i == saved:
            offset_index.save()
        offset_index.append(1000 + i, 100 * (i + 1))
    offset_index.truncate_to(1000 + keep)
    assert offset_index.entries == keep
    assert offset_index.look_up(5000) == 100 * keep
    offset_index.append(1000 + keep, 9999)
    offset_index.save()
    assert offset_index.look_up(5000) == 9999


def test_an_entry_past_the_end_of_the_log_is_noticed(offset_index):
    offset_index.append(1001, 500)
    offset_index.check(501)
    with pytest.raises(CorruptIndex):
        offset_index.check(500)


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [
        (0, (0, 10)),
        (1, (1, 20)),
        (2, (1, 20)),
        (5, (5, 30)),
        (6, (-1, -1)),
        (-1, (-1, -1)),
    ],
)
def test_an_epoch_ends_where_the_next_begins(tmp_path, epoch, expected):
    epochs = LeaderEpochs(LocalFiles(), str(tmp_path))
    for each, start in ((0, 0), (1, 10), (5, 20)):
        epochs.assign(each, start)
    assert epochs.end_offset_for(epoch, 30) == expected
    again = LeaderEpochs(LocalFiles(), str(tmp_path))
    again.load()
    assert again.entries() == [(0, 0), (1, 10), (5, 20)]


def test_epochs_are_cut_at_both_ends(tmp_path):
    epochs = LeaderEpochs(LocalFiles(), str(tmp_path))
    for each, start in ((0, 0), (1, 10), (5, 20)):
        epochs.assign(each, start)
    epochs.truncate_from_start(12)
    epochs.truncate_from_end(20)
    assert epochs.entries() == [(1, 12)]
    assert (tmp_path / "leader-epoch-checkpoint").read_text() == "0\n1\n1 12\n"


@pytest.mark.parametrize(
    "text", ["", "0", "1\n0\n", "0\n1\n", "0\n1\na b c\n", "0\n1\na 1\n", "\0\0\0"]
)
def test_a_malformed_checkpoint_is_told_apart_from_none(tmp_path, text):
    path = tmp_path / "checkpoint"
    assert read_offsets(LocalFiles(), str(path)) == {}
    path.write_text(text)
    with pytest.raises(MalformedCheckpoint):
        read_offsets(LocalFiles(), str(path))
