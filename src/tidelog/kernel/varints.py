"""Variable-length numbers: seven bits a byte, lowest first, the high bit set on all but the last byte.

Lengths and tags of the flexible protocol are plain and at most 32 bits; the fields of a record are zig-zag
(sign in the lowest bit) and at most 64.
"""

import tidelog.kernel.primitives as primitives
from tidelog.errors import ProtocolError
from tidelog.kernel.primitives import Buffer


def read_uvarint(buf: Buffer, pos: int) -> tuple[int, int]:
    """The plain number of at most 32 bits at `pos`, and the position after it."""
    view = primitives.view(buf)
    return uvarint(primitives.start(view), pos, primitives.length(view))


def read_varint(buf: Buffer, pos: int) -> tuple[int, int]:
    """The zig-zag number of at most 64 bits at `pos`, and the position after it."""
    view = primitives.view(buf)
    return varint(primitives.start(view), pos, primitives.length(view))


def write_uvarint(out: bytearray, value: int) -> None:
    """Append a plain number of at most 32 bits."""
    if not 0 <= value <= 0xFFFFFFFF:
        raise ValueError(f"{value} does not fit an unsigned varint of 32 bits")
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)


def write_varint(out: bytearray, value: int) -> None:
    """Append a zig-zag number of at most 64 bits."""
    if not -0x8000000000000000 <= value <= 0x7FFFFFFFFFFFFFFF:
        raise ValueError(f"{value} does not fit a varint of 64 bits")
    raw = value << 1 if value >= 0 else ~(value << 1)
    while raw > 127:
        out.append(raw & 127 | 128)
        raw >>= 7
    out.append(raw)


def uvarint(data: primitives.Data, pos: int, end: int) -> tuple[int, int]:
    """As `read_uvarint`, over `data` that ends at `end`."""
    if pos < 0 or pos >= end:
        raise ProtocolError(f"a varint at {pos} lies outside of {end} bytes")
    byte = data[pos]
    pos += 1
    if byte < 128:
        return byte, pos
    value = byte & 127
    shift = 7
    while True:
        if pos >= end:
            raise ProtocolError(f"a varint is cut off at {pos}")
        byte = data[pos]
        pos += 1
        if shift == 28 and byte > 15:
            raise ProtocolError(f"the varint that ends at {pos} has more than 32 bits")
        value |= (byte & 127) << shift
        if byte < 128:
            return value, pos
        shift += 7


def varint(data: primitives.Data, pos: int, end: int) -> tuple[int, int]:
    """As `read_varint`, over `data` that ends at `end`."""
    if pos < 0 or pos >= end:
        raise ProtocolError(f"a varint at {pos} lies outside of {end} bytes")
    raw = data[pos]
    pos += 1
    if raw > 127:
        raw &= 127
        shift = 7
        byte = 128
        while byte > 127:
            if pos >= end:
                raise ProtocolError(f"a varint is cut off at {pos}")
            byte = data[pos]
            pos += 1
            if shift == 63 and byte > 1:
                raise ProtocolError(f"the varint that ends at {pos} has more than 64 bits")
            raw |= (byte & 127) << shift
            shift += 7
    return (raw >> 1) ^ -(raw & 1), pos


def zigzag(value: int) -> int:
    """The zig-zag form of a signed number of 64 bits."""
    return value << 1 if value >= 0 else ~(value << 1)


def size_of(raw: int) -> int:
    """How many bytes the (already zig-zag) number takes."""
    size = 1
    while raw > 127:
        raw >>= 7
        size += 1
    return size


def put(target: primitives.Data, pos: int, raw: int) -> int:
    """Write the (already zig-zag) number at `pos`, where there is room; the position after it."""
    while raw > 127:
        target[pos] = raw & 127 | 128
        pos += 1
        raw >>= 7
    target[pos] = raw
    return pos + 1
