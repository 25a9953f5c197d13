"""The simulated network: byte streams between hosts, as TCP gives them.

    network = SimNetwork(loop)
    broker = Broker(settings, network=network.open_socket, ...)   its listeners, hub and connections are the real ones
    network.cut("b1", "b2")                                        nothing goes from b1 to b2 until `heal`

Bytes of one direction arrive in order, whole or in parts.  A cut link holds them back, as retransmission does: what was
sent arrives after the link is healed, or never when the connection breaks.  Loss is a stall or a break, never a gap.
A process that is killed resets its connections; a host without power says nothing, and resets them when it is back and
asked, at the latest by a client's keepalive.
"""

import asyncio
import zlib
from collections import deque
from collections.abc import Callable
from typing import Any

from tidelog.network.config import NetworkConfig

from .loop import CURRENT, Process, SimLoop
from .sockets import EOF, PROBE, RESET, Endpoint, ListeningSocket, ServerSocket, Transport

_SPLIT = 0.02
"""How often what was sent arrives in two parts."""
_FIRST_RETRY_S = 0.2
_LONGEST_RETRY_S = 1.0
KEEPALIVE_S = 10.0
"""As `tidelog.client.connection` asks for."""
_FIRST_DESCRIPTOR = 1 << 20


class Pipe:
    """One direction of a connection."""

    def __init__(self, network: "SimNetwork", source: Endpoint, target: Endpoint) -> None:
        self.source = source
        self.target = target
        self.unread = 0
        """Bytes that were sent and not yet taken; the sender waits when there are too many."""
        self.link = network.link(source.host, target.host)
        self._network = network
        self._loop = network.loop
        self._queue: deque[tuple[float, Any]] = deque()
        self._last = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._stalled = False

    def put(self, item: Any) -> None:
        """Send bytes, `EOF` or `RESET`."""
        chance = self._network.chance
        link = self.link
        if isinstance(item, bytes):
            self.unread += len(item)
            if len(item) > 1 and chance.random() < _SPLIT:
                at = chance.randrange(1, len(item))
                self._enqueue(item[:at], link.delay(chance))
                item = item[at:]
        self._enqueue(item, link.delay(chance))

    def _enqueue(self, item: Any, delay: float) -> None:
        # Invariant: what was sent later never arrives earlier.
        self._last = max(self._last, self._loop.time() + delay)
        self._queue.append((self._last, item))
        self._schedule()

    def _schedule(self) -> None:
        if self._timer is None and self._queue and not self._stalled:
            self._timer = self._loop.call_at(
                self._queue[0][0], self._arrive, context=self._network.context
            )

    def _arrive(self) -> None:
        self._timer = None
        if self.link.cut or not self._network.is_up(self.target.host):
            self._stalled = True
            return
        now = self._loop.time()
        while self._queue and self._queue[0][0] <= now:
            _, item = self._queue.popleft()
            self._network.note(self.source, self.target, item)
            self.target.take(item)
        self._schedule()

    def go_on(self, delay: float) -> None:
        """The link is there again."""
        if self._stalled:
            self._stalled = False
            self._last = max(self._last, self._loop.time() + delay)
            self._queue = deque((max(when, self._last), item) for when, item in self._queue)
            self._schedule()

    def lose(self, keep: int) -> None:
        """Forget what is on its way but for the first `keep` items."""
        while len(self._queue) > keep:
            self._queue.pop()


class Link:
    """The way from one host to another."""

    def __init__(self) -> None:
        self.cut = False
        self.latency_s = 0.0005
        self.jitter_s = 0.0005

    def delay(self, chance: Any) -> float:
        return float(self.latency_s + chance.random() * self.jitter_s)


