"""Logs with messages of Kafka before 0.11: refused, and left as they are."""

import os
import struct
import zlib

import pytest

from tidelog.errors import StartError


@pytest.mark.parametrize("magic", [0, 1])
def test_old_messages_are_not_cut_off(bench, magic):
    checked = struct.pack(">BB", magic, 0) + bytes(30)
    data = struct.pack(">qiI", 0, len(checked) + 4, zlib.crc32(checked)) + checked
    os.makedirs(bench.directory)
    path = os.path.join(bench.directory, f"{0:020d}.log")
    with open(path, "wb") as file:
        file.write(data * 3)
    with pytest.raises(StartError, match=r"before 0\.11"):
        bench.open()
    assert os.path.getsize(path) == 3 * len(data)


def test_a_damaged_first_batch_is_still_cut(bench):
    log = bench.open()
    bench.append(log, [b"a"])
    log.close(clean=False)
    with open(log.segments[0].path, "r+b") as file:
        file.seek(30)
        file.write(b"\xff")
    assert bench.open().log_end_offset == 0


def test_a_hole_in_place_of_the_first_batch_is_still_cut(bench):
    log = bench.open()
    bench.append(log, [b"a"])
    bench.append(log, [b"b"])
    log.close(clean=False)
    with open(log.segments[0].path, "r+b") as file:
        file.write(bytes(60))
    assert bench.open().log_end_offset == 0
