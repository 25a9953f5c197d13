"""One connection: frames in, answers out, in order.

All complete frames of one read are served before one gathered write of their answers, and that write waits until the
other connections that have sent something are served too.  Nothing is buffered per connection while it is idle: it
receives into the hub's buffer, and only a frame that is not whole is kept.

Reading stops while
 - an answer is awaited (as Kafka: one request of a connection at a time, except pipelined produces),
 - the peer is held back because it has used more than its share (`peer.hold`),
 - the peer does not take its answers, or
 - the memory for unfinished requests is used up.
It stops lazily: only when the peer sends something meanwhile is the socket taken out of the loop's watch.

TLS comes as a subclass that overrides `_receive` and `_send_some` (`network/tls.py`).
"""

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Awaitable
from struct import Struct as Packer

from tidelog.errors import ProtocolError

from .answer import Answer, Deferred, Piece, Ready
from .flow import (
    CAUTIOUS_BYTES,
    FRAGMENT_BYTES,
    LONG_SEND_S,
    OWED_BYTES,
    PIPELINED_MAX,
    RUN_FRAME_BYTES,
    SENDFILE_TURNS,
    SLOW_SEND_BYTES,
    UNCOUNTED_BYTES,
    MemoryBound,
)
from .hub import Hub
from .outbox import send_some
from .peer import Peer, Probe
from .watchdog import HELD_S

_log = logging.getLogger(__name__)
_LENGTH = Packer(">i")
_unpack_length = _LENGTH.unpack_from
_LENGTH_BYTES = 4
_WHOLE = (bytes, bytearray)
_READY = (bytes, bytearray, list, tuple)
_FIRST_BUFFER_BYTES = 2 << 20  # a larger frame has to prove itself by sending this much


class Turn:
    """The place of an answer in the order of answers."""

    __slots__ = ("done", "ready")

    def __init__(self) -> None:
        self.done = False
        self.ready: Ready = None


