"""Back-pressure: what bounds the memory and the number of connections.

A bound is never enforced by dropping what a peer sent, but by not reading more of it.
"""

from collections import deque
from collections.abc import Callable

from .config import NetworkConfig

RECEIVE_BYTES = 1 << 20
"""Size of the buffer that all connections receive into."""

FRAGMENT_BYTES = RECEIVE_BYTES // 4
"""A frame up to this size is put together in the shared buffer, a larger one in a buffer of its own."""

UNCOUNTED_BYTES = 4096
"""Unfinished frames up to this size are not worth counting."""

PIPELINED_MAX = 256
"""Requests of one connection that may wait for their answers at a time."""

OWED_BYTES = 1 << 20
"""Answers of one read that are gathered before they are sent."""

FLUSH_BYTES = 8 << 20
"""What one connection may send before the others have their turn."""


class MemoryBound:
    """Counts the bytes of unfinished requests, and makes readers wait while there are too many.

    A whole frame is reserved when its first bytes come, so that what was begun can always be finished; the
    bound is therefore overshot by at most one frame.
    """

    __slots__ = ("_waiting", "limit", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit if limit >= 0 else 1 << 62
        self.used = 0
        self._waiting: deque[Callable[[], None]] = deque()

    @property
    def full(self) -> bool:
        return self.used >= self.limit

    def reserve(self, size: int) -> None:
        self.used += size

    def release(self, size: int) -> None:
        self.used -= size
        assert self.used >= 0, "released more than was reserved"
        # Each that continues may reserve again: ask anew before the next.
        while self._waiting and not self.full:
            self._waiting.popleft()()

    def when_free(self, resume: Callable[[], None]) -> None:
        """Call `resume` when there is memory again."""
        self._waiting.append(resume)


class Admission:
    """Counts connections, in all and by address."""

    def __init__(self, config: NetworkConfig) -> None:
        self.config = config
        self.count = 0
        self._by_host: dict[str, int] = {}

    @property
    def full(self) -> bool:
        """Whether a new connection has to wait."""
        return self.count >= self.config.max_connections

    def admit(self, host: str) -> bool:
        """Count a connection from `host`; False if it has too many already."""
        held = self._by_host.get(host, 0)
        if held >= self.config.allowed_from(host):
            return False
        self._by_host[host] = held + 1
        self.count += 1
        return True

    def leave(self, host: str) -> None:
        self.count -= 1
        held = self._by_host[host] - 1
        if held:
            self._by_host[host] = held
        else:
            del self._by_host[host]


class Buffers:
    """Large buffers, kept for reuse: a fresh megabyte costs as much as receiving one."""

    __slots__ = ("_free", "_free_bytes")

    _KEEP_BYTES = 8 << 20

    def __init__(self) -> None:
        self._free: dict[int, list[bytearray]] = {}
        self._free_bytes = 0

    def take(self, size: int) -> bytearray:
        """A buffer of at least `size` bytes, holding anything."""
        rounded = 1 << max(size - 1, 1).bit_length()
        free = self._free.get(rounded)
        if free:
            self._free_bytes -= rounded
            return free.pop()
        return bytearray(rounded)

    def give_back(self, buffer: bytearray) -> None:
        """Nothing may look into `buffer` any more."""
        size = len(buffer)
        if self._free_bytes + size <= self._KEEP_BYTES:
            self._free.setdefault(size, []).append(buffer)
            self._free_bytes += size
