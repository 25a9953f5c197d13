"""The accounts of all clients of one broker.

    quotas = Quotas(lambda: config)
    quotas.follow(image.access.limits)                       # whenever the image has changed
    accounts = quotas.of("alice", "billing")                 # None for who has no limit
    delay = accounts.produce.use(size_bytes, now)

Limits belong to one broker; a client that uses several has the limit on each of them.  A group whose limit was changed
begins anew: what it used under another limit is forgotten.
"""

import logging
from collections.abc import Callable, Iterator
from functools import partial
from math import ceil
from typing import NamedTuple

from tidelog.errors import ThrottlingQuotaExceeded
from tidelog.quotas.account import LONGEST_DELAY_S, Account, Delays, told
from tidelog.quotas.config import NO_LIMIT, QuotaConfig
from tidelog.quotas.limits import (
    BY_SETTING,
    CLIENT_KEYS,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    Group,
    Limit,
    Limits,
)
from tidelog.quotas.usage import TokenBucket

_log = logging.getLogger(__name__)
_FORGET_AFTER_S = 3600.0
_CLIENTS_MAX = 10_000
"""Clients whose accounts are remembered by name: they choose their names themselves."""


class Accounts(NamedTuple):
    """What a client is limited in; None where it is not."""

    produce: Account | None
    fetch: Account | None
    request: Account | None


class Quotas:
    """See the module's docstring.  Runs on the loop alone."""

    def __init__(self, config: Callable[[], QuotaConfig] = QuotaConfig) -> None:
        self._config = config
        self._limits = Limits({})
        self._delays = {key: Delays() for key in CLIENT_KEYS}
        self._accounts: dict[tuple[str, Group], Account] = {}
        self._buckets: dict[tuple[Group, float], TokenBucket] = {}
        """Of changes of metadata, by group and limit."""
        self._overdrawn: dict[tuple[Group, float], None] = {}
        """Those of which the log says that they are in debt."""
        self._clients: dict[tuple[str, str], Accounts | None] = {}
        self.generation = 0
        """Grows whenever what `of` has returned need not hold any more."""
        self.limits_clients = False
        """Whether anybody is limited in what `of` tells."""
        self.limits_time = False
        """Whether anybody is limited in time, for which all work has to be measured."""
        self.limits_mutations = False
        self.follow(self._limits)

    def follow(self, limits: Limits) -> None:
        """Obey these from now on."""
        config = self._config()
        self._limits = limits
        self.generation += 1
        self._clients.clear()
        self._accounts = {
            (key, group): each
            for (key, group), each in self._accounts.items()
            if limits.gives(key, each.limit)
        }
        by_setting = min(config.producer_default, config.consumer_default) < NO_LIMIT
        self.limits_time = limits.has(REQUEST_PERCENTAGE)
        self.limits_clients = (
            by_setting or self.limits_time or limits.has(PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE)
        )
        self.limits_mutations = limits.has(CONTROLLER_MUTATION_RATE)

    def of(self, user: str, client_id: str) -> Accounts | None:
        """The accounts of a client, None for who has no limit.  They hold until `generation` changes."""
        who = (user, client_id)
        if who not in self._clients:
            if len(self._clients) >= _CLIENTS_MAX:
                self._clients.clear()
            keys = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE)
            found = Accounts(*(self._account(key, user, client_id) for key in keys))
            self._clients[who] = found if any(found) else None
        return self._clients[who]

    def limit(self, key: str, user: str, client_id: str) -> Limit | None:
        """The limit that holds for a client: a quota, or what the settings say."""
        found = self._limits.find(key, user, client_id)
        if found is not None:
            return found
        config = self._config()
        value = {
            PRODUCER_BYTE_RATE: config.producer_default,
            CONSUMER_BYTE_RATE: config.consumer_default,
        }.get(key, NO_LIMIT)
        if value == NO_LIMIT:
            return None
        return Limit(value, ("", client_id), BY_SETTING)

    def delays(self, key: str) -> Delays:
        """Of all clients by one kind of quota, since the broker was started; for metrics."""
        return self._delays[key]

    def accounts(self) -> Iterator[Account]:
        """All that were used lately; for metrics."""
        return iter(self._accounts.values())

    def mutations(self, user: str, client_id: str, *, strict: bool, now: float) -> "Mutations":
        """What one request of a client may change in the cluster's metadata (KIP-599)."""
        limit = self.limit(CONTROLLER_MUTATION_RATE, user, client_id)
        if limit is None:
            return Mutations(None, 0.0, 0.0, strict=strict, now=now)
        which = (limit.group, limit.value)
        bucket = self._buckets.setdefault(which, TokenBucket())
        made = Mutations(bucket, limit.value, self._burst_s, strict=strict, now=now)
        made.exceeded = partial(self._exceeded, limit)
        return made

    def _exceeded(self, limit: Limit, delay_s: float) -> None:
        """A client is told to wait before it changes anything more."""
        delays = self._delays[CONTROLLER_MUTATION_RATE]
        delays.count += 1
        delays.seconds += delay_s
        if (limit.group, limit.value) not in self._overdrawn:
            self._overdrawn[limit.group, limit.value] = None
            _log.info(
                "%s is throttled: it changes more than %s=%g by the quota of %s; held for %.0f ms",
                told(limit.group),
                CONTROLLER_MUTATION_RATE,
                limit.value,
                limit.entity,
                delay_s * 1000,
            )

    @property
    def _burst_s(self) -> float:
        config = self._config()
        return config.controller_windows * config.controller_window_s

    def sweep(self, now: float) -> None:
        """To be called now and then: end what is over, and forget who has not been seen for long."""
        before = now - _FORGET_AFTER_S
        for account in self._accounts.values():
            account.settle(now)
        old = [key for key, each in self._accounts.items() if each.used_at < before]
        if old:
            for key in old:
                del self._accounts[key]
            self._clients.clear()
            self.generation += 1
        for group, rate in list(self._overdrawn):
            bucket = self._buckets.get((group, rate))
            if bucket is None or not bucket.delay(rate, self._burst_s, now):
                del self._overdrawn[group, rate]
                _log.info("%s is no longer throttled in its changes", told(group))
        for which in [key for key, each in self._buckets.items() if each.used_at < before]:
            del self._buckets[which]

    def _account(self, key: str, user: str, client_id: str) -> Account | None:
        limit = self.limit(key, user, client_id)
        if limit is None:
            return None
        found = self._accounts.get((key, limit.group))
        if found is None or found.limit != limit:
            found = Account(key, limit, self._config(), self._delays[key])
            self._accounts[key, limit.group] = found
        return found


