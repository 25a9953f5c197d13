"""The rate that a client gets out of the delays it is given."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.quotas.usage import LEAST_DELAY_S, TokenBucket, Usage

LIMITS = st.floats(1, 1e9)


def obeyed(limit: float, sizes: list[float], until: float, start: float = 1000.0):
    """When what was used, by a client that sends as fast as the delays allow; the sizes come again and again."""
    usage, now, used = Usage(), start, []
    while now < start + until:
        amount = limit * sizes[len(used) % len(sizes)]
        used.append((now, amount))
        now += usage.record(amount, limit, now)
    return used


@settings(max_examples=25)
@given(limit=LIMITS, sizes=st.lists(st.floats(0.01, 2), min_size=1, max_size=5))
def test_whoever_obeys_the_delays_gets_the_limit(limit, sizes):
    used = obeyed(limit, sizes, 60)
    largest = max(sizes)
    for seconds in (20, 40, 60):
        total = sum(amount for at, amount in used if at < 1000 + seconds)
        assert limit * (seconds - LEAST_DELAY_S) <= total * 1.000001
        assert total <= limit * (seconds + largest) * 1.000001


@settings(max_examples=25)
@given(
    limit=LIMITS, sizes=st.lists(st.floats(0.01, 2), min_size=1, max_size=5), at=st.floats(12, 40)
)
def test_it_gets_it_evenly(limit, sizes, at):
    """Once it is throttled there is no burst, in whatever twenty seconds."""
    used = obeyed(limit, sizes, 70)
    total = sum(amount for when, amount in used if 1000 + at <= when < 1020 + at)
    assert abs(total - 20 * limit) <= limit * (max(sizes) + 0.01) * 1.000001


@given(
    limit=LIMITS,
    uses=st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=100),
)
def test_who_stays_below_its_limit_is_left_alone(limit, uses):
    """Each pause is paid for in advance: the average is at most the limit at any time."""
    usage, now = Usage(), 0.0
    for size, more in uses:
        assert usage.record(limit * size * 0.999, limit, now) == 0
        now += size + more


def test_what_was_saved_up_may_be_used_at_once():
    usage = Usage()
    assert usage.record(10_000, 1000, 5.0) == 0
    assert usage.record(1, 1000, 5.0) == pytest.approx(10.001)


@given(
    limit=LIMITS,
    uses=st.lists(st.tuples(st.floats(0, 100), st.floats(0, 20)), min_size=1, max_size=60),
    longest=st.floats(1, 500),
)
def test_no_delay_is_longer_than_the_longest_nor_shorter_than_told(limit, uses, longest):
    usage, now = Usage(longest_s=longest), 0.0
    for size, pause in uses:
        delay = usage.record(limit * size, limit, now)
        assert delay == 0 or LEAST_DELAY_S <= delay <= longest * 1.000001
        assert usage.rate(now) >= 0
        now += pause


@given(
    limit=LIMITS,
    uses=st.lists(st.tuples(st.floats(0.01, 40), st.floats(0, 3)), min_size=1, max_size=60),
)
def test_who_asks_first_is_never_stuck_and_never_gets_more_than_its_limit(limit, uses):
    """Whoever waits for as long as it is told gets what it asks for, however much that is."""
    usage, now, granted_total = Usage(), 0.0, 0.0
    largest = max(size for size, _ in uses)
    for size, pause in uses:
        now += pause
        for _ in range(3):
            granted, delay = usage.ask(limit * size, limit, now)
            now += delay
            if granted:
                break
        assert granted
        granted_total += size
    # Ten seconds may have been saved up, one may be used ahead.
    assert granted_total <= now + 10 + 1 + largest + 0.01


@given(
    limit=LIMITS,
    uses=st.lists(st.tuples(st.floats(0.01, 1), st.floats(0, 1)), min_size=1, max_size=200),
    longest=st.floats(0.1, 5),
)
def test_who_asks_again_and_again_gets_no_more_than_its_limit(limit, uses, longest):
    """Though it does not wait for as long as it is told, and is told less than it would have to wait."""
    usage, now, granted_total = Usage(longest_s=longest), 0.0, 0.0
    for size, pause in uses:
        granted, _ = usage.ask(limit * size, limit, now)
        granted_total += size * granted
        now += pause
    assert granted_total <= now + 10 + 1 + 1 + 0.01


def test_what_is_refused_is_not_counted():
    usage = Usage()
    assert usage.ask(9_500, 1000, 0.0) == (True, 0)
    granted, delay = usage.ask(1_000, 1000, 0.0)
    assert not granted
    assert usage.rate(0.0) == pytest.approx(950)
    assert usage.ask(1_000, 1000, delay) == (True, 0)


def test_a_throttled_client_that_slows_down_is_free_again():
    usage, now = Usage(), 0.0
    now += usage.record(20_000, 1000, now)
    assert usage.settle(now)
    for _ in range(24):  # half its limit, in lumps
        now += 0.5
        assert usage.record(250, 1000, now) == 0
    assert not usage.settle(now)
    assert usage.record(4_000, 1000, now) == 0


def test_what_is_old_is_forgotten():
    usage = Usage()
    usage.record(1e9, 1e6, 0.0)
    assert usage.rate(1.0) > 0
    assert usage.rate(12.0) == 0


def test_a_bucket_lends_and_waits():
    bucket = TokenBucket()
    bucket.record(25, rate=1, burst_s=10, now=0.0)
    assert bucket.delay(1, 10, 0.0) == pytest.approx(15)
    assert bucket.delay(1, 10, 15.0) == 0
    bucket.record(1, 1, 10, 100.0)
    assert bucket.delay(1, 10, 100.0) == 0
    bucket.record(-100, 1, 10, 100.0)
    bucket.record(10, 1, 10, 100.0)
    assert bucket.delay(1, 10, 100.0) == 0
