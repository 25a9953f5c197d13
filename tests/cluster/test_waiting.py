"""Readers that wait: who is woken, when, and with how many timers."""

from tidelog.cluster.waiting import Waiting
from tidelog.errors import UnknownTopicOrPartition
from tidelog.testing.manual_clock import ManualClock


class Part:
    """As much of a partition as a reader watches."""

    def __init__(self) -> None:
        self.watchers = {}
        self.ends = {0: 0, 1: 0}

    def readable_end(self, isolation):
        return self.ends[isolation]

    def grow(self, count, *, stable=True):
        self.ends[0] += 1
        if stable:
            self.ends[1] = self.ends[0]
        for watcher in list(self.watchers):
            watcher.advanced(self, count)


class Timer:
    def __init__(self, at, callback, book):
        self.at, self.callback, self._book = at, callback, book

    def cancel(self):
        self._book.timers.remove(self)


class Schedule:
    """Runs soon what is to run soon, and later what is to run later."""

    def __init__(self):
        self.clock = ManualClock()
        self.soon, self.timers, self.made = [], [], 0

    def call_soon(self, callback):
        self.soon.append(callback)

    def call_later(self, delay, callback):
        self.made += 1
        timer = Timer(self.clock.monotonic() + delay, callback, self)
        self.timers.append(timer)
        return timer

    def run(self, ms=0):
        self.clock.advance(ms)
        for timer in [each for each in self.timers if each.at <= self.clock.monotonic()]:
            self.timers.remove(timer)
            timer.callback()
        soon, self.soon = self.soon, []
        for callback in soon:
            callback()


def setup():
    schedule = Schedule()
    return schedule, Waiting(schedule.clock, schedule), []


def test_woken_by_enough_bytes_and_not_within_the_append():
    schedule, waiting, woken = setup()
    part = Part()
    waiting.wait({part: 0}, 0, 100, 1000, lambda: woken.append(1))
    part.grow(60)
    assert not schedule.soon
    part.grow(40)
    assert not woken
    assert not part.watchers
    schedule.run()
    assert woken == [1]
    assert len(waiting) == 0


def test_bytes_before_the_wanted_offset_or_the_stable_end_do_not_count():
    schedule, waiting, woken = setup()
    part = Part()
    waiting.wait({part: 1}, 0, 1, 1000, lambda: woken.append("ahead"))
    waiting.wait({part: 0}, 1, 1, 1000, lambda: woken.append("committed"))
    part.grow(10, stable=False)
    schedule.run()
    assert woken == []
    part.grow(10, stable=False)
    schedule.run()
    assert woken == ["ahead"]
    part.grow(10)
    schedule.run()
    assert woken == ["ahead", "committed"]


def test_bytes_of_a_transaction_count_when_it_ends():
    schedule, waiting, woken = setup()
    part = Part()
    waiting.wait({part: 0}, 1, 100, 1000, lambda: woken.append(1))
    part.grow(99, stable=False)
    schedule.run()
    assert woken == []
    part.grow(1)
    schedule.run()
    assert woken == [1]


def test_a_partition_that_fails_wakes_its_reader_once():
    schedule, waiting, woken = setup()
    one, two = Part(), Part()
    waiting.wait({one: 0, two: 0}, 0, 1, 1000, lambda: woken.append(1))
    for part in (one, two):
        for watcher in list(part.watchers):
            watcher.failed(part, UnknownTopicOrPartition())
    schedule.run(2000)
    assert woken == [1]


def test_time_over_in_order_with_one_timer_at_a_time():
    schedule, waiting, woken = setup()
    for wait in (300, 100, 200, 100):
        waiting.wait({Part(): 0}, 0, 1, wait, lambda wait=wait: woken.append(wait))
        assert len(schedule.timers) == 1
    schedule.run(99)
    assert woken == []
    schedule.run(6)
    assert woken == [100, 100]
    assert len(schedule.timers) == 1
    schedule.run(100)
    schedule.run(100)
    assert woken == [100, 100, 200, 300]
    assert not schedule.timers
    assert len(waiting) == 0


def test_many_waits_of_one_length_need_few_timers():
    schedule, waiting, woken = setup()
    for _ in range(1000):
        waiting.wait({Part(): 0}, 0, 1, 500, lambda: woken.append(1))
    assert schedule.made == 1
    schedule.run(600)
    assert len(woken) == 1000


def test_a_wait_that_was_woken_leaves_nothing_behind():
    schedule, waiting, woken = setup()
    part = Part()
    for _ in range(100):
        waiting.wait({part: part.ends[0]}, 0, 1, 500, lambda: woken.append(1))
        part.grow(1)
        schedule.run(1)
    assert len(woken) == 100
    schedule.run(1000)
    schedule.run(1000)
    assert not schedule.timers
    assert not waiting._due
    assert not waiting._ticks


def test_close_wakes_all_and_cancel_none():
    schedule, waiting, woken = setup()
    part = Part()
    waiting.cancel(waiting.wait({part: 0}, 0, 1, 500, lambda: woken.append("cancelled")))
    waiting.wait({part: 0}, 0, 1, 500, lambda: woken.append("closed"))
    waiting.close()
    schedule.run(1000)
    assert woken == ["closed"]
    assert not part.watchers
    assert not schedule.timers
