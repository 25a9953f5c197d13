"""Rates and trends from two looks and more."""

from tidelog.console.sampler import Look, Sampler


def sampler(*looks: Look) -> Sampler:
    made = Sampler(None)  # type: ignore[arg-type]  # nobody is asked
    made._looks.extend(looks)
    return made


def test_nothing_can_be_said_after_one_look():
    one = sampler(Look(0.0, {"a": 1}, {"a": 1}, {}))
    assert one.rates() == {}
    assert one.series().times == []


def test_rates_are_differences():
    looks = sampler(
        Look(10.0, {"a": 100, "b": 0}, {"a": 1000, "b": 0}, {}),
        Look(15.0, {"a": 150, "b": 5}, {"a": 6000, "b": 50}, {}),
    )
    assert looks.rates() == {"a": (10.0, 1000.0), "b": (1.0, 10.0)}
    assert looks.series().messages_per_second == [11.0]
    assert looks.series("b").bytes_per_second == [10.0]


def test_a_log_that_shrank_took_nothing_in():
    looks = sampler(
        Look(0.0, {"a": 10, "b": 10}, {"a": 9000, "b": 100}, {}),
        Look(5.0, {"a": 10, "b": 15}, {"a": 100, "b": 600}, {}),
    )
    assert looks.rates()["a"] == (0.0, 0.0)
    assert looks.series().bytes_per_second == [100.0]  # what b took in is not set off against it


def test_topics_that_came_or_went_count_from_when_they_were_seen_twice():
    looks = sampler(
        Look(0.0, {"gone": 10}, {}, {}),
        Look(5.0, {"new": 1_000_000}, {}, {}),
        Look(10.0, {"new": 1_000_005}, {}, {}),
    )
    assert looks.series().messages_per_second == [0.0, 1.0]


def test_the_clock_may_be_set_back():
    looks = sampler(Look(10.0, {"a": 1}, {}, {}), Look(5.0, {"a": 2}, {}, {}))
    assert looks.series().times == []


def test_the_trend_of_a_group():
    looks = sampler(
        Look(0.0, {}, {}, {"g": 5}), Look(5.0, {}, {}, {}), Look(10.0, {}, {}, {"g": 7})
    )
    assert looks.lag_trend("g") == [(0.0, 5), (10.0, 7)]
    assert looks.lag_trend("unknown") == []
