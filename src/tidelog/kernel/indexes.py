"""Search in sorted arrays of fixed-size entries: the offset and time index files."""

import tidelog.kernel.primitives as primitives
from tidelog.kernel.primitives import Buffer


def find_floor(
    buf: Buffer, entries: int, entry_bytes: int, key_bytes: int, target: int, key_at: int = 0
) -> int:
    """The last slot of the first `entries` whose key is at most `target`; -1 if there is none.

    The key lies `key_at` bytes into its entry, a signed big-endian number of 4 or 8 bytes; keys never fall.
    """
    view = primitives.view(buf)
    data = primitives.start(view)
    if key_bytes not in (4, 8) or key_at < 0 or entry_bytes < key_at + key_bytes:
        raise ValueError(f"an entry of {entry_bytes} bytes has no key of {key_bytes} at {key_at}")
    if entries < 0 or entries > primitives.length(view) // entry_bytes:
        raise ValueError(f"the index does not hold {entries} entries of {entry_bytes} bytes")
    low = 0
    high = entries
    # Invariant: every slot below `low` is at most the target, every slot from `high` on is above it.
    while low < high:
        middle = (low + high) >> 1
        if key_bytes == 4:
            key = primitives.i32(data, middle * entry_bytes + key_at)
        else:
            key = primitives.i64(data, middle * entry_bytes + key_at)
        if key <= target:
            low = middle + 1
        else:
            high = middle
    return low - 1
