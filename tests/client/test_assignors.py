"""Who gets what: every partition once, evenly, and moved as little as can be."""

from hypothesis import given
from hypothesis import strategies as st

from tidelog.client.assignors import (
    ASSIGNORS,
    Shares,
    assign_cooperative_sticky,
    assign_range,
    assign_round_robin,
    assign_sticky,
)
from tidelog.client.group_protocol import (
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from tidelog.names import TopicPartition


def tps(topic: str, *indexes: int) -> list[TopicPartition]:
    return [TopicPartition(topic, index) for index in indexes]


def wants(*topics: str, owned: list[TopicPartition] = (), generation: int = 1) -> Subscription:  # type: ignore[assignment]
    return Subscription(frozenset(topics), frozenset(owned), generation)


def again(shares: Shares, topics: str, generation: int = 1) -> dict[str, Subscription]:
    return {
        member: wants(*topics, owned=share, generation=generation)
        for member, share in shares.items()
    }


def test_range_is_algorithm_1() -> None:
    members = {"b": wants("t"), "a": wants("t"), "c": wants("t", "u")}
    assert assign_range(members, {"t": 8, "u": 2}) == {
        "a": tps("t", 0, 1, 2),
        "b": tps("t", 3, 4, 5),
        "c": tps("t", 6, 7) + tps("u", 0, 1),
    }


def test_static_members_come_first_and_by_their_instance() -> None:
    members = {
        "a": wants("t"),
        "z": Subscription(frozenset("t"), instance_id="1"),
        "y": Subscription(frozenset("t"), instance_id="2"),
    }
    assert assign_range(members, {"t": 3}) == {
        "z": tps("t", 0),
        "y": tps("t", 1),
        "a": tps("t", 2),
    }


def test_round_robin_deals_over_all_topics() -> None:
    members = {"a": wants("t", "u"), "b": wants("t", "u")}
    assert assign_round_robin(members, {"t": 3, "u": 3}) == {
        "a": tps("t", 0, 2) + tps("u", 1),
        "b": tps("t", 1) + tps("u", 0, 2),
    }


def test_sticky_moves_only_what_it_must() -> None:
    before = assign_sticky({"a": wants("t"), "b": wants("t")}, {"t": 6})
    members = again(before, "t") | {"c": wants("t")}
    after = assign_sticky(members, {"t": 6})
    assert [len(share) for share in after.values()] == [2, 2, 2]
    assert all(set(after[member]) < set(before[member]) for member in before)


def test_of_two_claims_the_later_generation_wins() -> None:
    members = {
        "a": wants("t", owned=tps("t", 0, 1), generation=3),
        "b": wants("t", owned=tps("t", 0, 1), generation=4),
    }
    shares = assign_sticky(members, {"t": 2})
    assert len(shares["b"]) == 1
    assert len(shares["a"]) == 1


def test_cooperative_waits_for_the_owner() -> None:
    members = {"a": wants("t", owned=tps("t", 0, 1, 2, 3)), "b": wants("t")}
    first = assign_cooperative_sticky(members, {"t": 4})
    assert len(first["a"]) == 2
    assert first["b"] == []
    second = assign_cooperative_sticky(again(first, "t", 2), {"t": 4})
    assert second["a"] == first["a"]
    assert len(second["b"]) == 2


counts = st.dictionaries(st.sampled_from("tuvw"), st.integers(0, 9), min_size=1)
members_of = st.dictionaries(
    st.sampled_from("abcdef"), st.sets(st.sampled_from("tuvw")), min_size=1
).map(lambda wanted: {member: wants(*topics) for member, topics in wanted.items()})


@given(members_of, counts, st.sampled_from(sorted(ASSIGNORS)))
def test_each_partition_goes_to_one_who_wants_it(
    members: dict[str, Subscription], sizes: dict[str, int], name: str
) -> None:
    shares = ASSIGNORS[name](members, sizes)
    given_out = [tp for share in shares.values() for tp in share]
    wanted = {topic for each in members.values() for topic in each.topics}
    assert sorted(given_out) == sorted(
        tp for topic in wanted for tp in tps(topic, *range(sizes.get(topic, 0)))
    )
    assert all(tp.topic in members[member].topics for member in shares for tp in shares[member])


@given(st.integers(1, 6), st.integers(0, 20), st.integers(1, 6))
def test_sticky_is_even_after_every_change(first: int, size: int, then: int) -> None:
    everybody = "abcdef"
    before = assign_sticky({member: wants("t") for member in everybody[:first]}, {"t": size})
    old = again(before, "t")
    after = assign_sticky({m: old.get(m, wants("t")) for m in everybody[:then]}, {"t": size})
    loads = [len(share) for share in after.values()]
    assert max(loads) - min(loads) <= 1
    kept = sum(len(set(before[m]) & set(after[m])) for m in before if m in after)
    assert kept >= sum(min(len(before[m]), min(loads)) for m in before if m in after)


def test_subscriptions_and_assignments_survive_the_wire() -> None:
    subscription = wants("t", "u", owned=tps("t", 1, 4), generation=7)
    assert decode_subscription(encode_subscription(subscription)) == subscription
    assert decode_subscription(encode_subscription(subscription, sticky=True)) == subscription
    assert decode_assignment(encode_assignment(tps("t", 2, 3))) == set(tps("t", 2, 3))
    assert decode_assignment(b"") == set()
