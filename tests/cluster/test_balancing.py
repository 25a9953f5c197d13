"""Where replicas should be: even, over racks, with few moves."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.cluster.balancing import spread
from tidelog.cluster.placement import Site, place
from tidelog.names import TopicPartition


def placed(
    partitions: int, factor: int, sites: list[Site]
) -> dict[TopicPartition, tuple[int, ...]]:
    return {
        TopicPartition("t", index): replicas
        for index, replicas in enumerate(place(partitions, factor, sites))
    }


def moved(before, after) -> int:
    return sum(len(set(after[where]) - set(before[where])) for where in before)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=4, unique=True), max_size=30),
    st.sets(st.integers(0, 9), min_size=4, max_size=8),
    st.lists(st.sampled_from([None, "a", "b", "c"]), min_size=10, max_size=10),
)
def test_what_holds_of_every_plan(present, brokers, racks):
    before = {TopicPartition("t", index): tuple(each) for index, each in enumerate(present)}
    sites = [Site(each, racks[each]) for each in sorted(brokers)]
    after = spread(before, sites)
    assert after.keys() == before.keys()
    for where, replicas in after.items():
        assert len(replicas) == len(set(replicas)) == len(before[where])
        assert set(replicas) <= brokers
    assert spread(after, sites) == after  # a plan of a plan changes nothing


def test_who_leads_is_settled_by_the_first_plan():
    present = [(0, 1, 2), (0,), (0, 1), (0, 1, 2)]
    before = {TopicPartition("t", index): each for index, each in enumerate(present)}
    sites = [Site(each) for each in range(4)]
    after = spread(before, sites)
    assert spread(after, sites) == after


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 60), st.integers(1, 4), st.integers(4, 8))
def test_without_racks_it_is_even(partitions, factor, brokers):
    before = placed(partitions, factor, [Site(each) for each in range(4)])
    after = spread(before, [Site(each) for each in range(brokers)])
    held = Counter(each for replicas in after.values() for each in replicas)
    assert max(held.values()) - min(held[each] for each in range(brokers)) <= 1


def test_a_new_broker_takes_its_share_and_the_rest_stays():
    before = placed(30, 2, [Site(each) for each in range(3)])
    after = spread(before, [Site(each) for each in range(4)])
    assert moved(before, after) == 15  # a quarter of 60
    led = Counter(replicas[0] for replicas in after.values())
    assert max(led.values()) - min(led.values()) <= 2


def test_a_broker_that_goes_leaves_only_its_own_replicas():
    before = placed(40, 3, [Site(each) for each in range(5)])
    after = spread(before, [Site(each) for each in range(4)])
    needed = sum(4 in replicas for replicas in before.values())
    assert needed <= moved(before, after) <= needed + 2  # and what makes it even


def test_more_and_fewer_replicas():
    sites = [Site(each) for each in range(4)]
    before = placed(8, 2, sites)
    more = spread(before, sites, 3)
    assert all(set(before[where]) <= set(more[where]) for where in before)
    assert all(len(each) == 3 for each in more.values())
    fewer = spread(before, sites, 1)
    assert moved(before, fewer) <= 2
    assert all(len(each) == 1 for each in fewer.values())


def test_racks_are_kept_apart():
    sites = [Site(0, "a"), Site(1, "a"), Site(2, "b"), Site(3, "b")]
    before = placed(20, 2, [Site(0, "a"), Site(2, "b")])
    after = spread(before, sites)
    racks = {site.broker: site.rack for site in sites}
    assert all(len({racks[each] for each in replicas}) == 2 for replicas in after.values())
    held = Counter(each for replicas in after.values() for each in replicas)
    assert set(held.values()) == {10}


def test_ten_thousand_partitions_are_planned_in_a_moment():
    before = placed(10_000, 3, [Site(each) for each in range(3)])
    after = spread(before, [Site(each) for each in range(6)])
    held = Counter(each for replicas in after.values() for each in replicas)
    assert set(held.values()) == {5_000}
