"""The two ends of a simulated connection: a socket for the broker, a transport for asyncio's clients.

Both take what the network brings (`take`) and send by their `out` pipe.  Only what tidelog calls is there: a socket is
non-blocking, and knows no options.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .loop import Process

if TYPE_CHECKING:
    from .network import Pipe, SimNetwork

EOF = "end"
RESET = "reset"
PROBE = "probe"

_SEND_BUFFER_BYTES = 256 * 1024
_HIGH_WATER_BYTES = 64 * 1024

Place = tuple[str, int]


class Endpoint:
    """One end of a connection."""

    dialled = False

    def __init__(
        self, network: "SimNetwork", process: Process, local: Place, remote: Place
    ) -> None:
        self.process = process
        self.host = process.host
        self.local = local
        self.remote = remote
        self.out: Pipe | None = None
        self.closed = False
        self._network = network
        self._loop = network.loop

    def take(self, item: Any) -> None:
        """What the network brings: bytes, EOF, RESET or, for who is gone, PROBE."""
        if self.closed or not self.process.alive:
            if item != RESET and self.out is not None:
                self.out.put(RESET)  # the kernel's answer for a socket that nobody has
            return
        self._received(item)

    def _received(self, item: Any) -> None:
        raise NotImplementedError

    def _taken(self, count: int) -> None:
        """`count` bytes have left the way from the other end to here."""
        other = self.out.target if self.out is not None else None
        if other is not None and other.out is not None:
            other.out.unread -= count
            other.room()

    def room(self) -> None:
        """The other end has taken something."""

    def _room_left(self) -> int:
        assert self.out is not None
        return _SEND_BUFFER_BYTES - self.out.unread

    def _soon(self, callback: Callable[..., None], *args: Any) -> None:
        self._loop.call_soon(callback, *args, context=self.process.context)


class _Watched:
    """Tells whoever watches a descriptor, again and again while there is something (level-triggered)."""

    def __init__(self, loop: asyncio.AbstractEventLoop, process: Process) -> None:
        self._watch_loop = loop
        self._watch_process = process
        self._reader: Callable[..., Any] | None = None
        self._writer: Callable[..., Any] | None = None
        self._waking = False

    def on_readable(self, callback: Callable[..., Any] | None) -> None:
        self._reader = callback
        self._wake()

    def on_writable(self, callback: Callable[..., Any] | None) -> None:
        self._writer = callback
        self._wake()

    def _readable(self) -> bool:
        raise NotImplementedError

    def _writable(self) -> bool:
        return False

    def _wake(self) -> None:
        due = (self._reader and self._readable()) or (self._writer and self._writable())
        if due and not self._waking:
            self._waking = True
            self._watch_loop.call_soon(self._tell, context=self._watch_process.context)

    def _tell(self) -> None:
        self._waking = False
        if self._reader is not None and self._readable():
            self._reader()
        if self._writer is not None and self._writable():
            self._writer()
        self._wake()


class ListeningSocket(_Watched):
    """A listening socket; connections wait in it until they are accepted."""

    def __init__(self, network: "SimNetwork", process: Process, fd: int, place: Place) -> None:
        super().__init__(network.loop, process)
        self.process = process
        self.place = place
        self.closed = False
        self.listening = False
        self._network = network
        self._fd = fd
        self._backlog: deque[ServerSocket] = deque()

    def connected(self, server: "ServerSocket") -> None:
        self._backlog.append(server)
        self._wake()

    def listen(self, backlog: int) -> None:
        self.listening = True

    def abandon(self) -> None:
        """The process is gone."""
        self.closed = True

    def accept(self) -> "tuple[ServerSocket, Place]":
        if not self._backlog:
            raise BlockingIOError
        server = self._backlog.popleft()
        return server, server.remote

    def getsockname(self) -> Place:
        return self.place

    def fileno(self) -> int:
        return -1 if self.closed else self._fd

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._network.unlisten(self)
            for server in self._backlog:
                server.close()

    def _readable(self) -> bool:
        return bool(self._backlog)


class ServerSocket(Endpoint, _Watched):
    """The broker's end."""

    def __init__(
        self, network: "SimNetwork", process: Process, fd: int, local: Place, remote: Place
    ) -> None:
        Endpoint.__init__(self, network, process, local, remote)
        _Watched.__init__(self, network.loop, process)
        self._fd = fd
        self._buffer = bytearray()
        self._ended = False
        self._reset = False

    def _received(self, item: Any) -> None:
        if item == RESET:
            self._reset = True
        elif item == EOF:
            self._ended = True
        else:
            self._buffer += item
        self._wake()

    def _readable(self) -> bool:
        return bool(self._buffer) or self._ended or self._reset

    def _writable(self) -> bool:
        return self._reset or self._room_left() > 0

    def room(self) -> None:
        self._wake()

    def recv_into(self, room: memoryview) -> int:
        self._check()
        if self._buffer:
            count = min(len(self._buffer), len(room))
            room[:count] = self._buffer[:count]
            del self._buffer[:count]
            self._taken(count)
            return count
        if self._ended:
            return 0
        raise BlockingIOError

    def send(self, data: Any, flags: int = 0) -> int:
        self._check()
        assert self.out is not None
        count = min(self._room_left(), len(data))
        if count <= 0:
            raise BlockingIOError
        self.out.put(bytes(data[:count]))
        return count

    def sendmsg(self, pieces: Any, ancillary: Any = (), flags: int = 0) -> int:
        return self.send(b"".join(pieces), flags)

    def _check(self) -> None:
        if self.closed:
            raise OSError(9, "Bad file descriptor")
        if self._reset:
            raise ConnectionResetError(104, "Connection reset by peer")

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.on_readable(None)
            self.on_writable(None)
            if not self._reset and self.out is not None:
                self.out.put(RESET if self._buffer else EOF)
            if self._reset or self._ended:
                self._network.forget(self)

    def getsockname(self) -> Place:
        return self.local

    def fileno(self) -> int:
        return self._fd

    def setblocking(self, flag: bool) -> None:
        pass

    def setsockopt(self, *_: Any) -> None:
        pass


