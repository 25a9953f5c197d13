"""The consumer protocol of KIP-848, one situation a test."""

import pytest

from tidelog.coordination.groups.classic.states import GroupState
from tidelog.errors import (
    FencedInstanceId,
    FencedMemberEpoch,
    GroupIdNotFound,
    GroupMaxSizeReached,
    InconsistentGroupProtocol,
    InvalidRegularExpression,
    InvalidRequest,
    UnknownMemberId,
    UnreleasedInstanceId,
    UnsupportedAssignor,
)
from tidelog.protocol.messages.consumer_group_heartbeat import TopicPartitions

REBALANCE_MS = 20_000


@pytest.fixture(autouse=True)
def topic(world):
    world.topics.create("t", 4)


async def join(world, member_id, **more):
    fields = {
        "subscribed_topic_names": ["t"],
        "rebalance_timeout_ms": REBALANCE_MS,
        "topic_partitions": [],
    }
    return await world.consumer_beat(member_id, 0, **(fields | more))


def owned(world, *indexes, topic="t"):
    view = world.topics.views[topic]
    return [TopicPartitions(topic_id=view.topic_id, partitions=list(indexes))] if indexes else []


def told(response):
    assert response.assignment is not None
    return sorted(
        index for each in response.assignment.topic_partitions for index in each.partitions
    )


def group(world):
    return world.shard.groups["cg"]


async def test_one_member_owns_everything(world):
    response = await join(world, "m1")
    assert response.member_epoch == 1
    assert response.heartbeat_interval_ms == 5000
    assert told(response) == [0, 1, 2, 3]
    assert group(world).state_name == "Stable"
    again = await world.consumer_beat("m1", 1, topic_partitions=owned(world, 0, 1, 2, 3))
    assert again.assignment is None, "nothing changed"


async def test_version_0_is_given_an_id(world):
    response = await join(world, "", version=0)
    assert response.member_id == "id1"


async def test_revoked_before_assigned(world):
    await join(world, "m1")
    second = await join(world, "m2")
    assert told(second) == []
    assert second.member_epoch == 2
    first = await world.consumer_beat("m1", 1)
    kept = told(first)
    assert first.member_epoch == 1
    assert len(kept) == 2
    assert (await world.consumer_beat("m2", 2)).assignment is None, "not given up yet"
    assert group(world).state_name == "Reconciling"
    first = await world.consumer_beat("m1", 1, topic_partitions=owned(world, *kept))
    assert first.member_epoch == 2
    second = await world.consumer_beat("m2", 2)
    assert sorted(kept + told(second)) == [0, 1, 2, 3]
    assert group(world).state_name == "Stable"


async def test_who_does_not_give_up_is_fenced(world):
    await join(world, "m1")
    await join(world, "m2")
    await world.consumer_beat("m1", 1)
    for _ in range(3):
        world.pass_ms(REBALANCE_MS / 3 + 1)
        if "m1" in group(world).members:
            await world.consumer_beat("m1", 1)
        await world.consumer_beat("m2", group(world).members["m2"].epoch)
    assert "m1" not in group(world).members
    with pytest.raises(UnknownMemberId):
        await world.consumer_beat("m1", 1)


async def test_leave_and_session_timeout(world):
    await join(world, "m1")
    await join(world, "m2")
    assert (await world.consumer_beat("m2", -1)).member_epoch == -1
    assert list(group(world).members) == ["m1"]
    world.pass_ms(45_001)
    assert group(world).state_name == "Empty"
    assert not group(world).owners


async def test_epochs_are_checked(world):
    await join(world, "m1")
    with pytest.raises(FencedMemberEpoch):
        await world.consumer_beat("m1", 2)
    with pytest.raises(UnknownMemberId):
        await world.consumer_beat("stranger", 1)
    with pytest.raises(GroupIdNotFound):
        await world.consumer_beat("m1", 1, group="nobody")
    await join(world, "m1"), "a join with a known id is taken as a restart"


