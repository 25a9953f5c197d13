"""What a request is answered with.

`serve(peer, frame)` returns an `Answer`: nothing, bytes, a list of bytes and regions of files, or something that
becomes one of these later.  All of them hold the 4-byte length of the frame already.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias


class ReadableFile(Protocol):
    """An open file; as `storage.files.File`."""

    def fileno(self) -> int: ...

    def pread(self, length: int, position: int) -> bytes: ...

    def pread_into(self, buffer: memoryview, position: int) -> int: ...


class FileRegion(Protocol):
    """Bytes that lie in a file; they are sent without passing through this process where that pays."""

    @property
    def file(self) -> ReadableFile: ...

    @property
    def position(self) -> int: ...

    @property
    def length(self) -> int: ...


Piece: TypeAlias = bytes | bytearray | memoryview | FileRegion
Ready: TypeAlias = bytes | bytearray | list[Piece] | tuple[Piece, ...] | None
"""An answer that can be sent now; None where the request has none."""


class Deferred:
    """An answer that comes later, without a task of its own.

    The connection reads no further request before it is there, unless it is `pipelined`: then later requests
    are served meanwhile, and their answers wait for their turn.
    """

    __slots__ = ("_done", "_ready", "_then", "pipelined")

    def __init__(self, *, pipelined: bool = False) -> None:
        self.pipelined = pipelined
        self._then: Callable[[Ready | Exception], None] | None = None
        self._ready: Ready | Exception = None
        self._done = False

    @property
    def done(self) -> bool:
        return self._done

    def resolve(self, ready: Ready | Exception) -> None:
        """Give the answer, or the error for which the connection is closed; only the first counts."""
        if self._done:
            return
        self._done = True
        self._ready = ready
        if self._then is not None:
            self._then(ready)

    def then(self, callback: Callable[[Ready | Exception], None]) -> None:
        """Call `callback` with the answer, now or when it is there."""
        self._then = callback
        if self._done:
            callback(self._ready)


Answer: TypeAlias = Ready | Deferred | Awaitable[Ready]
