import google_crc32c as oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),  # RFC 3720, B.4
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
    ],
)
def test_known_values(kernel, data, expected):
    assert kernel.crc32c(data) == expected
    assert kernel.crc32c(bytearray(data)) == expected
    assert kernel.crc32c(memoryview(data)) == expected
    assert kernel.checksum.crc32c_by_tables(data) == expected


@pytest.mark.parametrize("size", [1, 7, 8, 9, 3071, 3072, 3073, 6144, 9999, 100_003])
def test_every_path_agrees_with_the_wheel(kernel, size):
    data = bytes((i * i + size) & 255 for i in range(size))
    assert kernel.crc32c(data) == oracle.value(data)
    assert kernel.checksum.crc32c_by_tables(data) == oracle.value(data)


@given(data=st.binary(max_size=5000), cut=st.integers(0, 5000))
def test_it_can_be_continued(kernel, data, cut):
    assert kernel.crc32c(data[cut:], kernel.crc32c(data[:cut])) == oracle.value(data)
