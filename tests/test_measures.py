"""Durations and histograms."""

from tidelog.measures import Durations, Histogram


def test_durations_have_the_quantiles_of_the_last_ones():
    found = Durations()
    assert found.quantiles() == []
    for number in range(1, 101):
        found.add(number / 100)
    assert found.count == 100
    assert round(found.total_s, 6) == 50.5
    assert dict(found.quantiles((0.5, 0.99))) == {0.5: 0.51, 0.99: 1.0}
    for _ in range(2000):
        found.add(7.0)
    assert dict(found.quantiles((0.5, 0.999))) == {0.5: 7.0, 0.999: 7.0}


def test_a_measurement_may_stand_for_several():
    found = Durations()
    found.add(0.5, 20)
    assert (found.count, found.total_s) == (20, 10.0)
    assert dict(found.quantiles((0.5,))) == {0.5: 0.5}


def test_a_histogram_only_grows():
    found = Histogram((0.1, 1.0))
    for seconds in (0.05, 0.1, 0.5, 30.0):
        found.add(seconds)
    assert found.cumulative() == [(0.1, 2), (1.0, 3)]
    assert found.count == 4
    assert found.total_s == 30.65
