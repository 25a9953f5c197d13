"""Unsigned variable-length integers: seven bits a byte, lowest first, the high bit says that more follow."""

from tidelog.errors import ProtocolError

_MOST_BYTES = 5  # of a 32-bit value


def read_uvarint(buf: bytes | bytearray | memoryview, pos: int) -> tuple[int, int]:
    """Read an unsigned varint at `pos`; return it and the position after it."""
    value = shift = 0
    for at in range(pos, min(pos + _MOST_BYTES, len(buf))):
        byte = buf[at]
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at + 1
        shift += 7
    raise ProtocolError(f"no end of a varint at {pos}")


def write_uvarint(out: bytearray, value: int) -> None:
    """Append `value` to `out`."""
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
