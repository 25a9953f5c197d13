"""Single reads and writes at a known good position: what the other modules are made of.

The one module that is never compiled.  A compiled module takes the C functions of the same names from
`primitives.pxd`; an interpreted one takes these.  Nothing here checks a position: the caller has.

`Data` stands for what the loops index: a bytes-like object in Python, a pointer in C.
"""

import struct
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import typing_extensions

    Buffer: TypeAlias = typing_extensions.Buffer
else:
    Buffer = object  # collections.abc has the name from Python 3.12 on

Data = Any

_INDEXED = (bytes, bytearray)
"""What can be indexed and measured as it is; everything else goes through a memoryview."""

_I16 = struct.Struct(">h")
_I32 = struct.Struct(">i")
_I64 = struct.Struct(">q")
_U32 = struct.Struct(">I")
_NATIVE_I32 = struct.Struct("=i")
_NATIVE_I64 = struct.Struct("=q")


def view(buf: Buffer) -> Buffer:
    """Hold `buf`, so that its bytes stay where they are while the result lives; C needs it."""
    return buf


def start(view: Buffer) -> Data:
    """The bytes of `view`, to be indexed from its beginning; nothing is copied."""
    if isinstance(view, _INDEXED):
        return view
    return memoryview(view).cast("B")


def window(view: Buffer, pos: int, end: int) -> Data:
    """The bytes from `pos` to `end`; slices of it are `bytes`.

    Python copies them once, because indexing and slicing `bytes` is what it does fastest; C does not.
    """
    return bytes(memoryview(view)[pos:end])


def length(view: Buffer) -> int:
    """How many bytes `view` has."""
    return len(view) if isinstance(view, _INDEXED) else memoryview(view).nbytes


def writable(out: Buffer) -> Data:
    """The bytes of `out`, to be written; good until `out` changes its size."""
    return out


def i16(data: Data, pos: int) -> int:
    """The signed big-endian 16-bit number at `pos`."""
    return _I16.unpack_from(data, pos)[0]  # type: ignore[no-any-return]


def i32(data: Data, pos: int) -> int:
    """The signed big-endian 32-bit number at `pos`."""
    return _I32.unpack_from(data, pos)[0]  # type: ignore[no-any-return]


def u32(data: Data, pos: int) -> int:
    """The unsigned big-endian 32-bit number at `pos`."""
    return _U32.unpack_from(data, pos)[0]  # type: ignore[no-any-return]


def i64(data: Data, pos: int) -> int:
    """The signed big-endian 64-bit number at `pos`."""
    return _I64.unpack_from(data, pos)[0]  # type: ignore[no-any-return]


def i8(data: Data, pos: int) -> int:
    """The signed byte at `pos`."""
    value: int = data[pos]
    return value - 256 if value > 127 else value


def put_i32(target: Data, pos: int, value: int) -> None:
    """Write a signed big-endian 32-bit number at `pos`."""
    _I32.pack_into(target, pos, value)


def put_i64(target: Data, pos: int, value: int) -> None:
    """Write a signed big-endian 64-bit number at `pos`."""
    _I64.pack_into(target, pos, value)


def put_bytes(target: Data, pos: int, data: bytes) -> int:
    """Write `data` at `pos`; returns the position after it."""
    end = pos + len(data)
    target[pos:end] = data
    return end


def put_native_i32(target: Data, pos: int, value: int) -> None:
    """Write a signed 32-bit number at `pos` in this machine's byte order."""
    _NATIVE_I32.pack_into(target, pos, value)


def put_native_i64(target: Data, pos: int, value: int) -> None:
    """Write a signed 64-bit number at `pos` in this machine's byte order."""
    _NATIVE_I64.pack_into(target, pos, value)


def move(target: Data, at: int, data: Data, pos: int, end: int) -> int:
    """Write the bytes of `data` from `pos` to `end` at `at`; returns the position after them."""
    after = at + end - pos
    target[at:after] = data[pos:end]
    return after


def fresh(size: int) -> bytearray:
    """A buffer of so many bytes; in C they are whatever was there, so all must be written or cut off."""
    return bytearray(size)


def enlarge(out: bytearray, size: int) -> None:
    """Make `out` so many bytes large; in C the new ones are whatever was there."""
    out.extend(bytes(size - len(out)))


def row(cls: Any, a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any) -> Any:
    """A tuple of seven of the class `cls`, which must be a subclass of tuple; they must hold nothing that could hold it."""
    return tuple.__new__(cls, (a, b, c, d, e, f, g))


def text(data: Data, pos: int, end: int) -> str:
    """The UTF-8 text from `pos` to `end`; UnicodeDecodeError if it is none."""
    return str(data[pos:end], "utf-8")


def copy(data: Data, pos: int, end: int) -> bytes:
    """The bytes from `pos` to `end` as an object of their own."""
    return bytes(data[pos:end])


def checksum(data: Data, pos: int, end: int, value: int) -> int:
    """CRC-32C of the bytes from `pos` to `end`, continued from `value`."""
    # The wheel's import is slow, and the compiled kernel does not need it.
    from google_crc32c import extend

    found: int = extend(value, bytes(memoryview(data)[pos:end]))  # it takes nothing that may change
    return found


portable_checksum = checksum
"""In C, the variant that needs no special instruction."""
