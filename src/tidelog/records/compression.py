"""The codecs of a batch's records, as Kafka's clients write them.

Decompression is bounded: the output goes into a buffer that never grows past the limit, so that a small batch that
unfolds to gigabytes is refused before they exist.  `cramjam` is imported when a compressed batch is first met.

Snappy comes in two forms: the framing of the xerial library, which Java writes, and the bare block that some
other clients send.  Lz4 is the frame format; Java reads it only with independent blocks, so these are written.
"""

import struct
from enum import IntEnum
from types import ModuleType

from tidelog.errors import InvalidRecord, UnsupportedCompressionType
from tidelog.kernel.primitives import Buffer

DECOMPRESSED_LIMIT_BYTES = 64 * 1024 * 1024
"""What one batch may unfold to, however large the batches of its topic may be."""

_LIKELY_RATIO = 16
"""What a batch of max.message.bytes may always unfold to, as a multiple."""

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(
    ">ii", 1, 1
)  # its version, and the oldest that can read it
_XERIAL_BLOCK_BYTES = 32 * 1024
_FIRST_BUFFER_BYTES = 64 * 1024
_SIZE = struct.Struct(">i")


class Codec(IntEnum):
    """The compression of a batch: the lowest three bits of its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


DEFAULT_LEVELS = {Codec.GZIP: 6, Codec.LZ4: 9, Codec.ZSTD: 3}
"""Kafka's defaults (compression.gzip.level and its kin)."""


def codec_of(number: int) -> Codec:
    """The codec with that number; UnsupportedCompressionType if there is none."""
    try:
        return Codec(number)
    except ValueError:
        raise UnsupportedCompressionType(
            f"there is no compression with the number {number}"
        ) from None


def compress(codec: Codec, data: Buffer, level: int | None = None) -> Buffer:
    """`data` in that codec; `level` is the codec's own, or Kafka's default."""
    if codec is Codec.NONE:
        return data
    cramjam = _cramjam()
    if codec is Codec.SNAPPY:
        return _compress_xerial(data)
    chosen = DEFAULT_LEVELS[codec] if level is None else level
    if codec is Codec.GZIP:
        return bytes(cramjam.gzip.compress(data, level=chosen))
    if codec is Codec.ZSTD:
        return bytes(cramjam.zstd.compress(data, level=chosen))
    compressor = cramjam.lz4.Compressor(level=chosen, content_checksum=False, block_linked=False)
    compressor.compress(bytes(data))  # it takes nothing else
    return bytes(compressor.finish())


def decompress(codec: Codec, data: Buffer, limit: int = DECOMPRESSED_LIMIT_BYTES) -> Buffer:
    """What `data` unfolds to; InvalidRecord if it is damaged or would be more than `limit` bytes."""
    if codec is Codec.NONE:
        return data
    cramjam = _cramjam()
    if codec is Codec.SNAPPY:
        return _decompress_snappy(data, limit)
    module = {Codec.GZIP: cramjam.gzip, Codec.LZ4: cramjam.lz4, Codec.ZSTD: cramjam.zstd}[codec]
    return _decompress_growing(module, codec, data, limit)


def decompress_into(
    codec: Codec,
    data: Buffer,
    out: bytearray,
    at: int,
    limit: int = DECOMPRESSED_LIMIT_BYTES,
) -> int:
    """Unfold `data` into `out` from `at` on, and return the position after it; `out` grows if need be.

    For those who unfold one batch after the other: a buffer that is used again costs no new memory.
    """
    if codec is Codec.NONE or codec is Codec.SNAPPY:
        with memoryview(decompress(codec, data, limit)) as whole:
            out[at:] = whole
            return at + whole.nbytes
    cramjam = _cramjam()
    module = {Codec.GZIP: cramjam.gzip, Codec.LZ4: cramjam.lz4, Codec.ZSTD: cramjam.zstd}[codec]
    room = max(_FIRST_BUFFER_BYTES, 4 * memoryview(data).nbytes, len(out) - at)
    while True:
        room = min(limit, room)
        if len(out) < at + room:
            out.extend(bytes(at + room - len(out)))
        with memoryview(out) as whole, whole[at : at + room] as part:
            written = _written(module, codec, data, part)
        if written is not None:
            return at + written
        if room >= limit:
            raise _too_much(codec, limit)
        room *= 4


