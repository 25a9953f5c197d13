"""Limits on replicas that catch up."""

import pytest

from tidelog.cluster.throttle import Throttle, is_listed
from tidelog.errors import SettingsError
from tidelog.storage.config import LogConfig
from tidelog.testing.manual_clock import ManualClock


def test_what_is_taken_comes_back_at_the_rate():
    clock, rate = ManualClock(), 1_000
    throttle = Throttle(clock, lambda: rate)
    assert not throttle.exceeded()
    throttle.note(3_000)  # one fetch may take more than there is
    assert throttle.exceeded()
    clock.advance(1_900)
    assert throttle.exceeded()
    clock.advance(200)
    assert not throttle.exceeded()
    clock.advance(60_000)
    throttle.note(999)  # a burst is one second's worth, however long nothing was taken
    assert not throttle.exceeded()
    throttle.note(1)
    assert throttle.exceeded()
    rate = 1_000_000
    clock.advance(1)
    assert not throttle.exceeded()


@pytest.mark.parametrize(
    ("text", "listed"), [("*", True), ("0:1,3:2", True), ("3:1,2:2", False), ("", False)]
)
def test_who_is_throttled_is_a_setting_of_the_topic(text, listed):
    name = "leader.replication.throttled.replicas"
    config = LogConfig().over({name: text})
    assert is_listed(config.leader_throttled_replicas, 3, 2) is listed
    with pytest.raises(SettingsError, match="partition:broker"):
        LogConfig().over({name: "3-2"})
