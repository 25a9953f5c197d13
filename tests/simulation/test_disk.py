"""The simulated disk: what a power cut leaves."""

from random import Random

import pytest

from tidelog.storage.files import AlreadyLocked
from tidelog.testing.simulation.disk import SimDisk


@pytest.fixture
def disk() -> SimDisk:
    disk = SimDisk(Random(1))
    disk.make_directory("/d")
    disk.sync_directory("/")
    disk.sync_directory("/d")
    return disk


def test_a_killed_process_loses_nothing(disk: SimDisk):
    disk.open("/d/f", create=True).pwrite(b"hello", 0)
    disk.process_died()
    assert disk.read("/d/f") == b"hello"


def test_what_is_synced_survives_a_power_cut(disk: SimDisk):
    file = disk.open("/d/f", create=True)
    file.pwrite(b"hello", 0)
    file.datasync()
    disk.sync_directory("/d")
    file.pwrite(b"HELLO, world", 0)
    disk.cut_power()
    found = disk.read("/d/f")
    assert found[:5] in (b"hello", b"HELLO") or found.startswith(b"HELLO"[: len(found)])
    assert len(found) >= 5


def test_a_power_cut_forgets_what_was_not_synced_at_last():
    lost = kept = torn = 0
    for seed in range(60):
        disk = SimDisk(Random(seed))
        disk.make_directory("/d")
        disk.sync_directory("/")
        file = disk.open("/d/f", create=True)
        disk.sync_directory("/d")
        file.pwrite(b"a" * 100, 0)
        disk.cut_power()
        size = disk.size("/d/f")
        lost += size == 0
        kept += size == 100
        torn += 0 < size < 100
    assert min(lost, kept, torn) > 0


def test_a_file_whose_directory_was_not_synced_may_be_gone():
    found = set()
    for seed in range(30):
        disk = SimDisk(Random(seed))
        disk.make_directory("/d")
        disk.sync_directory("/")
        disk.open("/d/f", create=True).datasync()
        disk.cut_power()
        found.add(disk.exists("/d/f"))
    assert found == {True, False}


def test_a_rename_is_whole(disk: SimDisk):
    disk.replace("/d/f", b"old")
    disk.replace("/d/f", b"new", sync=False)
    disk.cut_power()
    assert disk.read("/d/f")[:3] in (b"old", b"new", b"", b"n", b"ne")
    assert disk.exists("/d/f")


def test_a_lock_is_free_when_its_holder_died(disk: SimDisk):
    disk.lock("/d/.lock")
    with pytest.raises(AlreadyLocked):
        disk.lock("/d/.lock")
    disk.process_died()
    disk.lock("/d/.lock").release()
    disk.lock("/d/.lock")


def test_a_map_shows_what_is_written_later(disk: SimDisk):
    file = disk.open("/d/f", create=True)
    file.pwrite(b"aaaa", 0)
    shown = file.map()
    file.pwrite(b"bb", 1)
    assert shown[:] == b"abba"


def test_missing_files_are_reported_as_the_system_does(disk: SimDisk):
    with pytest.raises(FileNotFoundError):
        disk.open("/d/none")
    with pytest.raises(FileNotFoundError):
        disk.sizes("/none")
    disk.remove("/d/none")
    disk.remove_tree("/d/none")