def unfolded_limit(max_message_bytes: int) -> int:
    """What a batch of a topic may unfold to: the memory that one look into a batch can cost the broker.

    Producers bound their batches before they compress them, so what they send unfolds to little more than the largest
    batch; this is far more.
    """
    return max(min(_LIKELY_RATIO * max_message_bytes, DECOMPRESSED_LIMIT_BYTES), max_message_bytes)


def _decompress_growing(module: ModuleType, codec: Codec, data: Buffer, limit: int) -> bytearray:
    """Try with a likely size, then with four times as much, up to the limit.

    The formats need not declare their size (Java's streams do not), and a declared one may be forged.
    """
    size = min(limit, max(_FIRST_BUFFER_BYTES, 4 * memoryview(data).nbytes))
    while True:
        out = bytearray(size)
        written = _written(module, codec, data, out)
        if written is not None:
            del out[written:]
            return out
        out = bytearray()  # given back before the next is taken
        if size >= limit:
            raise _too_much(codec, limit)
        size = min(limit, 4 * size)


def _written(
    module: ModuleType, codec: Codec, data: Buffer, out: bytearray | memoryview
) -> int | None:
    """How many bytes of `out` the data fill; None if they need more."""
    try:
        return int(module.decompress_into(data, out))
    except Exception as error:  # noqa: BLE001 - the wheel's own class, and what it lets through
        if "write whole buffer" not in str(error):
            raise InvalidRecord(
                f"the batch's {codec.name.lower()} data is damaged: {error}"
            ) from None
        return None


def _compress_xerial(data: Buffer) -> bytes:
    cramjam = _cramjam()
    view = memoryview(data).cast("B")
    parts = [_XERIAL_HEADER]
    for pos in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[pos : pos + _XERIAL_BLOCK_BYTES]))
        parts += (_SIZE.pack(len(block)), block)
    return b"".join(parts)


def _decompress_snappy(data: Buffer, limit: int) -> bytearray:
    view = memoryview(data).cast("B")
    if view[:8] != _XERIAL_MAGIC:
        out = bytearray()
        _unfold_block(view, out, limit)
        return out
    if len(view) < 16:
        raise InvalidRecord("the batch's snappy data is cut off in its header")
    out = bytearray()
    pos = 16
    while pos < len(view):
        if len(view) - pos < 4:
            raise InvalidRecord("the batch's snappy data is cut off before a block")
        (size,) = _SIZE.unpack_from(view, pos)
        pos += 4
        if not 0 < size <= len(view) - pos:
            raise InvalidRecord(f"a snappy block claims {size} bytes; {len(view) - pos} are left")
        _unfold_block(view[pos : pos + size], out, limit)
        pos += size
    return out


def _unfold_block(block: memoryview, out: bytearray, limit: int) -> None:
    """Append what a bare snappy block holds.  It begins with its unfolded size, which is believed only up to
    the limit and to what the format can reach."""
    cramjam = _cramjam()
    try:
        size = cramjam.snappy.decompress_raw_len(block)
        if size > limit - len(out):
            raise _too_much(Codec.SNAPPY, limit)
        # A copy of at most 64 bytes takes 3 bytes or more, so snappy cannot unfold further than this.
        if size > 32 * len(block):
            raise InvalidRecord(f"a snappy block of {len(block)} bytes claims to unfold to {size}")
        part = bytearray(size)
        cramjam.snappy.decompress_raw_into(block, part)
    except cramjam.DecompressionError as error:
        raise InvalidRecord(f"the batch's snappy data is damaged: {error}") from None
    out += part


def _too_much(codec: Codec, limit: int) -> InvalidRecord:
    return InvalidRecord(
        f"the batch's {codec.name.lower()} data unfolds to more than {limit} bytes"
    )


def _cramjam() -> ModuleType:
    import cramjam

    return cramjam
