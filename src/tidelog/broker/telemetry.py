"""What clients tell of themselves (KIP-714): asked for, bounded, counted, and the last numbers of each kept for the metrics.

A client asks what is wanted (GetTelemetrySubscriptions) and sends it every so often (PushTelemetry).  What is wanted are
settings, `client.telemetry.metrics` and its interval; a change makes another subscription, and a client that still names the
old one asks again.  One that sends before its time is told to wait, and is not listened to.
"""

import logging
import zlib
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
_POINTS = 200
_UNFOLDED = 10
"""How much larger telemetry may be when it is unfolded."""
_EARLY = 0.5
"""A client spreads its first message between half and one and a half of the interval."""


@dataclass(slots=True)
class ClientTelemetry:
    """What is known of one client, for as long as it sends."""

    client_id: str
    software: str
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

    def subscribe(self, instance: UUID, client_id: str, software: str) -> None:
        """A client has asked what is wanted."""
        known = self.clients.pop(instance, None) or ClientTelemetry(client_id, software)
        self.clients[instance] = known
        while len(self.clients) > _CLIENTS:
            del self.clients[next(iter(self.clients))]

    def push(
        self,
        instance: UUID,
        subscription_id: int,
        compression: int,
        data: bytes,
        *,
        terminating: bool,
    ) -> None:
        """Take a client's message, or raise why not."""
        try:
            self._push(instance, subscription_id, compression, data, terminating)
        except Exception:
            self.refused += 1
            raise

    def _push(
        self, instance: UUID, subscription_id: int, compression: int, data: bytes, ends: bool
    ) -> None:
        config = self._config()
        client = self.clients.get(instance)
        if client is None or subscription_id != self.subscription_id:
            raise UnknownSubscriptionId
        if client.terminated:
            raise InvalidRequest("the client has said already that it ends")
        if len(data) > config.telemetry_max_bytes:
            raise TelemetryTooLarge(
                f"{len(data)} bytes; telemetry.max.bytes is {config.telemetry_max_bytes}"
            )
        if compression not in (Codec.NONE, *ACCEPTED):
            raise UnsupportedCompressionType
        now = self._clock.monotonic()
        early = client.pushed_at is not None and (
            now - client.pushed_at < _EARLY * config.telemetry_interval_ms / 1000
        )
        if early and not ends:
            raise ThrottlingQuotaExceeded("the client sends before its time")
        limit = _UNFOLDED * config.telemetry_max_bytes
        try:
            found = points(bytes(decompress(Codec(compression), data, limit)), _POINTS)
        except (InvalidRecord, ProtocolError) as error:
            raise InvalidRequest(f"the telemetry cannot be read: {error}") from error
        client.pushed_at, client.terminated, client.points = now, ends, tuple(found)
        self.pushes += 1
        self.bytes += len(data)
        _log.debug("telemetry of %s: %d numbers", client.client_id, len(found))

    def fresh(self) -> list[tuple[UUID, ClientTelemetry]]:
        """The clients whose numbers are of their last three intervals; others are forgotten."""
        oldest = self._clock.monotonic() - 3 * self._config().telemetry_interval_ms / 1000
        for instance, client in list(self.clients.items()):
            if client.pushed_at is not None and client.pushed_at < oldest:
                del self.clients[instance]
        return [(key, each) for key, each in self.clients.items() if each.points]
