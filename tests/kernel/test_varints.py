import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.errors import ProtocolError


@pytest.mark.parametrize(
    ("value", "encoded"),
    [(0, "00"), (127, "7f"), (128, "8001"), (300, "ac02"), (0xFFFFFFFF, "ffffffff0f")],
)
def test_plain_numbers(kernel, value, encoded):
    out = bytearray()
    kernel.write_uvarint(out, value)
    assert out.hex() == encoded
    assert kernel.read_uvarint(out, 0) == (value, len(out))


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (-64, "7f"),
        (64, "8001"),
        (2**63 - 1, "feffffffffffffffff01"),
        (-(2**63), "ffffffffffffffffff01"),
    ],
)
def test_zig_zag_numbers(kernel, value, encoded):
    out = bytearray()
    kernel.write_varint(out, value)
    assert out.hex() == encoded
    assert kernel.read_varint(out, 0) == (value, len(out))


@given(value=st.integers(0, 2**32 - 1), before=st.binary(max_size=5), after=st.binary(max_size=5))
def test_plain_numbers_come_back(kernel, value, before, after):
    out = bytearray(before)
    kernel.write_uvarint(out, value)
    end = len(out)
    assert kernel.read_uvarint(memoryview(bytes(out) + after), len(before)) == (value, end)


@given(value=st.integers(-(2**63), 2**63 - 1))
def test_zig_zag_numbers_come_back(kernel, value):
    out = bytearray()
    kernel.write_varint(out, value)
    assert kernel.read_varint(out, 0) == (value, len(out))


@pytest.mark.parametrize(
    "encoded", ["", "80", "ffffffff", "ffffffff10", "ffffffff8f00", "ffffffffffffffffff"]
)
def test_bad_plain_numbers_are_refused(kernel, encoded):
    with pytest.raises(ProtocolError):
        kernel.read_uvarint(bytes.fromhex(encoded), 0)


@pytest.mark.parametrize(
    "encoded", ["", "80", "ffffffffffffffffff", "ffffffffffffffffff02", "ff" * 20]
)
def test_bad_zig_zag_numbers_are_refused(kernel, encoded):
    with pytest.raises(ProtocolError):
        kernel.read_varint(bytes.fromhex(encoded), 0)


@pytest.mark.parametrize("pos", [-1, 1, 2, 1 << 40])
def test_positions_outside_are_refused(kernel, pos):
    with pytest.raises(ProtocolError):
        kernel.read_uvarint(b"\0", pos)
    with pytest.raises(ProtocolError):
        kernel.read_varint(b"\0", pos)


def test_numbers_that_do_not_fit_are_not_written(kernel):
    for value in (-1, 2**32):
        with pytest.raises(ValueError):
            kernel.write_uvarint(bytearray(), value)
    for value in (2**63, -(2**63) - 1):
        with pytest.raises(ValueError):
            kernel.write_varint(bytearray(), value)
