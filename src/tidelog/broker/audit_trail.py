"""The audit trail: who logged in or failed to, and who changed what, from where, as lines of JSON in a file or a topic.

    trail = AuditTrail(FileSink(path), broker_id, clock)        # or TopicSink(name)
    trail.sink.reach(config, ensure_topic)                      # when the broker serves
    trail.login(peer, mechanism)                # never waits; a queue that is full drops, and says how many
    background.run("audit trail", trail.run())  # writes what is queued, in order, again until it is written
    await trail.close()

An event is in the trail some moments after it was answered; a broker that is killed loses those that were not written yet.
Every text is escaped and cut, so that no name can forge a line.  Absent: reads, and what is refused to those who only look
(that is the log `tidelog.refused`).
"""

import asyncio
import contextlib
import json
import logging
import math
import os
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from tidelog.broker.audited import changes
from tidelog.clock import Clock
from tidelog.errors import TidelogError, error_of
from tidelog.network.peer import Peer

if TYPE_CHECKING:
    from tidelog.client.producer import AsyncProducer

log = logging.getLogger(__name__)

_MOST_QUEUED = 10_000
_MOST_AT_ONCE = 500
_CROWD = 100
"""When so many wait, a login that is like one that waits is not told again."""
_MOST_CHANGES = 1_000
"""Of one request; that there were more is told."""
_LONGEST_TEXT = 500
_MOST_PARTS = 50
_PAUSE_S = 1.0
_TOLD_AGAIN_S = 60.0
_SETTLE_S = 3.0
_HASTE = {"acks": "all", "delivery.timeout.ms": "10000", "request.timeout.ms": "5000"}


Config = Callable[[], Mapping[str, Any]]
EnsureTopic = Callable[[str], Awaitable[object]]


class Sink(Protocol):
    """Where lines go."""

    def reach(self, config: Config, ensure_topic: EnsureTopic) -> None:
        """How a client comes to this broker, and what makes a topic."""
        ...

    async def write(self, lines: Sequence[bytes]) -> None:
        """Keep them, or raise `OSError` or `TidelogError`: then they come again."""
        ...

    async def close(self) -> None: ...


class AuditTrail:
    """See the module's docstring."""

    def __init__(self, sink: Sink, broker_id: int, clock: Clock) -> None:
        self.sink = sink
        self._broker_id = broker_id
        self._clock = clock
        self._queue: deque[bytes] = deque()
        self._lost = 0
        self._more = asyncio.Event()
        self._idle = asyncio.Event()
        """Nothing is left to be written."""
        self._idle.set()
        self._told_at: float | None = None
        """When it was last logged that nothing can be written; None while all is well."""
        self._crowd: set[tuple[str, str, str]] = set()
        """Who logged in while much waits to be written.  Bounded as the queue is."""

    # ------------------------------------------------------------------ events

    def login(self, peer: Peer, mechanism: str) -> None:
        """`peer` has logged in as its principal."""
        if len(self._queue) >= _CROWD:
            # Those who come again and again, the trail's own client among them, must not crowd out the rest.
            who = (str(peer.principal), peer.address.host, mechanism)
            if who in self._crowd:
                return
            self._crowd.add(who)
        self._tell("login", peer, "", 0, {"mechanism": mechanism, "listener": peer.listener})

    def login_failed(self, peer: Peer, mechanism: str, user: str, why: str) -> None:
        """Somebody said that he was `user`, and could not prove it."""
        detail = {"mechanism": mechanism, "listener": peer.listener, "user": user, "reason": why}
        self._tell("login", peer, "", 58, detail)  # SaslAuthenticationFailed

    def changed(self, api_key: int, request: Any, response: Any, peer: Peer) -> None:
        """What a request has changed; nothing for most."""
        for number, each in enumerate(changes(api_key, request, response)):
            if number == _MOST_CHANGES:
                self._tell("more", peer, "", 0, {"after": _MOST_CHANGES})
                return
            self._tell(each.event, peer, each.resource, each.error_code, each.detail)

    def created_automatically(self, topics: Sequence[str], peer: Peer) -> None:
        """A client asked for topics that were not there."""
        for each in topics:
            self._tell("topic.create", peer, each, 0, {"automatic": True})

    def _tell(
        self, event: str, peer: Peer, resource: str, error_code: int, detail: Mapping[str, Any]
    ) -> None:
        if len(self._queue) >= _MOST_QUEUED:
            self._lost += 1
            return
        told: dict[str, Any] = {
            "time": _iso(self._clock.now_ms()),
            "broker": self._broker_id,
            "event": event,
            "principal": str(peer.principal),
            "address": peer.address.host,
            "outcome": "failed" if error_code else "done",
        }
        if peer.handed_on_by is not None:
            # Where there are no access rules anybody may say so: the trail tells who did.
            by = peer.handed_on_by
            told["handed_on_by"] = f"{by.principal} {by.address.host}"
        if error_code:
            told["error"] = type(error_of(error_code)).__name__
        if resource:
            told["resource"] = resource
        if detail:
            told["detail"] = detail
        self._queue.append(json.dumps(_bounded(told), separators=(",", ":")).encode())
        self._idle.clear()
        self._more.set()

    # ------------------------------------------------------------------ writing

    async def run(self) -> None:
        """Write what is queued, for ever."""
        while True:
            await self._more.wait()
            self._more.clear()
            while self._queue:
                if not await self._write_some():
                    await asyncio.sleep(_PAUSE_S)

    async def settle(self) -> None:
        """Return when all that was told is written, or cannot be for now."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SETTLE_S):
                await self._idle.wait()

    async def close(self) -> None:
        """Write what is left, as far as that is possible; `run` has ended."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SETTLE_S):
                while self._queue and await self._write_some():
                    pass
                await self.sink.close()
        if self._queue:
            log.error("%d events are not in the audit trail", len(self._queue))

    async def _write_some(self) -> bool:
        """Write the oldest; they leave the queue when they are written."""
        lines = [self._queue[each] for each in range(min(len(self._queue), _MOST_AT_ONCE))]
        lost = self._lost
        if lost:
            told = {"time": _iso(self._clock.now_ms()), "broker": self._broker_id}
            lines.append(json.dumps({**told, "event": "lost", "count": lost}).encode())
        try:
            await self.sink.write(lines)
        except (OSError, TidelogError) as error:
            self._complain(error)
            return False
        for _ in range(len(lines) - bool(lost)):
            self._queue.popleft()
        self._lost -= lost
        self._told_at = None
        if not self._queue:
            self._crowd.clear()
            self._idle.set()
        return True

    def _complain(self, error: Exception) -> None:
        now = self._clock.monotonic()
        if self._told_at is None or now - self._told_at >= _TOLD_AGAIN_S:
            self._told_at = now
            log.error("the audit trail cannot be written, and is tried again: %s", error)


