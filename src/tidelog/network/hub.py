"""What all connections of a broker share: the receive buffer, the bounds, and the sweep of idle ones."""

import asyncio
import logging
import mmap
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .answer import Answer, Deferred
from .config import NetworkConfig
from .flow import (
    RECEIVE_BYTES,
    SEND_BYTES,
    STRANGERS_BYTES,
    Admission,
    Arrivals,
    Buffers,
    MemoryBound,
)
from .peer import Peer
from .strangers import Strangers, StrangersLog
from .watchdog import Watchdog

if TYPE_CHECKING:
    from .connection import Connection

Serve = Callable[[Peer, memoryview], Answer]
"""Answers one frame.  The frame is valid until it returns; `ProtocolError` closes the connection."""

ServeRun = Callable[[Peer, memoryview, int, int], tuple[int, bytes | Deferred | None]]
"""(peer, buffer, position, end) -> (position after the frames that were served, their answers).

Serves small frames at the start of a buffer together, where that is quicker; no frame at all is fine too.
"""

Watch = Callable[..., Any]
"""(peer, work, *arguments) -> what the work returns: does it, and measures how long it takes."""

_SWEEPS_PER_IDLE_TIME = 20
_REFUSED_MAX = 100
"""Descriptors that those may cost who are refused."""

_log = logging.getLogger(__name__)


class Hub:
    """Owns the open connections."""

    def __init__(
        self,
        serve: Serve,
        config: NetworkConfig,
        loop: asyncio.AbstractEventLoop,
        *,
        serve_run: ServeRun | None = None,
        now: Callable[[], float] | None = None,
        watchdog: Watchdog | None = None,
    ) -> None:
        """`now` tells the time, in seconds that only grow; without it the loop does."""
        self.now = now or loop.time
        self.watchdog = watchdog or Watchdog(self.now)
        self.arrived_at = 0.0
        """When the loop turned to what has come and is not answered yet."""
        self.accepted = 0
        """Connections so far."""
        self.refused = 0
        self.serve = serve
        self.serve_run = serve_run
        self.watch: Watch | None = None
        """Set while it matters how long it takes to receive and to send."""
        self.arrivals: Arrivals | None = None
        """Set while it matters how fast connections come."""
        self.config = config
        self.loop = loop
        self.receive_buffer = memoryview(bytearray(RECEIVE_BYTES))
        self.send_buffer = memoryview(mmap.mmap(-1, SEND_BYTES))
        """Answers are put together in it, and leave it before anything else is done; its pages come with their use."""
        self.memory = MemoryBound(config.queued_max_request_bytes)
        self.strangers_memory = MemoryBound(STRANGERS_BYTES)
        """A small pool of their own: those who have not logged in cannot hold up those who have."""
        self.strangers_log = StrangersLog(self.now)
        self.strangers = Strangers(loop, self.now, self.strangers_log, lambda: self.config)
        self.admission = Admission(config)
        self.buffers = Buffers()
        self.tick = 0
        """Counts the sweeps; a connection notes in which it was last used."""
        self.connections: dict[Connection, None] = {}
        self.to_send: list[Connection] = []
        """Who has answers that go out when all that have sent something are served."""
        self._refused: dict[socket.socket, asyncio.TimerHandle] = {}
        self._room_wanted: list[Callable[[], None]] = []
        self._empty: asyncio.Future[None] | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        self._schedule_sweep()

    def set_config(self, config: NetworkConfig) -> None:
        """Obey other limits from now on; open connections stay."""
        self.config = config
        self.admission.config = config

    def add(self, connection: "Connection") -> None:
        self.accepted += 1
        self.connections[connection] = None

    def forget(self, connection: "Connection") -> None:
        """The connection is closed."""
        self.connections.pop(connection, None)
        self.admission.leave(connection.peer.address.host)
        wanted, self._room_wanted = self._room_wanted, []
        for resume in wanted:
            resume()
        if self._empty is not None and not self.connections and not self._empty.done():
            self._empty.set_result(None)

    def pool_of(self, peer: Peer) -> MemoryBound:
        """Where the unfinished requests of this peer are counted."""
        return self.memory if peer.largest is None else self.strangers_memory

    def send_soon(self, connection: "Connection") -> None:
        """Have the answers of `connection` sent when all that have sent something are served.

        Sending wakes the peer, who may take the processor from us: so first the work, which is in the caches, then
        all the answers.
        """
        if not self.to_send:
            self.loop.call_soon(self._send_all)
        self.to_send.append(connection)

    def _send_all(self) -> None:
        ready, self.to_send = self.to_send, []
        for connection in ready:
            connection.send_now()

    def refuse(self, sock: socket.socket, seconds: float) -> None:
        """Close a socket that is not served, in so many seconds, or when there are too many of them."""
        self._refused[sock] = self.loop.call_later(seconds, self._close_refused, sock)
        if len(self._refused) > _REFUSED_MAX:
            self._close_refused(next(iter(self._refused)))

    def _close_refused(self, sock: socket.socket) -> None:
        self._refused.pop(sock).cancel()
        sock.close()

    def wait_for_room(self, resume: Callable[[], None]) -> None:
        """Call `resume` when a connection was closed."""
        self._room_wanted.append(resume)

    async def drain(self, timeout: float) -> None:
        """Let every connection answer what it is serving, then close it; after `timeout` seconds cut the rest."""
        for connection in list(self.connections):
            connection.finish()
        if self.connections:
            self._empty = self.loop.create_future()
            try:
                async with asyncio.timeout(timeout):
                    await self._empty
            except TimeoutError:
                _log.warning("%d connections did not finish and are cut", len(self.connections))
        self.abort()

    def abort(self) -> None:
        """Close everything at once."""
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        self.strangers.close()
        for sock in list(self._refused):
            self._close_refused(sock)
        for connection in list(self.connections):
            connection.close()

    def sweep(self) -> None:
        """Close the connections that have been idle for too long."""
        self.tick += 1
        oldest = self.tick - _SWEEPS_PER_IDLE_TIME
        for connection in list(self.connections):
            if connection.seen < oldest and connection.idle:
                connection.close("idle for connections.max.idle.ms", level=logging.DEBUG)

    def _schedule_sweep(self) -> None:
        if self.config.max_idle_ms >= 0:
            delay = max(self.config.max_idle_ms / 1000 / _SWEEPS_PER_IDLE_TIME, 0.01)
            self._sweeper = self.loop.call_later(delay, self._sweep_again)

    def _sweep_again(self) -> None:
        self.sweep()
        self._schedule_sweep()
