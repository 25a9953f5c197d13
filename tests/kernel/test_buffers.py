"""What may be passed as bytes, and that it is let go again."""

import array
import gc
import sys

import pytest

from tidelog.errors import CorruptMessage, ProtocolError
from tidelog.records import build_batch

BATCH = bytes(build_batch([(1000, b"k", b"v", ())]))


@pytest.mark.parametrize(
    "kind", [bytes, bytearray, memoryview, lambda data: memoryview(b"--" + data)[2:]]
)
def test_any_contiguous_bytes_do(kernel, kind):
    assert kernel.check_batch(kind(BATCH), 0, len(BATCH)) == kernel.check_batch(
        BATCH, 0, len(BATCH)
    )


def test_wider_items_count_as_their_bytes(kernel):
    wide = array.array("i", [1, 2, 3])
    assert kernel.crc32c(wide) == kernel.crc32c(wide.tobytes())
    assert kernel.crc32c(memoryview(wide)) == kernel.crc32c(wide.tobytes())


@pytest.mark.parametrize("wrong", [memoryview(bytes(200))[::2], "text", None, 7])
def test_what_is_no_row_of_bytes_is_a_type_error(kernel, wrong):
    with pytest.raises(TypeError):
        kernel.crc32c(wrong)
    with pytest.raises(TypeError):
        kernel.check_batch(wrong, 0, 100)


@pytest.mark.parametrize("empty", [b"", bytearray(), memoryview(b""), memoryview(b"abc")[3:]])
def test_nothing_is_read_from_an_empty_buffer(kernel, empty):
    assert kernel.crc32c(empty) == 0
    assert kernel.scan_batches(empty, 0, 0) == ([], 0, "")
    with pytest.raises(CorruptMessage):
        kernel.check_batch(empty, 0, 61)
    with pytest.raises(ProtocolError):
        kernel.decode_produce(empty, 0, 9)


@pytest.mark.parametrize("frozen", [BATCH, memoryview(BATCH)])
def test_frozen_bytes_are_not_stamped(kernel, frozen):
    with pytest.raises(TypeError):
        kernel.stamp_batch(frozen, 0, 5, 1)


def test_a_buffer_is_let_go_whatever_happens(kernel):
    data = bytearray(BATCH)
    references = sys.getrefcount(data)
    kernel.check_batch(data, 0, len(data))
    kernel.stamp_batch(data, 0, 5, 1)
    with pytest.raises(CorruptMessage):
        kernel.check_batch(data, 0, 30)
    gc.collect()
    data.append(0)  # a BufferError, were it still held
    assert sys.getrefcount(data) == references
