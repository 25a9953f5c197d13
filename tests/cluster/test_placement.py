"""Placement is even, repeats no broker and spreads over racks."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tidelog.cluster.placement import Site, place


@given(st.integers(1, 12), st.integers(1, 60), st.data())
def test_leaders_and_replicas_are_even(brokers: int, partitions: int, data: st.DataObject):
    factor = data.draw(st.integers(1, brokers))
    start = data.draw(st.integers(0, 1000))
    placed = place(partitions, factor, [Site(each) for each in range(brokers)], start=start)
    assert len(placed) == partitions
    assert all(len(set(replicas)) == factor for replicas in placed)
    leaders = Counter(replicas[0] for replicas in placed)
    counts = [leaders[each] for each in range(brokers)]
    assert max(counts) - min(counts) <= 1


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(1, 30), st.data())
def test_no_rack_is_used_twice_before_all_were_used(
    racks: list[int], partitions: int, data: st.DataObject
):
    sites = [
        Site(len(racks) * 10 * n + k, f"rack{n}")
        for n, size in enumerate(racks)
        for k in range(size)
    ]
    factor = data.draw(st.integers(1, len(sites)))
    rack_of = {site.broker: site.rack for site in sites}
    for replicas in place(partitions, factor, sites):
        used = {rack_of[broker] for broker in replicas}
        assert len(used) == min(factor, len(racks))


def test_growth_goes_on_where_creation_ended():
    sites = [Site(each) for each in range(3)]
    whole = place(9, 2, sites, start=4)
    assert place(5, 2, sites, start=4) + place(4, 2, sites, first=5, start=4) == whole


def test_followers_of_a_broker_differ():
    placed = place(12, 2, [Site(each) for each in range(4)])
    assert {replicas[1] for replicas in placed if replicas[0] == 0} == {1, 2, 3}
