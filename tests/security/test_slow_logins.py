"""Guessing gets slower, for the address it comes from and for no other."""

import pytest

from tidelog.errors import SaslAuthenticationFailed
from tidelog.security.slow_logins import (
    _MOST_ADDRESSES,
    _MOST_AT_HOME,
    FORGET_S,
    FREE,
    LONGEST_PAUSE_S,
    PATIENCE_S,
    SlowLogins,
)
from tidelog.testing.manual_clock import ManualClock

BASE_S = 0.1


def guess(slow: SlowLogins, clock: ManualClock, host: str, times: int) -> float:
    """Guess one after another; how long it took."""
    began = clock.monotonic()
    for _ in range(times):
        clock.advance(1000 * slow.wait_s(host, BASE_S))
        slow.failed(host)
    return clock.monotonic() - began


def guess_at_once(slow: SlowLogins, user: str) -> None:
    """Until it is refused."""
    while True:
        slow.wait_s("10.0.0.1", BASE_S, user)
        slow.failed("10.0.0.1", user)


def test_a_few_failures_are_free():
    clock = ManualClock()
    assert guess(SlowLogins(clock.monotonic), clock, "10.0.0.1", FREE) == 0


def test_guessing_gets_slower_and_nobody_else_waits():
    clock = ManualClock()
    slow = SlowLogins(clock.monotonic)
    assert guess(slow, clock, "10.0.0.1", 200) > 100 * LONGEST_PAUSE_S / 2
    assert slow.wait_s("10.0.0.2", BASE_S) == 0


def test_whoever_is_at_home_is_not_locked_out_by_those_who_fail_in_other_names():
    clock = ManualClock()
    slow = SlowLogins(clock.monotonic)
    slow.succeeded("10.0.0.1", "alice")
    with pytest.raises(SaslAuthenticationFailed, match="too many"):
        guess_at_once(slow, "mallory")
    assert slow.wait_s("10.0.0.1", BASE_S, "alice") == 0
    with pytest.raises(SaslAuthenticationFailed, match="too many"):
        slow.wait_s("10.0.0.1", BASE_S, "bob")


def test_the_password_of_whoever_is_at_home_is_guessed_as_slowly():
    clock = ManualClock()
    slow = SlowLogins(clock.monotonic)
    slow.succeeded("10.0.0.1", "alice")
    for _ in range(FREE + 20):
        slow.failed("10.0.0.1", "alice")
    slow.wait_s("10.0.0.1", BASE_S, "alice")
    assert slow.wait_s("10.0.0.1", BASE_S, "alice") == LONGEST_PAUSE_S
    assert slow.wait_s("10.0.0.1", BASE_S, "bob") == 0


def test_guesses_in_parallel_wait_for_each_other():
    clock = ManualClock()
    slow = SlowLogins(clock.monotonic)
    for _ in range(FREE + 20):
        slow.failed("10.0.0.1")
    waits = []
    while not waits or waits[-1] < PATIENCE_S:
        waits.append(slow.wait_s("10.0.0.1", BASE_S))
    with pytest.raises(SaslAuthenticationFailed, match="too many"):
        slow.wait_s("10.0.0.1", BASE_S)
    assert waits == sorted(waits)
    assert len(waits) <= PATIENCE_S / LONGEST_PAUSE_S + 2


def test_it_is_forgotten():
    clock = ManualClock()
    slow = SlowLogins(clock.monotonic)
    guess(slow, clock, "10.0.0.1", FREE + 3)
    clock.advance(1000 * FORGET_S * 60)
    assert guess(slow, clock, "10.0.0.1", FREE) == 0


def test_a_pause_of_nothing_switches_it_off():
    clock = ManualClock()
    slow = SlowLogins(clock.monotonic)
    for _ in range(100):
        assert slow.wait_s("10.0.0.1", 0.0) == 0
        slow.failed("10.0.0.1")


def test_a_network_of_ipv6_is_one_address():
    clock = ManualClock()
    slow = SlowLogins(clock.monotonic)
    for number in range(FREE + 5):
        slow.failed(f"2001:db8::{number:x}")
    slow.wait_s("2001:db8::ffff", BASE_S)
    assert slow.wait_s("2001:db8::fffe", BASE_S) > 0
    slow.wait_s("2001:db8:0:1::1", BASE_S)
    assert slow.wait_s("2001:db8:0:1::1", BASE_S) == 0


def test_addresses_are_bounded():
    slow = SlowLogins(ManualClock().monotonic)
    for number in range(_MOST_ADDRESSES + 100):
        slow.failed(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
    assert len(slow._addresses) == _MOST_ADDRESSES


def test_users_at_home_are_bounded():
    slow = SlowLogins(ManualClock().monotonic)
    for number in range(_MOST_AT_HOME + 100):
        slow.succeeded("10.0.0.1", f"user-{number}")
    assert len(slow._at_home) == _MOST_AT_HOME
