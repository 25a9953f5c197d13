"""What the checker says of counts, whatever order they come in."""

import itertools

import pytest

from tidelog.audit.events import AuditEvent
from tidelog.audit.ledger import COMPLETE, INCOMPLETE, OPEN, Ledger

MINUTE = 60_000


def event(
    tier: str,
    count: int,
    *,
    start: int = 0,
    counter: str = "c",
    at: int = MINUTE,
    topic: str = "orders",
) -> AuditEvent:
    return AuditEvent(tier, "host", counter, topic, start, MINUTE, count, at)


def only(ledger: Ledger, now: int = 10 * MINUTE):
    [found] = ledger.report(now)
    return found


def test_a_tier_that_loses_some_is_named_with_their_number() -> None:
    ledger = Ledger()
    for tier, count in (("producer", 1000), ("live", 1000), ("mirror", 963)):
        ledger.add(event(tier, count))
    found = only(ledger)
    assert (found.state, found.missing, found.duplicated) == (INCOMPLETE, {"mirror": 37}, {})


def test_a_tier_that_has_some_twice_is_named_with_their_number() -> None:
    ledger = Ledger()
    ledger.add(event("producer", 10))
    ledger.add(event("mirror", 12))
    assert only(ledger).duplicated == {"mirror": 2}


def test_events_are_totals_so_repeats_and_disorder_do_not_matter() -> None:
    events = [
        event("producer", 5),
        event("producer", 9),
        event("live", 4, counter="before the restart"),
        event("live", 5, counter="after it"),
        event("live", 4, counter="before the restart"),
    ]
    for order in itertools.permutations(events):
        ledger = Ledger()
        for each in order:
            ledger.add(each)
        found = only(ledger)
        assert (found.state, found.counts) == (COMPLETE, {"producer": 9, "live": 9})


def test_a_window_is_open_until_its_grace_is_over() -> None:
    ledger = Ledger(grace_ms=30_000)
    ledger.add(event("producer", 5))
    ledger.add(event("live", 3))
    assert only(ledger, MINUTE + 29_999).state == OPEN
    assert only(ledger, MINUTE + 30_000).state == INCOMPLETE


def test_what_comes_after_the_grace_is_late_and_completes_the_window_all_the_same() -> None:
    ledger = Ledger(grace_ms=30_000)
    ledger.add(event("producer", 5))
    ledger.add(event("live", 3, at=MINUTE))
    ledger.add(event("live", 5, at=5 * MINUTE))
    found = only(ledger)
    assert (found.state, found.late) == (COMPLETE, {"live": 2})


@pytest.mark.parametrize(
    ("counts", "until"),
    [
        ([(5, 5), (5, 5), (5, 5)], 9 * MINUTE),  # nothing came since, and that is complete too
        ([(5, 5), (5, 4), (5, 5)], MINUTE),
        ([(5, 4), (5, 5), (5, 5)], 0),
        ([(5, 5), None, (5, 4)], 2 * MINUTE),  # an empty window is complete
    ],
)
def test_the_watermark_stands_before_the_first_window_that_is_not_complete(counts, until) -> None:
    ledger = Ledger(grace_ms=MINUTE)
    for number, each in enumerate(counts):
        if each is not None:
            ledger.add(event("producer", each[0], start=number * MINUTE))
            ledger.add(event("live", each[1], start=number * MINUTE))
    assert ledger.complete_until("orders", 10 * MINUTE) == until
    assert ledger.complete_until("another", 10 * MINUTE) is None


def test_tiers_can_be_chosen() -> None:
    ledger = Ledger()
    for tier, count in (("producer", 10), ("live", 10), ("lake", 2)):
        ledger.add(event(tier, count))
    [found] = ledger.report(10 * MINUTE, tiers=["live", "producer"])
    assert found.state == COMPLETE


def test_windows_of_different_lengths_are_told() -> None:
    ledger = Ledger()
    ledger.add(event("producer", 1))
    ledger.add(AuditEvent("live", "h", "c", "orders", 0, 2 * MINUTE, 1, 0))
    assert ledger.mixed_windows == {"orders"}
