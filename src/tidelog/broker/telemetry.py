"""What clients tell of themselves (KIP-714): asked for, bounded, counted, and the last numbers of each kept for the metrics.

A client asks what is wanted (GetTelemetrySubscriptions) and sends it every so often (PushTelemetry).  What is wanted are
settings, `client.telemetry.metrics` and its interval; a change makes another subscription, and a client that still names the
old one asks again.  One that sends before its time is told to wait, and is not listened to; nor is anybody while nothing is
wanted.  A client gives itself its id, so what can be used up is counted by whom it has logged in as: how many are
known, and how many messages come in an interval.
"""

import asyncio
import logging
import zlib
from collections import Counter
from collections.abc import Callable
from uuid import UUID

from tidelog.broker.monitoring_config import MonitoringConfig
from tidelog.broker.otlp import Point, points
from tidelog.clock import Clock
from tidelog.dataclass import dataclass
from tidelog.errors import (
    InvalidRecord,
    InvalidRequest,
    ProtocolError,
    TelemetryTooLarge,
    ThrottlingQuotaExceeded,
    UnknownSubscriptionId,
    UnsupportedCompressionType,
)
from tidelog.records.compression import Codec, decompress

_log = logging.getLogger(__name__)

ACCEPTED = (Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY)
"""Compressions, the preferred one first."""

_CLIENTS = 1000
_PUSHES = 1000
"""Of one principal in an interval."""
_POINTS = 200
_KEPT_BYTES = 64 * 1024
"""Names and attributes that are kept of one client."""
_UNFOLDED = 4
"""How much larger telemetry may be when it is unfolded."""
_UNFOLDED_BYTES = 4 * 1024 * 1024
"""What it may unfold to, however large it may come."""
_NAME = 256
_EARLY = 0.5
"""A client spreads its first message between half and one and a half of the interval."""


@dataclass(slots=True)
class ClientTelemetry:
    """What is known of one client, for as long as it sends."""

    client_id: str
    software: str
    principal: str = ""
    pushed_at: float | None = None
    terminated: bool = False
    points: tuple[Point, ...] = ()
    """Of its last message."""


