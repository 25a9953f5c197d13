"""Limits by precedence, and the rate that a client gets out of the delays it is given."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.errors import InvalidRequest
from tidelog.quotas.limits import DEFAULT, Entity, Limits, check_value
from tidelog.quotas.quotas import Quotas
from tidelog.quotas.usage import TokenBucket, Usage

KEY = "producer_byte_rate"
LEVELS = [
    Entity("alice", "app"),
    Entity("alice", DEFAULT),
    Entity("alice"),
    Entity(DEFAULT, "app"),
    Entity(DEFAULT, DEFAULT),
    Entity(DEFAULT),
    Entity(client_id="app"),
    Entity(client_id=DEFAULT),
]
GROUPS = [
    ("alice", "app"),
    ("alice", "app"),
    ("alice", ""),
    ("alice", "app"),
    ("alice", "app"),
    ("alice", ""),
    ("", "app"),
    ("", "app"),
]


@pytest.mark.parametrize("strongest", range(8))
def test_the_eight_levels(strongest):
    limits = Limits({level: {KEY: at} for at, level in enumerate(LEVELS) if at >= strongest})
    assert limits.find(KEY, "alice", "app") == (strongest, GROUPS[strongest])


@given(present=st.sets(st.integers(0, 7)))
def test_any_choice_of_levels(present):
    limits = Limits({LEVELS[at]: {KEY: at} for at in present})
    found = limits.find(KEY, "alice", "app")
    assert (found and found.value) == min(present, default=None)


def test_a_level_without_this_key_is_passed_over():
    limits = Limits({LEVELS[0]: {"consumer_byte_rate": 1}, LEVELS[7]: {KEY: 2}})
    assert limits.find(KEY, "alice", "app").value == 2


def test_others_are_not_concerned():
    limits = Limits({Entity("alice", "app"): {KEY: 1}})
    assert limits.find(KEY, "bob", "app") is None
    assert limits.find(KEY, "alice", "other") is None


def test_connections_by_address():
    limits = Limits(
        {
            Entity(ip="10.0.0.1"): {"connection_creation_rate": 5},
            Entity(ip=DEFAULT): {"connection_creation_rate": 9},
        }
    )
    assert [limits.connection_rate(ip) for ip in ("10.0.0.1", "10.0.0.2")] == [5, 9]


@pytest.mark.parametrize(
    ("entity", "key", "value", "message"),
    [
        (Entity("a"), "speed", 1, "unknown quota 'speed'"),
        (Entity("a"), "connection_creation_rate", 1, "unknown quota"),
        (Entity(ip="a"), KEY, 1, "unknown quota"),
        (Entity("a"), KEY, 0, "above 0"),
        (Entity("a"), KEY, -1, "above 0"),
        (Entity("a"), KEY, float("nan"), "above 0"),
        (Entity("a"), KEY, 1.5, "whole number"),
    ],
)
def test_bad_values(entity, key, value, message):
    with pytest.raises(InvalidRequest, match=message):
        check_value(entity, key, value)


@pytest.mark.parametrize("entity", [Entity(), Entity(user="a", ip="b")])
def test_bad_entities(entity):
    with pytest.raises(InvalidRequest):
        entity.check()


@settings(max_examples=30)
@given(limit=st.floats(1e3, 1e8), size=st.floats(0.001, 0.5))
def test_whoever_obeys_the_delays_gets_the_limit(limit, size):
    """Requests of `size` seconds' worth of bytes, as fast as the delays allow."""
    usage, now, sent = Usage(), 100.0, 0.0
    start = now
    while now - start < 60:
        usage.record(limit * size, now)
        sent += limit * size
        now += usage.delay(limit, now) + 0.0005
    # In the beginning a burst of the whole window is allowed; after that the rate is the limit.
    allowed = limit * (now - start)
    assert sent <= allowed + 11 * limit
    assert sent >= 0.95 * allowed * min(1, size / (size + 0.0005))


@given(amounts=st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 5)), min_size=1, max_size=50))
def test_a_delay_makes_up_for_what_was_used_too_fast(amounts):
    usage, now, limit = Usage(), 0.0, 1e5
    for amount, pause in amounts:
        now += pause
        usage.record(amount, now)
    delay = usage.delay(limit, now)
    assert 0 <= delay <= 11
    if 0 < delay < 11:
        span = usage._span(now)
        assert usage.rate(now) * span / (span + delay) == pytest.approx(limit)


def test_what_is_old_is_forgotten():
    usage = Usage()
    usage.record(1e9, 0.0)
    assert usage.delay(1e6, 1.0) > 0
    assert usage.delay(1e6, 12.0) == 0
    assert usage.rate(12.0) == 0


def test_what_is_taken_back_does_not_count():
    usage = Usage()
    usage.record(1e9, 0.0)
    usage.record(-1e9, 0.0)
    assert usage.delay(1e6, 0.5) == 0


def test_a_bucket_lends_and_waits():
    bucket = TokenBucket()
    bucket.record(25, rate=1, burst_s=10, now=0.0)
    assert bucket.delay(1, 10, 0.0) == pytest.approx(15)
    assert bucket.delay(1, 10, 15.0) == 0
    bucket.record(1, 1, 10, 100.0)
    assert bucket.delay(1, 10, 100.0) == 0


def make(limits: Limits) -> Quotas:
    return Quotas(lambda: limits, window_s=1.0, windows=11)


def test_a_group_shares_its_limit_and_neighbours_do_not():
    quotas = make(Limits({Entity("alice"): {KEY: 1000}}))
    assert quotas.used(KEY, "alice", "one", 9_000, 0.0) == 0
    assert quotas.used(KEY, "alice", "two", 9_000, 0.0) > 0
    assert quotas.used(KEY, "bob", "one", 1e9, 0.0) == 0


def test_a_limit_is_changed_while_running():
    limits = [Limits({Entity("alice"): {KEY: 1000}})]
    quotas = Quotas(lambda: limits[-1], window_s=1.0, windows=11)
    assert quotas.used(KEY, "alice", "a", 20_000, 0.0) > 0
    limits.append(Limits({Entity("alice"): {KEY: 1e9}}))
    assert quotas.used(KEY, "alice", "a", 1, 0.0) == 0
    limits.append(Limits({}))
    assert quotas.used(KEY, "alice", "a", 1e12, 0.0) == 0


def test_changes_of_metadata_are_paid_for():
    quotas = make(Limits({Entity(client_id="ci"): {"controller_mutation_rate": 1}}))
    assert quotas.mutation_delay("u", "ci", 0.0) == 0
    quotas.mutated("u", "ci", 12, 0.0)
    assert quotas.mutation_delay("u", "ci", 0.0) == pytest.approx(1)
    assert quotas.mutation_delay("u", "other", 0.0) == 0


def test_who_is_gone_is_forgotten():
    quotas = make(Limits({Entity(client_id=DEFAULT): {KEY: 1000}}))
    for at in itertools.count():
        quotas.used(KEY, "u", f"client-{at}", 1, at * 10.0)
        if at == 1000:
            break
    assert len(quotas._usages) < 500
