"""What one group of clients uses of one thing, against its limit, and what came of it.

    account = Account(PRODUCER_BYTE_RATE, limit, QuotaConfig())
    delay = account.use(size_bytes, now)            # seconds for which to hold who used it, mostly 0

That a group begins and ceases to be throttled is a line in the log each; single delays are only counted.
"""

import logging

from tidelog.quotas.config import QuotaConfig
from tidelog.quotas.limits import REQUEST_PERCENTAGE, Group, Limit
from tidelog.quotas.usage import Usage

LONGEST_DELAY_S = 25.0
"""Many clients, librdkafka among them, do not wait by themselves: their next request waits here.  After half a minute they take
it for lost, and send it again over a new connection, while the old one is still served when its time has come."""

_log = logging.getLogger(__name__)


class Delays:
    """Delays of all groups by one kind of quota; for metrics."""

    __slots__ = ("count", "seconds")

    def __init__(self) -> None:
        self.count = 0
        self.seconds = 0.0


class Account:
    """One group's use of one thing.  `delays` and the like only grow: metrics may read them at any time."""

    __slots__ = (
        "_all",
        "_since",
        "_usage",
        "_window_s",
        "delayed_s",
        "delays",
        "key",
        "limit",
        "used",
    )

    def __init__(
        self, key: str, limit: Limit, config: QuotaConfig, all_delays: Delays | None = None
    ) -> None:
        self.key = key
        self.limit = limit
        self._all = all_delays or Delays()
        self.used = 0.0
        """In all, since the group has its limit: bytes, or percents times seconds."""
        self.delays = 0
        self.delayed_s = 0.0
        """Sum of all delays that were told."""
        self._since: tuple[int, float] | None = None
        """While throttled: `delays` and `delayed_s` before it began."""
        self._window_s = config.window_s
        # As in Kafka's ClientRequestQuotaManager: time is spent on heartbeats too, which must not come too late.
        longest_s = config.window_s if key == REQUEST_PERCENTAGE else LONGEST_DELAY_S
        self._usage = Usage(config.window_s, config.windows, longest_s)

    @property
    def group(self) -> Group:
        return self.limit.group

    @property
    def is_throttled(self) -> bool:
        return self._since is not None

    @property
    def at_once(self) -> float:
        """What one window allows; who asks for more gets it in parts."""
        return self.limit.value * self._window_s

    @property
    def used_at(self) -> float:
        return self._usage.used_at

    def rate(self, now: float) -> float:
        """A second, on the average of the windows."""
        return self._usage.rate(now)

    def use(self, amount: float, now: float) -> float:
        """Count what was used; for how many seconds to hold who used it."""
        self.used += amount
        return self._delayed(self._usage.record(amount, self.limit.value, now), now)

    def ask(self, amount: float, now: float) -> tuple[bool, float]:
        """Whether `amount` may be used now, in which case it is counted, and for how long to hold who asked."""
        granted, delay = self._usage.ask(amount, self.limit.value, now)
        if granted:
            self.used += amount
        return granted, self._delayed(delay, now)

    def settle(self, now: float) -> None:
        """To be called now and then: note that the group is no longer throttled."""
        if self._since is not None and not self._usage.settle(now):
            delays, delayed_s = self._since
            self._since = None
            _log.info(
                "%s is no longer throttled: it was held %d times, %.1f s in all",
                told(self.group),
                self.delays - delays,
                self.delayed_s - delayed_s,
            )

    def _delayed(self, delay: float, now: float) -> float:
        if not delay:
            return 0.0
        if self._since is None:
            self._since = self.delays, self.delayed_s
            _log.info(
                "%s is throttled: it uses %.4g a second, and %s=%.10g by the quota of %s; held for %.0f ms",
                told(self.group),
                self.rate(now),
                self.key,
                self.limit.value,
                self.limit.entity,
                delay * 1000,
            )
        self.delays += 1
        self.delayed_s += delay
        self._all.count += 1
        self._all.seconds += delay
        return delay


def told(group: Group) -> str:
    """In words, for the log."""
    user, client_id = group
    named = [f"user {user}"] if user else []
    if client_id or not user:
        named.append(f"client {client_id or '(without a name)'}")
    return ", ".join(named)
