"""The audit: which windows of which topics are complete in all tiers."""

import time
from typing import Annotated

from fastapi import Query

from tidelog.console.api.asking import Asks, router
from tidelog.console.errors import bad_request
from tidelog.console.reading import parse_moment
from tidelog.dataclass import dataclass

ROUTER = router("audit")


@dataclass(frozen=True, slots=True)
class WindowView:
    topic: str
    start_ms: int
    end_ms: int
    expected: int
    counts: dict[str, int]
    missing: dict[str, int]
    duplicated: dict[str, int]
    late: dict[str, int]
    state: str
    """`open`, `complete` or `incomplete`."""


@dataclass(frozen=True, slots=True)
class AuditView:
    tiers: list[str]
    """The first is what the others are compared with."""
    topics: list[str]
    windows: list[WindowView]
    """Oldest first; at most `limit` of each topic, the newest."""
    complete_until: dict[str, int | None]
    read_to_the_end: bool


@ROUTER.get("/audit")
async def audit(
    clients: Asks,
    topic: Annotated[list[str] | None, Query(max_length=100)] = None,
    since: Annotated[str | None, Query(max_length=100, description="10m, 2026-01-31")] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 60,
) -> AuditView:
    """Counts of all tiers, window by window."""
    after = 0 if since is None else parse_moment("since", since)
    if any(len(each) > 249 for each in topic or ()):
        raise bad_request("a topic's name has at most 249 characters")
    ledger, complete = await clients.ledger()
    now_ms = int(time.time() * 1000)
    by_topic: dict[str, list[WindowView]] = {}
    for each in ledger.report(now_ms, topics=topic):
        if each.end_ms > after:
            view = WindowView(
                each.topic,
                each.start_ms,
                each.end_ms,
                each.expected,
                each.counts,
                each.missing,
                each.duplicated,
                each.late,
                each.state,
            )
            by_topic.setdefault(each.topic, []).append(view)
    return AuditView(
        ledger.tiers,
        sorted(by_topic),
        [view for found in by_topic.values() for view in found[-limit:]],
        {name: ledger.complete_until(name, now_ms) for name in by_topic},
        complete,
    )