async def test_lost_answer_is_repeated(world):
    await join(world, "m1")
    world.topics.create("u", 1)
    response = await world.consumer_beat("m1", 1, subscribed_topic_names=["t", "u"])
    assert response.member_epoch == 2
    again = await world.consumer_beat(
        "m1", 1, topic_partitions=owned(world, 0, 1, 2, 3),
        rebalance_timeout_ms=REBALANCE_MS, subscribed_topic_names=["t", "u"],
    )  # fmt: skip
    assert again.member_epoch == 2
    assert told(again) == [0, 0, 1, 2, 3]


async def test_bad_requests(world):
    for fields in (
        {"rebalance_timeout_ms": -1},
        {"topic_partitions": None},
        {"subscribed_topic_names": []},
        {"instance_id": ""},
        {"rack_id": ""},
    ):
        with pytest.raises(InvalidRequest):
            await join(world, "m1", **fields)
    with pytest.raises(InvalidRequest):
        await world.consumer_beat("m1", -3)
    with pytest.raises(UnsupportedAssignor):
        await join(world, "m1", server_assignor="magic")
    world.set(consumer_max_size=1)
    await join(world, "m1")
    with pytest.raises(GroupMaxSizeReached):
        await join(world, "m2")


async def test_static_member_comes_back(world):
    await join(world, "m1", instance_id="i1")
    with pytest.raises(UnreleasedInstanceId):
        await join(world, "m2", instance_id="i1")
    assert (await world.consumer_beat("m1", -2, instance_id="i1")).member_epoch == -2
    response = await join(world, "m2", instance_id="i1")
    assert told(response) == [0, 1, 2, 3]
    assert response.member_epoch == 1, "no rebalance"
    with pytest.raises(FencedInstanceId):
        await world.consumer_beat("m1", 1, instance_id="i1")
    assert (await world.consumer_beat("m2", -2, instance_id="i1")).member_epoch == -2
    world.pass_ms(45_001)
    assert not group(world).members


async def test_topics_that_change_and_patterns(world):
    await join(world, "m1", subscribed_topic_names=None, subscribed_topic_regex="t.*|u")
    assert len(group(world).members["m1"].assigned) == 4
    world.topics.create("t", 6)
    response = await world.consumer_beat("m1", 1)
    assert told(response) == [0, 1, 2, 3, 4, 5]
    world.topics.create("t2", 1)
    world.topics.create("other", 1)
    response = await world.consumer_beat("m1", 2)
    assert told(response) == [0, 0, 1, 2, 3, 4, 5]
    response = await world.consumer_beat(
        "m1", 3, subscribed_topic_regex="", subscribed_topic_names=["other"]
    )
    assert response.member_epoch == 3, "the old partitions must be given up first"
    response = await world.consumer_beat("m1", 3, topic_partitions=[])
    assert told(response) == [0]
    for pattern in ("(", "(?=a)", r"(a)\1", "a**", "[b-a]"):
        with pytest.raises(InvalidRegularExpression):
            await world.consumer_beat("m1", 4, subscribed_topic_regex=pattern)


async def test_restart(world):
    await join(world, "m1", instance_id="i1", rack_id="r", server_assignor="range")
    await join(world, "m2")
    before = vars(group(world))
    await world.load()
    after = vars(group(world))
    for name in (
        "epoch",
        "assignment_epoch",
        "members",
        "target",
        "topics",
        "owners",
        "static_members",
    ):
        assert before[name] == after[name], name


async def test_offline_migration_both_ways(world):
    member, _ = await world.stable(group="cg")
    with pytest.raises(GroupIdNotFound):
        await join(world, "m1")
    await world.leave(member, group="cg")
    await join(world, "m1")
    with pytest.raises(InconsistentGroupProtocol):
        await world.join(group="cg")
    await world.consumer_beat("m1", -1)
    await world.stable(group="cg")
    assert group(world).state is GroupState.STABLE
    await world.load()
    assert group(world).state is GroupState.STABLE
