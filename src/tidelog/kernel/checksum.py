"""CRC-32C (Castagnoli), the checksum of a v2 batch.

Compiled, it uses the processor's own instruction where there is one (asked at run time) and tables where there
is none; interpreted, it comes from the `google-crc32c` wheel, never from a loop in Python.
"""

import tidelog.kernel.primitives as primitives
from tidelog.kernel.primitives import Buffer


def crc32c(data: Buffer, value: int = 0) -> int:
    """The CRC-32C of `data`, continued from `value`, which is that of what came before it."""
    view = primitives.view(data)
    return primitives.checksum(primitives.start(view), 0, primitives.length(view), value)


def crc32c_by_tables(data: Buffer, value: int = 0) -> int:
    """The same without the processor's instruction, so that tests can reach what other processors use."""
    view = primitives.view(data)
    return primitives.portable_checksum(primitives.start(view), 0, primitives.length(view), value)