class FileSink:
    """Appends to a file, which may be moved away while it is written to: then there is a new one."""

    def __init__(self, path: str) -> None:
        self._path = path

    def reach(self, config: Config, ensure_topic: EnsureTopic) -> None:
        pass

    async def write(self, lines: Sequence[bytes]) -> None:
        await asyncio.to_thread(self._append, b"".join(each + b"\n" for each in lines))

    async def close(self) -> None:
        pass

    def _append(self, data: bytes) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        file = os.open(self._path, flags, 0o600)
        try:
            before = os.fstat(file).st_size
            try:
                view = memoryview(data)
                while view:
                    view = view[os.write(file, view) :]
            except OSError:
                os.ftruncate(file, before)  # half a line would spoil the next
                raise
            os.fdatasync(file)
        finally:
            os.close(file)


class TopicSink:
    """Writes to a topic, as the broker itself; the topic is made when it is missing."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._config: Config | None = None
        self._ensure_topic: EnsureTopic | None = None
        self._producer: AsyncProducer | None = None

    def reach(self, config: Config, ensure_topic: EnsureTopic) -> None:
        self._config, self._ensure_topic = config, ensure_topic

    async def write(self, lines: Sequence[bytes]) -> None:
        if self._producer is None:
            if self._config is None or self._ensure_topic is None:
                raise TidelogError("the broker does not serve yet")
            from tidelog.client.producer import AsyncProducer  # a broker without a trail needs none

            await self._ensure_topic(self._topic)
            self._producer = AsyncProducer({**self._config(), **_HASTE})
        deliveries = [await self._producer.send(self._topic, each) for each in lines]
        for each in deliveries:
            await each

    async def close(self) -> None:
        if self._producer is not None:
            await self._producer.close()


def _bounded(value: Any) -> Any:
    """The same, with long texts cut and long lists shortened."""
    if isinstance(value, str):
        return value if len(value) <= _LONGEST_TEXT else value[:_LONGEST_TEXT] + "…"
    if isinstance(value, Mapping):
        return {_bounded(key): _bounded(each) for key, each in list(value.items())[:_MOST_PARTS]}
    if isinstance(value, list | tuple):
        return [_bounded(each) for each in value[:_MOST_PARTS]]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no word for it
    return value


def _iso(now_ms: int) -> str:
    return datetime.fromtimestamp(now_ms / 1000, UTC).isoformat(timespec="milliseconds")