class SimNetwork:
    """Hosts, the links between them, and the connections over those."""

    def __init__(self, loop: SimLoop) -> None:
        self.loop = loop
        self.chance = loop.chance_for("network")
        self.context = Process("the network").context
        self.trace = 0
        """A checksum over everything that was delivered, and when: equal for equal runs."""
        self.delivered = 0
        self._links: dict[tuple[str, str], Link] = {}
        self._down: set[str] = set()
        self._listeners: dict[tuple[str, int], ListeningSocket] = {}
        self._sockets: dict[int, Any] = {}
        self._pipes: dict[Pipe, None] = {}
        self._next_port = 40_000
        loop.connect = self._connect
        loop.watch = self._sockets.__getitem__

    # ------------------------------------------------------------------ faults

    def link(self, source: str, target: str) -> Link:
        return self._links.setdefault((source, target), Link())

    def cut(self, source: str, target: str) -> None:
        """Let nothing through in this direction."""
        self.link(source, target).cut = True

    def heal(self, source: str, target: str) -> None:
        link = self.link(source, target)
        if link.cut:
            link.cut = False
            for pipe in list(self._pipes):
                if pipe.link is link:
                    pipe.go_on(self._retransmission())

    def is_cut(self, source: str, target: str) -> bool:
        found = self._links.get((source, target))
        return found is not None and found.cut

    def heal_all(self) -> None:
        for source, target in list(self._links):
            self.heal(source, target)
            link = self.link(source, target)
            link.latency_s, link.jitter_s = Link().latency_s, Link().jitter_s

    def power_off(self, host: str) -> None:
        """The host goes silent; the caller kills its processes."""
        self._down.add(host)

    def power_on(self, host: str) -> None:
        self._down.discard(host)
        for pipe in list(self._pipes):
            if pipe.target.host == host:
                pipe.go_on(self._retransmission())
                # Who waits for an answer sends nothing; TCP's keepalive finds out that nobody is there.
                if pipe.source.dialled:
                    self.loop.call_later(KEEPALIVE_S, self._probe, pipe, context=self.context)

    def _probe(self, pipe: Pipe) -> None:
        if pipe in self._pipes and not pipe.target.process.alive:
            pipe.put(PROBE)

    def is_up(self, host: str) -> bool:
        return host not in self._down

    def process_died(self, process: Process) -> None:
        """Its listeners are gone; its connections are reset, if the host is there to say so."""
        for place, listener in list(self._listeners.items()):
            if listener.process is process:
                listener.abandon()
                del self._listeners[place]
        silent = not self.is_up(process.host)
        for pipe in list(self._pipes):
            if pipe.source.process is process:
                if silent:
                    pipe.lose(0)
                else:
                    pipe.put(RESET)

    def connections(self, source: str, target: str) -> "list[Pipe]":
        """The open connections that `source` has dialled at `target`."""
        return [
            each
            for each in self._pipes
            if each.source.dialled and (each.source.host, each.target.host) == (source, target)
        ]

    def break_connection(self, pipe: Pipe) -> None:
        """Both ends see a reset, and any end of what was on its way is lost."""
        for each in (pipe, pipe.target.out):
            if each is not None and each in self._pipes:
                each.lose(self.chance.randrange(3))
                each.put(RESET)

    def _retransmission(self) -> float:
        return self.chance.random() * _FIRST_RETRY_S

    # ------------------------------------------------------------------ what the nodes use

    def open_socket(self, host: str, port: int, config: NetworkConfig) -> Any:
        """As `tidelog.network.listener.open_socket`."""
        place = (host, port)
        if place in self._listeners:
            raise OSError(98, "Address already in use")
        listener = ListeningSocket(self, self._process(), self._descriptor(), place)
        self._listeners[place] = listener
        self._sockets[listener.fileno()] = listener
        return listener

    async def _connect(self, make: Callable[[], Any], host: str, port: int) -> Any:
        process = self._process()
        retry = _FIRST_RETRY_S
        while True:
            await asyncio.sleep(self.link(process.host, host).delay(self.chance))
            if self._reaches(process.host, host):
                break
            await asyncio.sleep(retry * (0.5 + self.chance.random()))
            retry = min(2 * retry, _LONGEST_RETRY_S)
        listener = self._listeners.get((host, port))
        await asyncio.sleep(self.link(host, process.host).delay(self.chance))
        if listener is None or listener.closed or not listener.listening:
            raise ConnectionRefusedError(111, "Connection refused")
        protocol = make()
        transport = Transport(self, process, protocol, (process.host, self._port()), (host, port))
        server = ServerSocket(
            self, listener.process, self._descriptor(), (host, port), transport.local
        )
        transport.out = Pipe(self, transport, server)
        server.out = Pipe(self, server, transport)
        self._pipes[transport.out] = self._pipes[server.out] = None
        self._sockets[server.fileno()] = server
        protocol.connection_made(transport)
        listener.connected(server)
        return transport, protocol

    def _reaches(self, source: str, target: str) -> bool:
        return (
            self.is_up(target)
            and not self.is_cut(source, target)
            and not self.is_cut(target, source)
        )

    def unlisten(self, listener: ListeningSocket) -> None:
        if self._listeners.get(listener.place) is listener:
            del self._listeners[listener.place]

    def forget(self, endpoint: Endpoint) -> None:
        """Both ends of a connection are gone."""
        pipe = endpoint.out
        if pipe is not None:
            self._pipes.pop(pipe, None)
            if pipe.target.out is not None:
                self._pipes.pop(pipe.target.out, None)

    def note(self, source: Endpoint, target: Endpoint, item: Any) -> None:
        """Take a delivery into the checksum of the run."""
        self.delivered += 1
        text = f"{self.loop.time():.9f} {source.host}>{target.host} "
        data = item if isinstance(item, bytes) else repr(item).encode()
        self.trace = zlib.crc32(data, zlib.crc32(text.encode(), self.trace))

    def _process(self) -> Process:
        process = CURRENT.get()
        assert process is not None, "only a simulated process has a network"
        return process

    def _descriptor(self) -> int:
        return _FIRST_DESCRIPTOR + len(self._sockets)

    def _port(self) -> int:
        self._next_port += 1
        return self._next_port


__all__ = ["EOF", "RESET", "Link", "Pipe", "SimNetwork"]