class Telemetry:
    """Of one broker."""

    def __init__(
        self,
        clock: Clock,
        config: Callable[[], MonitoringConfig],
        new_id: Callable[[], UUID],
    ) -> None:
        self._clock = clock
        self.new_id = new_id
        """For a client that has no id yet."""
        self._config = config
        self.clients: dict[UUID, ClientTelemetry] = {}
        """By the id of the client's instance; the one that was heard of last is the last."""
        self._pushed: dict[str, tuple[float, int]] = {}
        """By principal: when the interval began, and how many messages have come in it."""
        self.pushes = 0
        self.bytes = 0
        self.refused = 0

    @property
    def requested(self) -> list[str]:
        """The beginnings of names, as they are told to clients: one empty text stands for all."""
        wanted = self._config().telemetry_metrics
        return [""] if "*" in wanted else list(wanted)

    @property
    def subscription_id(self) -> int:
        """Differs when something else is wanted."""
        config = self._config()
        told = f"{sorted(config.telemetry_metrics)} {config.telemetry_interval_ms}"
        return zlib.crc32(told.encode()) & 0x7FFF_FFFF

    def subscribe(self, instance: UUID, client_id: str, software: str, principal: str = "") -> None:
        """A client has asked what is wanted; it is noted if anything is."""
        if not self.requested:
            return
        known = self.clients.pop(instance, None)
        if known is None or known.principal != principal:
            known = ClientTelemetry(client_id[:_NAME], software[:_NAME], principal)
        self.clients[instance] = known
        if len(self.clients) > _CLIENTS:
            self._forget_one()

    def _forget_one(self) -> None:
        """The oldest of whoever has most: nobody can push the clients of others out."""
        ((greedy, _),) = Counter(each.principal for each in self.clients.values()).most_common(1)
        oldest = next(key for key, each in self.clients.items() if each.principal == greedy)
        del self.clients[oldest]

    async def push(
        self,
        instance: UUID,
        subscription_id: int,
        compression: int,
        data: bytes,
        *,
        terminating: bool,
        principal: str = "",
    ) -> None:
        """Take a client's message, or raise why not."""
        try:
            client = self._checked(instance, subscription_id, compression, data, principal)
            await self._push(client, Codec(compression), data, terminating)
        except Exception:
            self.refused += 1
            raise

    def _checked(
        self, instance: UUID, subscription_id: int, compression: int, data: bytes, principal: str
    ) -> ClientTelemetry:
        """The client, if it may send at all."""
        config = self._config()
        client = self.clients.get(instance)
        if (
            client is None
            or client.principal != principal
            or subscription_id != self.subscription_id
            or not self.requested
        ):
            raise UnknownSubscriptionId
        if client.terminated:
            raise InvalidRequest("the client has said already that it ends")
        if len(data) > config.telemetry_max_bytes:
            raise TelemetryTooLarge(
                f"{len(data)} bytes; telemetry.max.bytes is {config.telemetry_max_bytes}"
            )
        if compression not in (Codec.NONE, *ACCEPTED):
            raise UnsupportedCompressionType
        return client

    async def _push(self, client: ClientTelemetry, codec: Codec, data: bytes, ends: bool) -> None:
        config = self._config()
        now = self._clock.monotonic()
        early = client.pushed_at is not None and (
            now - client.pushed_at < _EARLY * config.telemetry_interval_ms / 1000
        )
        if early and not ends:
            raise ThrottlingQuotaExceeded("the client sends before its time")
        self._count(client.principal, now, config.telemetry_interval_ms / 1000)
        # From here on it costs something, so a message that is refused counts as one that came.
        client.pushed_at, client.terminated = now, ends
        limit = max(min(_UNFOLDED * config.telemetry_max_bytes, _UNFOLDED_BYTES), len(data))
        try:
            found = await asyncio.to_thread(_read, codec, data, limit, tuple(self.requested))
        except (InvalidRecord, ProtocolError) as error:
            raise InvalidRequest(f"the telemetry cannot be read: {error}") from error
        client.points = _that_fit(found)
        self.pushes += 1
        self.bytes += len(data)
        _log.debug("telemetry of %s: %d numbers", client.client_id, len(found))

    def _count(self, principal: str, now: float, interval_s: float) -> None:
        began, count = self._pushed.get(principal, (now, 0))
        if now - began >= interval_s:
            began, count = now, 0
        if count >= _PUSHES:
            raise ThrottlingQuotaExceeded(f"{principal} has sent {count} messages in an interval")
        if len(self._pushed) > _CLIENTS:
            self._pushed.clear()
        self._pushed[principal] = began, count + 1

    def fresh(self) -> list[tuple[UUID, ClientTelemetry]]:
        """The clients whose numbers are of their last three intervals; others are forgotten."""
        oldest = self._clock.monotonic() - 3 * self._config().telemetry_interval_ms / 1000
        for instance, client in list(self.clients.items()):
            if client.pushed_at is not None and client.pushed_at < oldest:
                del self.clients[instance]
        return [(key, each) for key, each in self.clients.items() if each.points]


def _read(codec: Codec, data: bytes, limit: int, beginnings: tuple[str, ...]) -> list[Point]:
    """In a thread: it takes its time."""
    return points(bytes(decompress(codec, data, limit)), _POINTS, beginnings)


def _that_fit(found: list[Point]) -> tuple[Point, ...]:
    """The first of them, as many as may be kept."""
    left = _KEPT_BYTES
    kept = []
    for each in found:
        left -= len(each.name) + sum(len(key) + len(text) for key, text in each.attributes)
        if left < 0:
            break
        kept.append(each)
    return tuple(kept)
