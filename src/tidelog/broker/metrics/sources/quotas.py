"""Quotas: what the groups of clients that have one use of it, and how long they are held back."""

from collections.abc import Iterator

from tidelog.broker.metrics.families import Found, counter, gauge
from tidelog.broker.metrics.sight import Sight

_WHO = ("quota", "user", "client_id")

LIMIT = gauge(
    "tidelog_quota_limit",
    "What a group of clients may use in a second on this broker: bytes, or percents of the event loop.",
    *_WHO,
    many=True,
)
USED = counter(
    "tidelog_quota_used_total",
    "What it has used, since it has this quota: bytes, or percents times seconds.",
    *_WHO,
    many=True,
)
DELAYS = counter(
    "tidelog_quota_delays_total",
    "Answers that told a client of the group to wait.",
    *_WHO,
    many=True,
)
DELAYED = counter(
    "tidelog_quota_delayed_seconds_total",
    "For how long clients of the group were told to wait, in all.",
    *_WHO,
    many=True,
)


def collect(sight: Sight) -> Iterator[Found]:
    accounts = [((each.key, *each.limit.group), each) for each in sight.services.quotas.accounts()]
    yield LIMIT.rows((who, each.limit.value) for who, each in accounts)
    yield USED.rows((who, each.used) for who, each in accounts)
    yield DELAYS.rows((who, each.delays) for who, each in accounts)
    yield DELAYED.rows((who, each.delayed_s) for who, each in accounts)
