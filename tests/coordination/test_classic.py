"""The classic protocol, one situation a test."""

import pytest

from tidelog.coordination.groups.classic.states import TABLE, GroupState
from tidelog.errors import (
    FencedInstanceId,
    GroupMaxSizeReached,
    IllegalGeneration,
    InconsistentGroupProtocol,
    InvalidSessionTimeout,
    MemberIdRequired,
    NotCoordinator,
    RebalanceInProgress,
    UnknownMemberId,
)
from tidelog.protocol.codec import encode
from tidelog.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from tidelog.protocol.messages.consumer_protocol_assignment import TopicPartition as Assigned
from tidelog.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from tidelog.protocol.messages.consumer_protocol_subscription import TopicPartition as Owned

A, B = ("range", b"a"), ("roundrobin", b"b")


def test_table_has_every_state():
    assert set(TABLE) == set(GroupState)


async def test_first_member_leads_after_the_initial_delay(world):
    waiting = await world.join()
    assert not waiting.done
    world.pass_ms(99)
    assert not waiting.done
    world.pass_ms(2)
    joined = waiting.answer
    assert joined.generation_id == 1
    assert joined.leader == joined.member_id
    assert [each.member_id for each in joined.members] == [joined.member_id]
    assert joined.protocol_name == "range"
    synced = await world.sync(joined.member_id, 1, {joined.member_id: b"all"})
    assert synced.answer.assignment == b"all"
    assert world.shard.groups["g"].state is GroupState.STABLE
    await world.beat(joined.member_id, 1)


async def test_new_members_extend_the_initial_delay(world):
    first = await world.join()
    world.pass_ms(60)
    second = await world.join()
    world.pass_ms(60)
    assert not first.done, "a member came in the first window, so another is waited for"
    world.pass_ms(100)
    assert first.answer.generation_id == second.answer.generation_id == 1
    assert len(first.answer.members) == 2
    assert second.answer.members == []


async def test_member_id_required_and_forgotten(world):
    asked = await world.join(version=4)
    assert asked.code == MemberIdRequired.code
    member_id = asked.answer.member_id
    assert member_id == "c-id1"
    assert world.shard.groups["g"].pending_joins == {member_id}
    joined = await world.join(member_id, version=4)
    world.pass_ms(200)
    assert joined.answer.member_id == member_id

    late = await world.join(version=4)
    world.pass_ms(11_000)
    with pytest.raises(UnknownMemberId):
        await world.join(late.answer.member_id, version=4)


async def test_second_member_rebalances_and_follower_waits_for_leader(world):
    leader, _ = await world.stable()
    second = await world.join()
    with pytest.raises(RebalanceInProgress):
        await world.beat(leader, 1)
    first = await world.join(leader)
    assert first.answer.generation_id == second.answer.generation_id == 2
    follower = second.answer.member_id
    waiting = await world.sync(follower, 2)
    assert not waiting.done
    await world.sync(leader, 2, {leader: b"1", follower: b"2"})
    assert waiting.answer.assignment == b"2"
    again = await world.sync(follower, 2)
    assert again.answer.assignment == b"2"


async def test_who_does_not_rejoin_is_out(world):
    leader, _ = await world.stable(rebalance_ms=20_000, session_ms=60_000)
    second = await world.join(session_ms=60_000)
    world.pass_ms(30_001)
    assert second.answer.leader == second.answer.member_id
    assert list(world.shard.groups["g"].members) == [second.answer.member_id]
    with pytest.raises(UnknownMemberId):
        await world.beat(leader, 2)


async def test_silence_ends_the_session_and_empties_the_group(world):
    member_id, generation = await world.stable()
    world.pass_ms(9_000)
    await world.beat(member_id, generation)
    world.pass_ms(9_000)
    assert member_id in world.shard.groups["g"].members
    world.pass_ms(2_000)
    group = world.shard.groups["g"]
    assert group.state is GroupState.EMPTY
    assert group.generation == 2
    with pytest.raises(UnknownMemberId):
        await world.beat(member_id, generation)


async def test_who_joins_but_does_not_sync_is_out(world):
    leader, _ = await world.stable(session_ms=1_000_000)
    second = await world.join(session_ms=1_000_000)
    await world.join(leader, session_ms=1_000_000)
    await world.sync(leader, 2, {})
    world.pass_ms(30_001)
    group = world.shard.groups["g"]
    assert second.answer.member_id not in group.members
    assert group.state is GroupState.PREPARING_REBALANCE


async def test_protocol_by_votes(world):
    waiting = [
        await world.join(protocols=(A, B)),
        await world.join(protocols=(B, A)),
        await world.join(protocols=(B, A)),
    ]
    world.pass_ms(300)
    assert {each.answer.protocol_name for each in waiting} == {"roundrobin"}
    assert {each.metadata for each in waiting[0].answer.members} == {b"b"}


async def test_no_common_protocol(world):
    await world.stable(protocols=(A,))
    with pytest.raises(InconsistentGroupProtocol):
        await world.join(protocols=(B,))
    with pytest.raises(InconsistentGroupProtocol):
        await world.join(protocols=())


async def test_rejoin_without_change_answers_at_once_but_a_leader_rebalances(world):
    leader, _ = await world.stable()
    second = await world.join()
    await world.join(leader)
    follower = second.answer.member_id
    await world.sync(leader, 2, {leader: b"", follower: b""})
    again = await world.join(follower)
    assert again.answer.generation_id == 2
    assert world.shard.groups["g"].state is GroupState.STABLE
    led = await world.join(leader)
    assert not led.done
    assert world.shard.groups["g"].state is GroupState.PREPARING_REBALANCE


