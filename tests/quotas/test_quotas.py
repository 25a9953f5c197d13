"""Limits by precedence, and what becomes of who exceeds them."""

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.errors import InvalidRequest, ThrottlingQuotaExceeded
from tidelog.quotas.config import QuotaConfig
from tidelog.quotas.limits import BY_SETTING, DEFAULT, Entity, Limits, check_value
from tidelog.quotas.quotas import Quotas

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
    found = limits.find(KEY, "alice", "app")
    assert found == (strongest, GROUPS[strongest], LEVELS[strongest])


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


def quotas_of(by_entity=None, **config) -> Quotas:
    quotas = Quotas(lambda: QuotaConfig(**config))
    quotas.follow(Limits(by_entity or {}))
    return quotas


def test_nobody_is_limited_by_nothing():
    quotas = quotas_of()
    assert quotas.of("alice", "app") is None
    assert not quotas.limits_clients
    assert not quotas.limits_time
    assert not quotas.limits_mutations


def test_a_group_shares_its_limit_and_neighbours_do_not():
    quotas = quotas_of({Entity("alice"): {KEY: 1000}})
    assert quotas.of("alice", "one").produce is quotas.of("alice", "two").produce
    assert quotas.of("alice", "one").produce.use(9_000, 0.0) == 0
    assert quotas.of("alice", "two").produce.use(9_000, 0.0) > 0
    assert quotas.of("bob", "one") is None


def test_a_default_of_client_ids_is_for_each_by_itself():
    quotas = quotas_of({Entity(client_id=DEFAULT): {KEY: 1000}})
    assert quotas.of("alice", "one").produce.use(90_000, 0.0) > 0
    assert quotas.of("alice", "two").produce.use(9_000, 0.0) == 0


def test_the_settings_have_the_last_word():
    quotas = quotas_of({Entity("alice"): {KEY: 5}}, producer_default=7, consumer_default=9)
    assert quotas.limits_clients
    assert quotas.of("alice", "a").produce.limit.value == 5
    assert quotas.of("alice", "a").fetch.limit.value == 9
    assert quotas.of("bob", "b").produce.limit == (7, ("", "b"), BY_SETTING)
    assert str(BY_SETTING) == "the settings"
    assert quotas.of("bob", "b").produce.use(1_000, 0.0) > 0
    quotas.follow(Limits({}))
    assert quotas.of("bob", "b").produce.use(1, 0.0) > 0


def test_a_limit_is_changed_while_running():
    quotas = quotas_of({Entity("alice"): {KEY: 1000}})
    assert quotas.of("alice", "a").produce.use(20_000, 0.0) > 0
    generation = quotas.generation
    quotas.follow(Limits({Entity("alice"): {KEY: 10}}))
    assert quotas.generation > generation
    # What was used under another limit is forgotten: at 10 a second it would take half an hour to pay for it.
    assert quotas.of("alice", "a").produce.use(100, 0.1) == 0
    assert quotas.of("alice", "a").produce.use(1, 0.1) > 0
    quotas.follow(Limits({Entity("bob"): {KEY: 1}}))
    assert quotas.of("alice", "a") is None


def test_a_quota_that_is_removed_and_set_again_begins_anew():
    same = {Entity("alice"): {KEY: 1000}}
    quotas = quotas_of(same)
    assert quotas.of("alice", "a").produce.use(20_000, 0.0) > 0
    quotas.follow(Limits({}))
    quotas.follow(Limits(same))
    assert quotas.of("alice", "a").produce.use(9_000, 0.0) == 0


def test_a_change_for_others_forgives_nothing():
    quotas = quotas_of({Entity("alice"): {KEY: 1000}})
    quotas.of("alice", "a").produce.use(20_000, 0.0)
    quotas.follow(Limits({Entity("alice"): {KEY: 1000}, Entity("bob"): {KEY: 1}}))
    assert quotas.of("alice", "a").produce.use(1, 0.0) > 0