class Connection:
    """Serves one socket; made by a listener."""

    __slots__ = (
        "_closed",
        "_fd",
        "_filled",
        "_finishing",
        "_held",
        "_held_back",
        "_hub",
        "_is_near",
        "_muted",
        "_need",
        "_out",
        "_pool",
        "_probes",
        "_reading",
        "_sendfile_turns",
        "_serving",
        "_sock",
        "_tasks",
        "_turns",
        "_writing",
        "peer",
        "seen",
    )

    def __init__(self, sock: socket.socket, peer: Peer, hub: Hub) -> None:
        self.peer = peer
        self.seen = hub.tick
        self._sock = sock
        self._fd = sock.fileno()
        self._hub = hub
        self._closed = False
        self._finishing = False
        """No request is served any more; what is being served is answered, then the connection is closed."""

        # Receiving.  Either `_held` is a fragment that precedes the next read (`_need` is 0), or the buffer
        # of one large frame of `_need` bytes, of which `_filled` are there.
        self._reading = True
        self._held: bytearray | None = None
        self._need = 0
        self._filled = 0
        self._pool: MemoryBound | None = None
        """Where memory is counted for what is held; None if it is not."""

        # Serving.
        self._serving = False
        """Inside `_serve_frames`: answers are sent when it ends."""
        self._muted = False
        """An answer is awaited that lets no later request be served."""
        self._held_back: asyncio.TimerHandle | None = None
        """Set while the peer is held back; what it sends has to wait."""
        self._turns: deque[Turn] | None = None
        self._tasks: set[asyncio.Task[Ready]] | None = None

        # Sending.
        self._is_near = peer.address.host == peer.local.host
        self._sendfile_turns = 0
        """So many answers are not read into the buffer where `sendfile` can send them."""
        self._out: list[Piece] = []
        self._writing = False
        self._probes: list[Probe] | None = None
        """Want to know when what is owed is sent."""

        peer.connection = self
        hub.add(self)
        hub.loop.add_reader(self._fd, self._on_readable)

    @property
    def _waits(self) -> bool:
        """Whether no later request may be served now."""
        return self._muted or self._held_back is not None

    @property
    def idle(self) -> bool:
        """Whether nothing is owed to the peer."""
        return not (self._muted or self._turns or self._out)

    def finish(self) -> None:
        """Answer what is being served, then close."""
        self._finishing = True
        self._pause_reading()
        if self.idle and not self._serving:
            self.close()

    @property
    def arrived_at(self) -> float:
        """When the loop saw what is being served."""
        return self._hub.arrived_at

    @property
    def is_open(self) -> bool:
        return not self._closed

    @property
    def in_flight(self) -> int:
        """Requests that are being served."""
        return len(self._turns) if self._turns else int(self._muted)

    def watch(self, probe: Probe) -> None:
        """Tell `probe` when what is owed is sent."""
        if self._probes is None:
            self._probes = []
        self._probes.append(probe)

    def hold(self, seconds: float) -> None:
        """Serve no later request for so long; what was answered goes out at once."""
        if self._closed:
            return
        if self._held_back is not None:
            self._held_back.cancel()
        self._held_back = self._hub.loop.call_later(seconds, self._hold_is_over)

    def _hold_is_over(self) -> None:
        self._held_back = None
        self._after_progress()

    def close(self, reason: str = "", level: int = logging.WARNING) -> None:
        """Close at once; `reason` is logged."""
        if self._closed:
            return
        self._closed = True
        if reason and self.peer.largest is not None:
            self._hub.strangers_log.tell(level, self.peer, reason)
        elif reason:
            _log.log(level, "closed the connection from %s: %s", self.peer, reason)
        self._pause_reading()
        if self._writing:
            self._hub.loop.remove_writer(self._fd)
        for task in self._tasks or ():
            task.cancel()
        if self._held_back is not None:
            self._held_back.cancel()
            self._held_back = None
        self.peer.connection = None
        self._out.clear()
        self._turns = None
        self._let_go()
        self._release()
        self._sock.close()
        self._hub.forget(self)

    # ------------------------------------------------------------------ receiving

    def _on_readable(self) -> None:
        if self._waits or self._out or self._closed or (self._turns and self._too_many_turns()):
            self._pause_reading()  # what is there stays with the kernel, and at last with the peer
            return
        hub = self._hub
        if self._held is not None:
            pool = self._pool or hub.pool_of(self.peer)
            if not pool.may_read(self):
                self._pause_reading()
                pool.wait(self, self._resume)
                return
        self.seen = hub.tick
        if not hub.to_send:
            hub.arrived_at = hub.now()
        try:
            if self._need:
                count = self._receive_large()
            else:
                count = self._receive_shared()
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self.close(str(error), logging.DEBUG)
            return
        if count == 0:
            self._on_end()

    def _receive_shared(self) -> int:
        """Receive behind what is held of an unfinished frame, and serve."""
        hub = self._hub
        buffer = hub.receive_buffer
        held = self._held
        if held is None:
            memory = hub.memory
            room = buffer[:CAUTIOUS_BYTES] if memory.used >= memory.limit else buffer
            # As `_take_in`, without its call: this is where small requests come.
            count = self._receive(room) if hub.watch is None else self._take_in(room)
            if count:
                self._serve_frames(buffer, count)
            return count
        start = len(held)
        count = self._take_in(buffer[start:])
        if count:
            buffer[:start] = held
            self._held = None
            self._serve_frames(buffer, start + count)
        return count

    def _receive_large(self) -> int:
        """Receive into the buffer of a large frame, and serve it when it is whole."""
        held = self._held
        assert held is not None
        if self._filled == len(held) < self._need:
            held = self._grow(held)
        with memoryview(held) as whole:
            count = self._take_in(whole[self._filled : min(len(held), self._need)])
            self._filled += count
            if self._filled < self._need:
                self._hold(self._filled)
                return count
            end, self._need, self._filled, self._held = self._need, 0, 0, None
            self._serve_frames(whole, end)
        self._hub.buffers.give_back(held)
        return count

    def _grow(self, held: bytearray) -> bytearray:
        larger = self._hub.buffers.take(min(2 * len(held), self._need))
        larger[: self._filled] = held
        self._hub.buffers.give_back(held)
        self._held = larger
        return larger

    def _take_in(self, room: memoryview) -> int:
        watch = self._hub.watch
        if watch is None:
            return self._receive(room)
        count: int = watch(self.peer, self._receive, room)
        return count

    def _receive(self, room: memoryview) -> int:
        return self._sock.recv_into(room)

    def _on_end(self) -> None:
        """The peer sends no more; it may still read."""
        if self._held is not None:
            _log.debug("%s closed the connection within a request", self.peer)
        self.finish()

    def _keep(self, buffer: memoryview, pos: int, end: int) -> None:
        """Hold on to the bytes that could not be served: part of a frame, or frames that have to wait."""
        have = end - pos
        frame_bytes = 0
        if have >= _LENGTH_BYTES:
            frame_bytes = _LENGTH_BYTES + _unpack_length(buffer, pos)[0]
        if frame_bytes <= FRAGMENT_BYTES or have >= frame_bytes:
            self._held = bytearray(buffer[pos:end])
            if have > UNCOUNTED_BYTES:
                self._hold(have)
            return
        scarce = self.peer.largest is not None or self._hub.memory.scarce
        first = CAUTIOUS_BYTES if scarce else _FIRST_BUFFER_BYTES
        large = self._hub.buffers.take(min(frame_bytes, max(first, have)))
        large[:have] = buffer[pos:end]
        self._held = large
        self._need = frame_bytes
        self._filled = have
        self._hold(have)

    def _let_go(self) -> None:
        self._held = None
        self._need = self._filled = 0

    def _hold(self, size: int) -> None:
        if self._pool is None:
            self._pool = self._hub.pool_of(self.peer)
        self._pool.hold(self, size)

    def _release(self) -> None:
        pool = self._pool
        if pool is not None:
            self._pool = None
            pool.release(self)

    def _pause_reading(self) -> None:
        if self._reading:
            self._reading = False
            self._hub.loop.remove_reader(self._fd)

    def _resume(self) -> None:
        """Serve what was held back, then read on."""
        if self._closed or self._finishing or self._waits or self._out or self._too_many_turns():
            return
        held = self._held
        if held is not None and not self._need:
            self._held = None
            with memoryview(held) as whole:
                self._serve_frames(whole, len(held))
            if self._closed or self._waits or self._out:
                return
        if not self._reading:
            self._reading = True
            self._hub.loop.add_reader(self._fd, self._on_readable)

    # ------------------------------------------------------------------ serving

    def _serve_frames(self, buffer: memoryview, end: int) -> None:
        """Serve the complete frames at the start of `buffer`, have their answers sent, keep the rest."""
        serve, peer, out = self._hub.serve, self.peer, self._out
        largest = self._hub.config.request_max_bytes
        if peer.largest is not None:
            largest = min(largest, peer.largest)
        run = self._hub.serve_run if largest >= RUN_FRAME_BYTES else None
        answer: Answer
        pos = owed = 0
        now = self._hub.watchdog.now
        began = now()
        self._serving = True
        try:
            while end - pos >= _LENGTH_BYTES:
                (size,) = _unpack_length(buffer, pos)
                if not 0 <= size <= largest:
                    raise ProtocolError(f"a request of {size} bytes ({_limit(peer)}={largest})")
                start = pos + _LENGTH_BYTES
                if start + size > end:
                    break
                if run is not None and start + size + _LENGTH_BYTES < end:
                    stop, answer = run(peer, buffer, pos, end)
                    if stop == pos:
                        run = None
                        continue
                    pos = stop
                else:
                    answer = serve(peer, buffer[start : start + size])
                    pos = start + size
                if isinstance(answer, _WHOLE) and self._turns is None:
                    out.append(answer)
                    owed += len(answer)
                    if self._held_back is not None or self._finishing:
                        break
                elif not self._take(answer):
                    break
                else:
                    owed += OWED_BYTES // 8  # its size is not known, or not in memory
                if owed >= OWED_BYTES:
                    owed = 0
                    self._send()
                    if out:
                        break
        except ProtocolError as error:
            self._send()
            self.close(str(error))
            return
        except Exception:  # noqa: BLE001  (the root of what a peer asks for)
            # Whatever it was, its cause is ours: no answer can be made, and the order would be broken.
            _log.exception("serving %s failed", self.peer)
            self._send()
            self.close("the broker failed to answer")
            return
        finally:
            self._serving = False
            took = now() - began
            if took > HELD_S:
                self._hub.watchdog.note_frames(took, peer, buffer[: max(pos, min(end, 64))])
        if self._pool is not None and pos and not self._muted:
            self._release()
        if not self._closed:
            if pos < end:
                self._keep(buffer, pos, end)
            if out and not self._writing:
                self._hub.send_soon(self)
            elif self._finishing and self.idle:
                self.close()

    def _take(self, answer: Answer) -> bool:
        """Put an answer in its place; False if no later request may be served now."""
        if answer is None or isinstance(answer, _READY):
            if self._turns is None:
                self._put(answer)
            else:
                turn = Turn()
                turn.done, turn.ready = True, answer
                self._turns.append(turn)
        elif isinstance(answer, Deferred):
            answer.then(self._await_turn(mute=not answer.pipelined))
        else:
            self._start(answer)
        return not (self._waits or self._closed or self._too_many_turns())

    def _await_turn(self, *, mute: bool) -> "Taker":
        turn = Turn()
        if self._turns is None:
            self._turns = deque()
        self._turns.append(turn)
        if mute:
            self._muted = True
        return Taker(self, turn, mute)

    def _start(self, answer: "Awaitable[Ready]") -> None:
        """Run a coroutine that makes an answer."""
        taker = self._await_turn(mute=True)
        task = asyncio.ensure_future(answer, loop=self._hub.loop)
        if self._tasks is None:
            self._tasks = set()
        self._tasks.add(task)
        task.add_done_callback(taker.task_done)

    def taken(self, turn: Turn, ready: Ready | Exception, *, unmute: bool) -> None:
        """An answer has come that was awaited."""
        if self._closed:
            return
        if isinstance(ready, Exception):
            if not isinstance(ready, ProtocolError):
                _log.error("serving %s failed", self.peer, exc_info=ready)
            self.close(str(ready) or type(ready).__name__)
            return
        turn.done, turn.ready = True, ready
        if unmute:
            self._muted = False
        held_up = unmute or self._finishing or self._too_many_turns()
        turns = self._turns
        while turns and turns[0].done:
            self._put(turns.popleft().ready)
        if not turns:
            self._turns = None
        if self._serving:
            return
        if held_up or self._writing:
            self._send()
            self._after_progress()
        elif self._out:
            # What lets one pipelined answer go often lets many go: one write for all of them.
            self._hub.send_soon(self)

    def _put(self, ready: Ready) -> None:
        if ready is None:
            return
        if isinstance(ready, _WHOLE):
            self._out.append(ready)
        else:
            self._out.extend(ready)

    def _too_many_turns(self) -> bool:
        return self._turns is not None and len(self._turns) >= PIPELINED_MAX

    # ------------------------------------------------------------------ sending

    def _send(self) -> None:
        """Send as much as the socket takes; the loop tells when it takes more."""
        probes = self._probes
        if probes is not None and not self._writing:
            for probe in probes:
                probe.sending()
        watch = self._hub.watch
        try:
            done = self._send_some() if watch is None else watch(self.peer, self._send_some)
        except OSError as error:
            self.close(str(error), logging.DEBUG)
            return
        if probes is not None and done:
            self._probes = None
            for probe in probes:
                probe.sent()
        if not done:
            self._sendfile_turns = SENDFILE_TURNS
        if done == self._writing:
            if done:
                self._hub.loop.remove_writer(self._fd)
            else:
                self._hub.loop.add_writer(self._fd, self._on_writable)
            self._writing = not done

    def _send_some(self) -> bool:
        """Send from the front of what is owed; True when all is sent."""
        hub, out = self._hub, self._out
        if self._sendfile_turns:
            # What a slow peer does not take would be read again and again: `sendfile` wastes nothing.
            self._sendfile_turns -= 1
            return send_some(self._sock, out, hub.send_buffer[:SLOW_SEND_BYTES], is_near=False)
        if not self._is_near or len(out) == 1:
            return send_some(self._sock, out, hub.send_buffer, is_near=self._is_near)
        began = hub.now()
        done = send_some(self._sock, out, hub.send_buffer, is_near=True)
        if hub.now() - began > LONG_SEND_S:
            self._sendfile_turns = SENDFILE_TURNS
        return done

    def send_now(self) -> None:
        """Send what the hub was asked to have sent soon."""
        if self._closed:
            return
        self._send()
        if not self._out and (self._finishing or not self._reading):
            self._after_progress()

    def _on_writable(self) -> None:
        self._send()
        if not self._out:
            self._after_progress()

    def _after_progress(self) -> None:
        """Something was answered or sent: go on with what that held up."""
        if self._closed:
            return
        if self._finishing:
            if self.idle:
                self.close()
            return
        if not self._muted and self._pool is not None and self._held is None:
            self._release()
        if not self._reading or (self._held is not None and not self._need):
            self._resume()


class Taker:
    """Brings an awaited answer to its turn."""

    __slots__ = ("_connection", "_mute", "_turn")

    def __init__(self, connection: Connection, turn: Turn, mute: bool) -> None:
        self._connection = connection
        self._turn = turn
        self._mute = mute

    def __call__(self, ready: Ready | Exception) -> None:
        self._connection.taken(self._turn, ready, unmute=self._mute)

    def task_done(self, task: "asyncio.Task[Ready]") -> None:
        tasks = self._connection._tasks
        if tasks is not None:
            tasks.discard(task)
        if task.cancelled():
            self._connection.close()
            return
        error = task.exception()
        if error is not None and not isinstance(error, Exception):
            raise error
        self(error if error is not None else task.result())


def _limit(peer: Peer) -> str:
    """The setting that a request was too large for."""
    return "socket.request.max.bytes" if peer.largest is None else "sasl.server.max.receive.size"