async def test_generation_and_unknown_members(world):
    member_id, generation = await world.stable()
    with pytest.raises(IllegalGeneration):
        await world.beat(member_id, generation + 1)
    with pytest.raises(UnknownMemberId):
        await world.beat("stranger", generation)
    with pytest.raises(UnknownMemberId):
        await world.beat(member_id, generation, group="nobody")
    with pytest.raises(IllegalGeneration):
        await world.sync(member_id, generation + 1)
    with pytest.raises(UnknownMemberId):
        await world.join("stranger", group="nobody")


@pytest.mark.parametrize("session_ms", [5_999, 1_800_001])
async def test_session_timeout_bounds(world, session_ms):
    with pytest.raises(InvalidSessionTimeout):
        await world.join(session_ms=session_ms)


async def test_max_size(world):
    world.set(max_size=1)
    await world.stable()
    with pytest.raises(GroupMaxSizeReached):
        await world.join()


async def test_leave_codes_and_the_last_one_out(world):
    member_id, _ = await world.stable()
    assert await world.leave(member_id, "stranger") == [0, UnknownMemberId.code]
    assert world.shard.groups["g"].state is GroupState.EMPTY


async def test_static_member_returns_without_rebalance(world):
    old, generation = await world.stable(instance="i1", version=5)
    back = await world.join(instance="i1", version=5)
    new = back.answer.member_id
    assert new != old
    assert back.answer.generation_id == generation
    assert back.answer.leader == old, "an old client must not think that it leads"
    synced = await world.sync(new, generation, instance="i1")
    assert synced.answer.assignment == b"all"
    with pytest.raises(FencedInstanceId):
        await world.beat(old, generation, instance="i1")
    back = await world.join(instance="i1", version=9)
    assert back.answer.skip_assignment
    assert back.answer.leader == back.answer.member_id


async def test_static_member_with_another_protocol_rebalances(world):
    await world.stable(instance="i1", version=5, protocols=(A, B))
    back = await world.join(instance="i1", version=5, protocols=(B,))
    assert back.answer.generation_id == 2
    assert back.answer.protocol_name == "roundrobin"


@pytest.mark.parametrize("loaded", [False, True], ids=["", "after a restart"])
@pytest.mark.parametrize(
    ("assigned", "generation"),
    [((0,), 3), ((0, 1), 2), ((0, 1, 2), 2)],
    ids=["to give one up", "keeps all", "gets another"],
)
async def test_static_member_that_went_before_it_gave_up_its_partitions(
    world, assigned, generation, loaded
):
    """Nobody else would ask for the rebalance in which they are given to others (KIP-429 with KIP-345)."""
    old, _ = await world.stable(instance="i1", version=5, protocols=(owning(),))
    again = await world.join(old, instance="i1", version=5, protocols=(owning(0, 1),))
    assert again.answer.generation_id == 2
    await world.sync(old, 2, {old: assignment(*assigned)}, instance="i1")
    if loaded:
        await world.load()
    back = await world.join(instance="i1", version=5, protocols=(owning(),))
    assert back.answer.generation_id == generation
    assert back.answer.member_id != old


def owning(*partitions: int) -> tuple[str, bytes]:
    owned = [Owned(topic="t", partitions=list(partitions))] if partitions else []
    made = ConsumerProtocolSubscription(topics=["t"], owned_partitions=owned)
    return "cooperative-sticky", b"\x00\x01" + encode(made, 1)


def assignment(*partitions: int) -> bytes:
    mine = [Assigned(topic="t", partitions=list(partitions))]
    return b"\x00\x01" + encode(ConsumerProtocolAssignment(assigned_partitions=mine), 1)


async def test_failed_append_changes_nothing_recorded(world):
    joined = await world.join()
    world.pass_ms(200)
    member_id = joined.answer.member_id
    world.journal.fail = NotCoordinator()
    with pytest.raises(NotCoordinator):
        await world.sync(member_id, 1, {member_id: b"all"})
    assert world.shard.groups["g"].state is GroupState.COMPLETING_REBALANCE
    world.journal.fail = None
    synced = await world.sync(member_id, 1, {member_id: b"all"})
    assert synced.answer.assignment == b"all"


async def test_restart_keeps_generation_members_and_assignment(world):
    member_id, generation = await world.stable(instance="i1", version=5)
    await world.load()
    group = world.shard.groups["g"]
    assert group.state is GroupState.STABLE
    assert group.members[member_id].assignment == b"all"
    await world.beat(member_id, generation, instance="i1")
    world.pass_ms(10_001)
    assert world.shard.groups["g"].state is GroupState.EMPTY


async def test_a_rebalance_timeout_of_zero_is_not_a_busy_loop(world):
    first = await world.join(instance="i", rebalance_ms=0, version=5, session_ms=20_000)
    second = await world.join(instance="k", rebalance_ms=0, version=5, session_ms=10_000)
    world.timers.run_due()
    generation = first.answer.generation_id
    leader = first.answer.leader
    await world.sync(leader, generation, {leader: b"all"})
    other = ({first.answer.member_id, second.answer.member_id} - {leader}).pop()
    await world.sync(other, generation)
    runs = 0
    run_due = world.timers.run_due

    def counted():
        nonlocal runs
        runs += 1
        assert runs < 1000
        return run_due()

    world.timers.run_due = counted
    world.pass_ms(15_000)  # the second is silent, and the first does not come back
    assert set(world.shard.groups["g"].members) == {first.answer.member_id}
