"""Back-pressure: what bounds the memory and the number of connections.

A bound is never enforced by dropping what a peer sent, but by not reading more of it.
"""

from collections.abc import Callable
from typing import Protocol

from .config import NetworkConfig

RECEIVE_BYTES = 1 << 20
"""Size of the buffer that all connections receive into."""

SEND_BYTES = (1 << 20) + (64 << 10)
"""Size of the buffer that answers are sent from: a fetch of a megabyte, which is what most consumers ask for, with its head."""

SLOW_SEND_BYTES = 128 * 1024
"""What is put together at a time for a peer whose socket was full: it takes little, and the rest is read again."""

LONG_SEND_S = 0.0015
"""Reading and sending an answer takes longer if it is very large, comes from the disk, or lost the processor: a copy of what
the disk has just brought may be slow, and is better made by the peer."""

SENDFILE_TURNS = 16
"""How often `sendfile` is used instead after such an answer, and after one that the socket did not take at once."""

FRAGMENT_BYTES = RECEIVE_BYTES // 4
"""A frame up to this size is put together in the shared buffer, a larger one in a buffer of its own."""

STRANGERS_BYTES = 8 << 20
"""What all who have not logged in may hold together of unfinished requests."""

UNCOUNTED_BYTES = 4096
"""Unfinished frames up to this size are not worth counting."""

CAUTIOUS_BYTES = 16 * 1024
"""What is read at a time while memory is short."""

PIPELINED_MAX = 256
"""Requests of one connection that may wait for their answers at a time."""

OWED_BYTES = 1 << 20
"""Answers of one read that are gathered before they are sent."""

RUN_FRAME_BYTES = 8192
"""Frames up to this size may be served as a run: for a larger one its bytes are the work."""

FLUSH_BYTES = 8 << 20
"""What one connection may send before the others have their turn."""


class MemoryBound:
    """Counts the bytes that connections hold of unfinished requests, and makes them wait when there are too many.

    Only what has arrived is counted, so promises cost nothing, and requests that are whole when they are read need
    nothing.  While the bound is exceeded one holder may still read on, the one that has held for longest: so what was
    begun is finished, one after the other.
    """

    __slots__ = ("_holders", "_waiting", "limit", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit if limit >= 0 else 1 << 62
        self.used = 0
        self._holders: dict[object, int] = {}
        """Those who hold memory, the longest first."""
        self._waiting: dict[object, Callable[[], None]] = {}

    @property
    def full(self) -> bool:
        return self.used >= self.limit

    @property
    def scarce(self) -> bool:
        """Whether no more should be taken than what has arrived, though there is some left."""
        return 2 * self.used >= self.limit

    def hold(self, owner: object, size: int) -> None:
        """`owner` holds `size` bytes now."""
        self.used += size - self._holders.get(owner, 0)
        self._holders[owner] = size

    def release(self, owner: object) -> None:
        """`owner` holds nothing any more, and waits for nothing."""
        self.used -= self._holders.pop(owner, 0)
        self._waiting.pop(owner, None)
        while self._waiting and not self.full:
            self._waiting.pop(next(iter(self._waiting)))()
        first = next(iter(self._holders), None)
        if first is not None and first in self._waiting:
            self._waiting.pop(first)()

    def may_read(self, owner: object) -> bool:
        """Whether `owner`, who holds something, may add to it."""
        return not self.full or next(iter(self._holders), None) is owner

    def wait(self, owner: object, resume: Callable[[], None]) -> None:
        """Call `resume` when `owner` may read again."""
        self._waiting[owner] = resume


class Arrivals(Protocol):
    """How fast connections may come."""

    def refused_for(self, host: str) -> float:
        """Count a connection from `host`; above 0 if it is too many: seconds after which to close it."""
        ...

    def paused_for(self, listener: str) -> float:
        """Count a connection to `listener`; seconds for which to accept no more there."""
        ...


class Admission:
    """Counts connections, in all and by address."""

    def __init__(self, config: NetworkConfig) -> None:
        self.config = config
        self.count = 0
        self.most = 1 << 62
        """Connections for which there are descriptors, whatever the settings allow."""
        self._by_host: dict[str, int] = {}

    @property
    def full(self) -> bool:
        """Whether a new connection has to wait."""
        return self.count >= min(self.config.max_connections, self.most)

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
