"""Timers: in order, one a key, moved and cancelled."""

from tidelog.coordination.timers import Timers
from tidelog.testing.manual_clock import ManualClock


class Loop:
    """Remembers when it was asked to wake us."""

    def __init__(self):
        self.delays = []
        self.cancelled = 0

    def call_later(self, delay, action):
        self.delays.append(delay)
        return self

    def cancel(self):
        self.cancelled += 1


def test_order_move_and_cancel():
    clock, seen = ManualClock(), []
    timers = Timers(clock)
    timers.schedule("b", 200, lambda: seen.append("b"))
    timers.schedule("a", 100, lambda: seen.append("a"))
    timers.schedule("c", 100, lambda: seen.append("c"))
    timers.schedule("a", 300, lambda: seen.append("late a"))
    assert timers.cancel("c")
    assert not timers.cancel("c")
    assert timers.next_delay_ms() == 200
    clock.advance(200)
    assert timers.run_due() == 1
    assert seen == ["b"]
    clock.advance(100)
    timers.run_due()
    assert seen == ["b", "late a"]
    assert timers.next_delay_ms() is None


def test_an_action_may_schedule():
    clock, seen = ManualClock(), []
    timers = Timers(clock)

    def again():
        seen.append(clock.monotonic())
        timers.schedule("a", 100, again)

    timers.schedule("a", 100, again)
    for _ in range(3):
        clock.advance(100)
        timers.run_due()
    assert len(seen) == 3


def test_the_loop_is_asked_only_for_earlier_times():
    clock, loop = ManualClock(), Loop()
    timers = Timers(clock, loop.call_later)
    timers.schedule("a", 1000, lambda: None)
    timers.schedule("b", 2000, lambda: None)
    assert loop.delays == [1.0]
    timers.schedule("c", 500, lambda: None)
    assert loop.delays == [1.0, 0.5]
    assert loop.cancelled == 1


def test_moved_timers_do_not_pile_up():
    timers = Timers(ManualClock())
    for _ in range(10_000):
        timers.schedule("a", 1000, lambda: None)
    assert len(timers) == 1
    assert len(timers._heap) < 2000


def test_a_timer_that_renews_itself_does_not_hold_the_loop():
    clock, seen = ManualClock(), []
    timers = Timers(clock)

    def renew():
        seen.append("again")
        timers.schedule("a", 0, renew)

    timers.schedule("a", 100, renew)
    timers.schedule("b", 100, lambda: seen.append("b"))
    clock.advance(100)
    assert timers.run_due() == 2
    assert seen == ["again", "b"]
    assert timers.run_due() == 1
