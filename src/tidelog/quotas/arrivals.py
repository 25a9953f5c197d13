"""How fast new connections may come: of one address by its quota, of a listener and of the broker by settings (KIP-612).

An address that exceeds its quota is refused; what exceeds a rate of the broker's waits to be accepted.
"""

import logging
from collections.abc import Callable, Mapping

from tidelog.quotas.config import NO_RATE, QuotaConfig
from tidelog.quotas.limits import Limits
from tidelog.quotas.usage import Usage

_FORGET_AFTER_S = 60.0

_log = logging.getLogger(__name__)


class Arrivals:
    """Counts connections as they come.  Runs on the loop alone."""

    def __init__(
        self,
        monotonic: Callable[[], float],
        config: Callable[[], QuotaConfig],
        by_listener: Mapping[str, int],
        exempt: str | None = None,
    ) -> None:
        """`by_listener` are rates of single listeners; the broker's does not hold for the `exempt` one."""
        self._monotonic = monotonic
        self._config = config
        self._by_listener = by_listener
        self._exempt = exempt
        self._limits = Limits({})
        self._hosts: dict[str, tuple[float, Usage]] = {}
        """Rate and use of each address that has come lately."""
        self._listeners: dict[str, Usage] = {}
        self._broker = self._usage()
        self._told: dict[str, float] = {}
        """Addresses and listeners of which the log says that they are limited, and when that is over."""
        self.refused = 0
        """Connections refused by the quota of their address, in all."""

    @property
    def limited(self) -> bool:
        """Whether there is any limit at all."""
        by_ip = any(entity.ip is not None for entity in self._limits.by_entity)
        return by_ip or bool(self._by_listener) or self._config().connection_rate < NO_RATE

    def follow(self, limits: Limits) -> None:
        """Obey these quotas of addresses from now on."""
        self._limits = limits

    def refused_for(self, host: str) -> float:
        """Count a connection from `host`; above 0 if it is too many: seconds after which to close it."""
        rate = self._limits.connection_rate(host)
        if rate is None:
            return 0.0
        now = self._monotonic()
        known = self._hosts.get(host)
        if known is None or known[0] != rate:
            known = self._hosts[host] = rate, self._usage()
        granted, delay = known[1].ask(1, rate, now)
        if granted:
            return 0.0
        self.refused += 1
        if host not in self._told:
            _log.info(
                "some connections from %s are refused: connection_creation_rate=%g", host, rate
            )
        self._told[host] = now + _FORGET_AFTER_S
        # Not at once, or it would be back at once; not late either, or it would hold too many.
        return min(delay, float(self._config().window_s))

    def paused_for(self, listener: str) -> float:
        """Count a connection to `listener`; seconds for which to accept no more there."""
        now = self._monotonic()
        delay = 0.0
        own = self._by_listener.get(listener)
        if own is not None:
            if listener not in self._listeners:
                self._listeners[listener] = self._usage()
            delay = self._listeners[listener].record(1, own, now)
        rate = self._config().connection_rate
        if rate < NO_RATE and listener != self._exempt:
            delay = max(delay, self._broker.record(1, rate, now))
        if delay:
            if listener not in self._told:
                _log.info(
                    "connections to %s wait: max.connection.creation.rate=%d",
                    listener,
                    min(own or NO_RATE, rate),
                )
            self._told[listener] = now + _FORGET_AFTER_S
        return delay

    def _usage(self) -> Usage:
        config = self._config()
        return Usage(config.window_s, config.windows)

    def sweep(self) -> None:
        """To be called now and then: note what is over, and forget who has not come for long."""
        now = self._monotonic()
        for who in [who for who, until in self._told.items() if until <= now]:
            del self._told[who]
            _log.info("no connection of %s is refused or waits any more", who)
        old = now - _FORGET_AFTER_S
        if self._hosts:
            self._hosts = {k: each for k, each in self._hosts.items() if each[1].used_at >= old}
