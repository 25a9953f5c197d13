import contextlib
import struct

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka import codec as peer

from tidelog.errors import InvalidRecord, UnsupportedCompressionType
from tidelog.records import Codec
from tidelog.records.compression import codec_of, compress, decompress, decompress_into

COMPRESSED = [codec for codec in Codec if codec is not Codec.NONE]
THEIRS = {
    Codec.GZIP: (peer.gzip_encode, peer.gzip_decode),
    Codec.SNAPPY: (peer.snappy_encode, peer.snappy_decode),
    Codec.LZ4: (peer.lz4_encode, peer.lz4_decode),
    Codec.ZSTD: (peer.zstd_encode, peer.zstd_decode),
}


@pytest.mark.parametrize("codec", list(Codec))
@given(data=st.binary(max_size=3000), times=st.integers(1, 60))
def test_data_comes_back(codec, data, times):
    data *= times
    packed = compress(codec, data)
    assert bytes(decompress(codec, memoryview(packed), limit=len(data))) == data


@pytest.mark.parametrize("codec", list(Codec))
@given(parts=st.lists(st.tuples(st.binary(max_size=300), st.integers(1, 2000)), max_size=4))
def test_data_come_back_one_behind_the_other_in_one_buffer(codec, parts):
    out, at = bytearray(b"rubbish"), 0
    for data, times in parts:
        packed = memoryview(compress(codec, data * times))
        at = decompress_into(codec, packed, out, at, limit=len(data) * times)
    assert out[:at] == b"".join(data * times for data, times in parts)


@pytest.mark.parametrize("codec", COMPRESSED)
@pytest.mark.parametrize("size", [1, 1000, 32 * 1024, 200_000])
def test_a_peer_reads_ours_and_we_theirs(codec, size):
    data = (b"some text, and again " * (size // 20 + 1))[:size]
    encode, decode = THEIRS[codec]
    assert bytes(decode(compress(codec, bytearray(data)))) == data
    assert bytes(decompress(codec, encode(data), limit=size)) == data


def test_bare_snappy_blocks_are_read():
    data = b"abc" * 10_000
    assert (
        decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(data)), limit=len(data)) == data
    )


def test_lz4_is_written_with_independent_blocks():
    # Java's reader knows no others.
    frame = bytes(compress(Codec.LZ4, b"abc" * 100_000))
    assert frame[:4] == b"\x04\x22\x4d\x18"
    assert frame[4] & 0x20


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_bomb_is_refused_without_being_unfolded(codec):
    bomb = compress(codec, bytes(20_000_000))
    with pytest.raises(InvalidRecord, match="more than 100000 bytes"):
        decompress(codec, bomb, limit=100_000)
    with pytest.raises(InvalidRecord, match="unfolds to more than"):
        decompress_into(codec, bomb, bytearray(), 0, limit=1 << 20)


@pytest.mark.parametrize("codec", COMPRESSED)
@given(data=st.binary(max_size=200))
def test_random_bytes_are_invalid(codec, data):
    with contextlib.suppress(InvalidRecord):
        decompress(codec, data, limit=100_000)


@pytest.mark.parametrize("codec", COMPRESSED)
@given(cut=st.integers(1, 5000), place=st.integers(0), byte=st.integers(0, 255))
def test_damaged_data_is_invalid_or_bounded(codec, cut, place, byte):
    packed = bytearray(compress(codec, bytes(range(256)) * 20))
    packed[place % len(packed)] = byte
    del packed[-(cut % len(packed)) :]
    with contextlib.suppress(InvalidRecord):
        assert len(memoryview(decompress(codec, packed, limit=10_000))) <= 10_000


def test_a_forged_snappy_size_makes_nothing():
    block = b"\xff\xff\xff\xff\x0f" + b"\0" * 20  # claims four gigabytes
    for data in (block, b"\x82SNAPPY\0" + struct.pack(">iii", 1, 1, len(block)) + block):
        with pytest.raises(InvalidRecord):
            decompress(Codec.SNAPPY, data, limit=1 << 40)


@pytest.mark.parametrize("tail", ["", "000000", "0000000a00", "ffffffff00", "00000000"])
def test_damaged_xerial_framing_is_invalid(tail):
    data = (
        b"\x82SNAPPY\0" + bytes.fromhex("00000001000000"[: 14 if tail else 8]) + bytes.fromhex(tail)
    )
    with pytest.raises(InvalidRecord):
        decompress(Codec.SNAPPY, data + b"\1" if tail else data, limit=1000)


def test_codecs_have_numbers():
    assert [codec_of(number) for number in range(5)] == list(Codec)
    with pytest.raises(UnsupportedCompressionType):
        codec_of(5)