def test_that_somebody_is_throttled_is_logged_once_and_that_it_is_over_too(caplog):
    caplog.set_level(logging.INFO)
    quotas = quotas_of({Entity("alice", DEFAULT): {KEY: 1000}})
    account = quotas.of("alice", "app").produce
    now = 0.0
    for _ in range(50):
        now += account.use(5_000, now)
        quotas.sweep(now)
    assert account.is_throttled
    assert account.delays == 48
    quotas.sweep(now + 10)
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith("user alice, client app is throttled: ")
    assert (
        "producer_byte_rate=1000 by the quota of user=alice, client-id=<default>"
        in (caplog.messages[0])
    )
    quotas.sweep(now + 20)
    assert not account.is_throttled
    assert len(caplog.messages) == 2
    assert "is no longer throttled: it was held 48 times" in caplog.messages[1]
    assert account.used == 250_000
    assert account.delayed_s == pytest.approx(now)
    assert quotas.delays(KEY).count == account.delays
    assert quotas.delays(KEY).seconds == account.delayed_s


def test_time_holds_nobody_for_longer_than_a_window():
    quotas = quotas_of({Entity("alice"): {"request_percentage": 1}})
    account = quotas.of("alice", "a").request
    assert quotas.limits_time
    assert [account.use(100 * 60, 0.0) for _ in range(3)] == [1, 1, 1]


def test_changes_of_metadata_are_paid_for():
    quotas = quotas_of({Entity(client_id="ci"): {"controller_mutation_rate": 1}})
    quotas.mutations("u", "ci", strict=True, now=0.0).take(13)  # on credit
    again = quotas.mutations("u", "ci", strict=True, now=1.0)
    with pytest.raises(ThrottlingQuotaExceeded, match=r"controller_mutation_rate=1 .* 1000 ms"):
        again.take(1)
    assert again.throttle_time_ms == 1000
    lenient = quotas.mutations("u", "ci", strict=False, now=1.0)
    lenient.take(1)
    assert lenient.throttle_time_ms == 2000
    lenient.give_back(2)
    assert lenient.throttle_time_ms == 0
    other = quotas.mutations("u", "other", strict=True, now=1.0)
    other.take(10**9)
    other.give_back(1)
    assert other.throttle_time_ms == 0


def test_that_changes_are_throttled_is_logged_once_and_counted(caplog):
    caplog.set_level(logging.INFO)
    quotas = quotas_of({Entity("alice"): {"controller_mutation_rate": 1}})
    for count in (5, 20, 20):
        mutations = quotas.mutations("alice", "ci", strict=False, now=0.0)
        mutations.take(count)
        mutations.end()
    assert quotas.delays("controller_mutation_rate").count == 2
    assert quotas.delays("controller_mutation_rate").seconds == 14 + 25
    quotas.sweep(10.0)
    quotas.sweep(40.0)
    assert len(caplog.messages) == 2
    assert (
        "user alice is throttled: it changes more than controller_mutation_rate=1 by the"
        in (caplog.messages[0])
    )
    assert caplog.messages[1] == "user alice is no longer throttled in its changes"


def test_who_is_gone_is_forgotten():
    quotas = quotas_of({Entity(client_id=DEFAULT): {KEY: 1000, "controller_mutation_rate": 1}})
    for at in range(1000):
        quotas.of("u", f"client-{at}").produce.use(1, at * 10.0)
        quotas.mutations("u", f"client-{at}", strict=True, now=at * 10.0).take(1)
        quotas.sweep(at * 10.0)
    assert len(list(quotas.accounts())) < 500
    assert len(quotas._buckets) < 500


def test_names_that_clients_make_up_do_not_pile_up():
    quotas = quotas_of({Entity("alice"): {KEY: 1000}})
    for at in range(12_000):
        quotas.of("alice", f"client-{at}")
        quotas.of("bob", f"client-{at}")
    assert len(quotas._clients) <= 10_000
    assert len(list(quotas.accounts())) == 1