class Transport(Endpoint, asyncio.Transport):
    """The end of a client, with its protocol; made when the connection is there."""

    dialled = True

    def __init__(
        self, network: "SimNetwork", process: Process, protocol: Any, local: Place, remote: Place
    ) -> None:
        Endpoint.__init__(self, network, process, local, remote)
        asyncio.Transport.__init__(self)
        self._protocol = protocol
        self._unsent = bytearray()
        self._paused = False

    def _received(self, item: Any) -> None:
        if isinstance(item, bytes):
            self._soon(self._data, item)
        else:
            error = ConnectionResetError(104, "Connection reset by peer") if item == RESET else None
            self._soon(self._lost, error)

    def _data(self, data: bytes) -> None:
        self._taken(len(data))
        rest = memoryview(data)
        while rest and not self.closed:
            room = self._protocol.get_buffer(len(rest))
            count = min(len(room), len(rest))
            room[:count] = rest[:count]
            self._protocol.buffer_updated(count)
            rest = rest[count:]

    def _lost(self, error: Exception | None) -> None:
        if not self.closed:
            self.closed = True
            self._protocol.connection_lost(error)
        self._network.forget(self)

    def write(self, data: Any) -> None:
        if self.closed:
            return
        self._unsent += data
        self._send()
        if len(self._unsent) > _HIGH_WATER_BYTES and not self._paused:
            self._paused = True
            self._protocol.pause_writing()

    def _send(self) -> None:
        count = min(self._room_left(), len(self._unsent))
        if count > 0:
            assert self.out is not None
            self.out.put(bytes(self._unsent[:count]))
            del self._unsent[:count]

    def room(self) -> None:
        if self._unsent and not self.closed:
            self._soon(self._go_on)

    def _go_on(self) -> None:
        if self.closed:
            return
        self._send()
        if self._paused and len(self._unsent) <= _HIGH_WATER_BYTES // 4:
            self._paused = False
            self._protocol.resume_writing()

    def abort(self) -> None:
        self.close()

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            if self.out is not None:
                self.out.put(EOF)
            self._soon(self._protocol.connection_lost, None)

    def is_closing(self) -> bool:
        return self.closed

    def get_write_buffer_size(self) -> int:
        return len(self._unsent)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": self.remote, "sockname": self.local}.get(name, default)
