"""Assignors: complete, without overlap, even, and sticky."""

from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.coordination.groups.assignors import ASSIGNORS
from tidelog.coordination.groups.assignors.spec import MemberSpec

T, U = UUID(int=1), UUID(int=2)
IDS = [UUID(int=n) for n in range(1, 5)]

counts = st.dictionaries(st.sampled_from(IDS), st.integers(0, 12), min_size=1)
subscriptions = st.dictionaries(
    st.sampled_from([f"m{n}" for n in range(6)]), st.frozensets(st.sampled_from(IDS)), min_size=1
)


def specs(subscribed, before=None):
    before = before or {}
    return {
        key: MemberSpec(None, ids, before.get(key, frozenset())) for key, ids in subscribed.items()
    }


@given(subscriptions, counts, st.sampled_from(sorted(ASSIGNORS)))
@settings(deadline=None)
def test_complete_and_without_overlap(subscribed, partition_counts, name):
    made = ASSIGNORS[name](specs(subscribed), partition_counts)
    given_out = [place for places in made.values() for place in places]
    assert len(given_out) == len(set(given_out))
    for member_id, places in made.items():
        assert {place[0] for place in places} <= subscribed[member_id]
    read = frozenset().union(*subscribed.values())
    wanted = {(t, i) for t, n in partition_counts.items() if t in read for i in range(n)}
    assert set(given_out) == wanted


@given(st.integers(1, 7), counts)
@settings(deadline=None)
def test_uniform_is_even_and_keeps_what_it_can(count, partition_counts):
    everything = frozenset(partition_counts)
    members = {f"m{n}": everything for n in range(count)}
    made = ASSIGNORS["uniform"](specs(members), partition_counts)
    sizes = [len(each) for each in made.values()]
    assert max(sizes) - min(sizes) <= 1
    again = ASSIGNORS["uniform"](specs(members, made), partition_counts)
    assert again == made
    grown = ASSIGNORS["uniform"](specs(members | {"n": everything}, made), partition_counts)
    moved = sum(len(made[key] - grown[key]) for key in made)
    assert moved == len(grown["n"]), "only what the new member needs moves"


@given(subscriptions, counts)
@settings(deadline=None)
def test_uniform_with_mixed_subscriptions_cannot_be_improved_by_one_move(
    subscribed, partition_counts
):
    made = ASSIGNORS["uniform"](specs(subscribed), partition_counts)
    for giver, places in made.items():
        for topic, _ in places:
            for taker, ids in subscribed.items():
                if topic in ids:
                    assert len(made[taker]) + 1 >= len(made[giver])


def test_range_cuts_runs():
    members = {
        "b": MemberSpec(None, frozenset({T, U}), frozenset()),
        "a": MemberSpec(None, frozenset({T}), frozenset()),
        "z": MemberSpec("i0", frozenset({T}), frozenset()),
    }
    made = ASSIGNORS["range"](members, {T: 4, U: 2})
    assert made["z"] == {(T, 0), (T, 1)}, "static members come first"
    assert made["a"] == {(T, 2)}
    assert made["b"] == {(T, 3), (U, 0), (U, 1)}
