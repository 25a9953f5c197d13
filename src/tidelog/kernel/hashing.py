"""Murmur2, the hash by which Kafka's clients choose the partition of a key."""

import tidelog.kernel.primitives as primitives
from tidelog.kernel.primitives import Buffer

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: Buffer) -> int:
    """The 32-bit Murmur2 hash of `data` with the seed that Kafka uses, without a sign."""
    view = primitives.view(data)
    raw = primitives.start(view)
    size = primitives.length(view)
    h = (_SEED ^ size) & _MASK
    pos = 0
    while size - pos >= 4:
        k = raw[pos] | raw[pos + 1] << 8 | raw[pos + 2] << 16 | raw[pos + 3] << 24
        k = (k * _M) & _MASK
        k ^= k >> 24
        k = (k * _M) & _MASK
        h = ((h * _M) & _MASK) ^ k
        pos += 4
    left = size - pos
    if left == 3:
        h ^= raw[pos + 2] << 16
    if left >= 2:
        h ^= raw[pos + 1] << 8
    if left >= 1:
        h ^= raw[pos]
        h = (h * _M) & _MASK
    h ^= h >> 13
    h = (h * _M) & _MASK
    h ^= h >> 15
    return h
