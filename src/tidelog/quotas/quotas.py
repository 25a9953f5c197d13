"""What each group of clients has used, against its limit: says for how long a client is to be held.

    quotas = Quotas(lambda: image.limits, window_s=1.0, windows=11)
    delay = quotas.used(PRODUCER_BYTE_RATE, "alice", "billing", size_bytes, now)      # seconds, mostly 0

Limits belong to one broker; a client that uses several has the limit on each of them.  Costs one look-up where nobody is
limited.
"""

from collections.abc import Callable

from tidelog.quotas.limits import (
    CONTROLLER_MUTATION_RATE,
    Group,
    Limit,
    Limits,
)
from tidelog.quotas.usage import TokenBucket, Usage

_FORGET_AFTER_S = 3600.0
_SWEEP_EVERY_S = 600.0


class Quotas:
    """Usage of one broker; runs on the loop alone."""

    def __init__(self, limits: Callable[[], Limits], window_s: float, windows: int) -> None:
        self._limits = limits
        self._window_s = window_s
        self._windows = windows
        self._usages: dict[tuple[str, Group], Usage] = {}
        self._buckets: dict[Group, TokenBucket] = {}
        self._found: dict[tuple[str, str, str], Limit | None] = {}
        self._found_in: Limits | None = None
        self._swept_at = 0.0

    def limit(self, key: str, user: str, client_id: str) -> Limit | None:
        """The limit of a client; remembered until a limit changes."""
        limits = self._limits()
        if limits is not self._found_in:
            self._found.clear()
            self._found_in = limits
        if not limits.by_entity:
            return None
        who = (key, user, client_id)
        if who not in self._found:
            if len(self._found) > 10_000:  # client ids are chosen by clients
                self._found.clear()
            self._found[who] = limits.find(key, user, client_id)
        return self._found[who]

    def used(self, key: str, user: str, client_id: str, amount: float, now: float) -> float:
        """Count what a client used; for how many seconds it is to be held."""
        limit = self.limit(key, user, client_id)
        if limit is None:
            return 0.0
        usage = self._usage(key, limit.group, now)
        usage.record(amount, now)
        return usage.delay(limit.value, now)

    def take_back(self, key: str, user: str, client_id: str, amount: float, now: float) -> None:
        """What was counted is not sent after all."""
        limit = self.limit(key, user, client_id)
        if limit is not None:
            self._usage(key, limit.group, now).record(-amount, now)

    def mutation_delay(self, user: str, client_id: str, now: float) -> float:
        """Seconds until a client may change the cluster's metadata again."""
        limit = self.limit(CONTROLLER_MUTATION_RATE, user, client_id)
        if limit is None:
            return 0.0
        return self._bucket(limit.group).delay(limit.value, self._burst_s, now)

    def mutated(self, user: str, client_id: str, changes: int, now: float) -> None:
        """A client created, grew or deleted so many partitions."""
        limit = self.limit(CONTROLLER_MUTATION_RATE, user, client_id)
        if limit is not None:
            self._bucket(limit.group).record(changes, limit.value, self._burst_s, now)

    @property
    def _burst_s(self) -> float:
        return self._window_s * self._windows

    def _usage(self, key: str, group: Group, now: float) -> Usage:
        found = self._usages.get((key, group))
        if found is None:
            self._sweep(now)
            found = self._usages[key, group] = Usage(self._window_s, self._windows)
        return found

    def _bucket(self, group: Group) -> TokenBucket:
        return self._buckets.setdefault(group, TokenBucket())

    def _sweep(self, now: float) -> None:
        """Forget who has not been seen for long."""
        if now - self._swept_at < _SWEEP_EVERY_S:
            return
        self._swept_at = now
        before = now - _FORGET_AFTER_S
        self._usages = {k: each for k, each in self._usages.items() if each.used_at >= before}
        self._buckets = {k: each for k, each in self._buckets.items() if each.used_at >= before}
