"""Whether a crash can have taken what was written: by the machine's boot id."""

from tidelog.broker.boot import Boot, this_boot
from tidelog.storage.files import LocalFiles


def test_the_machine_has_a_boot_id_that_stays():
    assert this_boot() == this_boot()


def test_a_note_of_the_same_boot_is_recognised(tmp_path):
    files = LocalFiles()
    boot = Boot(files, [str(tmp_path)], "monday")
    assert not boot.is_the_same()
    boot.note()
    assert boot.is_the_same()
    assert not Boot(files, [str(tmp_path)], "tuesday").is_the_same()


def test_every_directory_counts(tmp_path):
    files = LocalFiles()
    first, second = tmp_path / "1", tmp_path / "2"
    first.mkdir()
    second.mkdir()
    Boot(files, [str(first)], "monday").note()
    assert not Boot(files, [str(first), str(second)], "monday").is_the_same()


def test_without_a_boot_id_nothing_is_known(tmp_path):
    boot = Boot(LocalFiles(), [str(tmp_path)], "")
    boot.note()
    assert not boot.is_the_same()


def test_a_directory_that_cannot_be_written_counts_as_changed(tmp_path):
    boot = Boot(LocalFiles(), [str(tmp_path / "missing")], "monday")
    boot.note()
    assert not boot.is_the_same()
