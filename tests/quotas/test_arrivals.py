"""How fast connections may come."""

import logging

from tidelog.quotas.arrivals import Arrivals
from tidelog.quotas.config import QuotaConfig
from tidelog.quotas.limits import DEFAULT, Entity, Limits
from tidelog.testing.manual_clock import ManualClock

KEY = "connection_creation_rate"


def arrivals_of(clock, by_listener=None, exempt=None, **config) -> Arrivals:
    return Arrivals(clock.monotonic, lambda: QuotaConfig(**config), by_listener or {}, exempt)


def test_nothing_is_limited_by_nothing():
    arrivals = arrivals_of(ManualClock())
    assert not arrivals.limited
    assert arrivals.refused_for("10.0.0.1") == 0
    assert arrivals.paused_for("PLAINTEXT") == 0


def test_an_address_gets_its_rate_and_others_theirs():
    clock = ManualClock()
    arrivals = arrivals_of(clock)
    arrivals.follow(Limits({Entity(ip="10.0.0.1"): {KEY: 2}, Entity(ip=DEFAULT): {KEY: 50}}))
    assert arrivals.limited
    came = {"10.0.0.1": 0, "10.0.0.2": 0}
    for _ in range(600):  # a minute
        clock.advance(100)
        for host in came:
            closes_after = arrivals.refused_for(host)
            assert 0 <= closes_after <= 1
            came[host] += not closes_after
    assert 115 <= came["10.0.0.1"] <= 140
    assert came["10.0.0.2"] == 600
    assert arrivals.refused == 600 - came["10.0.0.1"]


def test_a_rate_below_one_lets_somebody_in_now_and_then():
    clock = ManualClock()
    arrivals = arrivals_of(clock)
    arrivals.follow(Limits({Entity(ip=DEFAULT): {KEY: 0.1}}))
    came = 0
    for _ in range(600):
        clock.advance(1_000)
        came += not arrivals.refused_for("10.0.0.1")
    assert 20 <= came <= 62


def test_a_changed_rate_begins_anew():
    arrivals = arrivals_of(ManualClock())
    arrivals.follow(Limits({Entity(ip="a"): {KEY: 0.01}}))
    assert [arrivals.refused_for("a") > 0 for _ in range(2)] == [False, True]
    arrivals.follow(Limits({Entity(ip="a"): {KEY: 100}}))
    assert arrivals.refused_for("a") == 0
    arrivals.follow(Limits({}))
    assert not arrivals.limited


def test_the_brokers_rate_is_for_all_listeners_but_that_of_brokers():
    arrivals = arrivals_of(ManualClock(), {"C": 2}, "BROKERS", connection_rate=5)
    assert arrivals.limited
    assert sum(not arrivals.paused_for("BROKERS") for _ in range(500)) == 500
    assert sum(not arrivals.paused_for("C") for _ in range(30)) == 20  # its own
    assert sum(not arrivals.paused_for("D") for _ in range(30)) == 20  # what is left of fifty


def test_it_is_logged_when_it_begins_and_when_it_is_over(caplog):
    caplog.set_level(logging.INFO)
    clock = ManualClock()
    arrivals = arrivals_of(clock, connection_rate=1)
    arrivals.follow(Limits({Entity(ip="10.0.0.1"): {KEY: 1}}))
    for _ in range(100):
        arrivals.refused_for("10.0.0.1")
        arrivals.paused_for("PLAINTEXT")
        arrivals.sweep()
    assert caplog.messages == [
        "some connections from 10.0.0.1 are refused: connection_creation_rate=1",
        "connections to PLAINTEXT wait: max.connection.creation.rate=1",
    ]
    clock.advance(120_000)
    arrivals.sweep()
    assert len(caplog.messages) == 4
    assert arrivals._hosts == {}