class Mutations:
    """One request that creates, grows or deletes topics; each partition is a mutation."""

    def __init__(
        self,
        bucket: TokenBucket | None,
        rate: float,
        burst_s: float,
        *,
        strict: bool,
        now: float,
    ) -> None:
        """`strict` for a client that knows the error; any other gets all it asks for, and is held afterwards."""
        self._bucket = bucket
        self._rate = rate
        self._burst_s = burst_s
        self._strict = strict
        self._now = now
        self.exceeded: Callable[[float], None] = lambda delay_s: None
        """Told of the delay of who is in debt."""

    def take(self, partitions: int) -> None:
        """Pay for so many partitions, on credit if need be; `ThrottlingQuotaExceeded` for who is in debt already."""
        if self._bucket is None:
            return
        delay = self._bucket.delay(self._rate, self._burst_s, self._now)
        if self._strict and delay > 0:
            raise ThrottlingQuotaExceeded(
                f"controller_mutation_rate={self._rate:g} is exceeded; "
                f"try again in {self.throttle_time_ms} ms"
            )
        self._bucket.record(partitions, self._rate, self._burst_s, self._now)

    def give_back(self, partitions: int) -> None:
        """They were not changed after all."""
        if self._bucket is not None:
            self._bucket.record(-partitions, self._rate, self._burst_s, self._now)

    @property
    def throttle_time_ms(self) -> int:
        """For how long the client is to be held."""
        if self._bucket is None:
            return 0
        delay = self._bucket.delay(self._rate, self._burst_s, self._now)
        return ceil(min(delay, LONGEST_DELAY_S) * 1000)

    def end(self) -> int:
        """All is paid for: `throttle_time_ms`, which the client is told."""
        throttle_time_ms = self.throttle_time_ms
        if throttle_time_ms:
            self.exceeded(throttle_time_ms / 1000)
        return throttle_time_ms
