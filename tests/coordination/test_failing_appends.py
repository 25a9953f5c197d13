"""What a timer has decided is not lost when its records cannot be appended for a while, nor what a request left behind."""

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tidelog.coordination.groups.classic.states import COMPLETING, EMPTY, STABLE
from tidelog.errors import CoordinatorNotAvailable, NotEnoughReplicas
from tidelog.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

FAILS_MS = 20_000
"""Long enough for every timer below to be due, and to be tried again a few times."""
SOON_MS = 2_000


async def silent_member(world: Any) -> None:
    await world.stable(session_ms=6_000)


async def several_silent_members(world: Any) -> None:
    first = await world.join(session_ms=6_000)
    second = await world.join(session_ms=6_000)
    world.pass_ms(2 * world.config.initial_rebalance_delay_ms)
    for each in (second, first):
        joined = each.answer
        await world.sync(joined.member_id, 1, {joined.member_id: b"all"})


async def member_that_never_syncs(world: Any) -> None:
    await world.join(session_ms=6_000, rebalance_ms=6_000)
    world.pass_ms(world.config.initial_rebalance_delay_ms)
    assert world.shard.groups["g"].state is COMPLETING


async def member_that_does_not_come_back(world: Any) -> None:
    """The others' rebalance waits for it; then they are gone, too."""
    old, _ = await world.stable(session_ms=60_000, rebalance_ms=5_000)
    new = await world.join(session_ms=6_000, rebalance_ms=5_000)
    assert not new.done
    world.journal.fail = NotEnoughReplicas()
    await leave_in_vain(world, old)


async def member_that_leaves(world: Any) -> None:
    member_id, _ = await world.stable(session_ms=60_000)
    world.journal.fail = NotEnoughReplicas()
    await leave_in_vain(world, member_id)


async def leave_in_vain(world: Any, *members: str) -> None:
    with contextlib.suppress(CoordinatorNotAvailable):
        await world.leave(*members)


@pytest.mark.parametrize(
    "prepare",
    [
        silent_member,
        several_silent_members,
        member_that_never_syncs,
        member_that_does_not_come_back,
        member_that_leaves,
    ],
)
async def test_a_classic_group_whose_members_are_gone_becomes_empty(
    world: Any, prepare: Callable[[Any], Awaitable[None]]
) -> None:
    await prepare(world)
    world.journal.fail = NotEnoughReplicas()
    world.pass_ms(FAILS_MS)
    world.journal.fail = None
    world.pass_ms(SOON_MS)
    group = world.shard.groups["g"]
    assert (group.state, group.members) == (EMPTY, {})
    assert group.generation > 1
    await world.load()
    assert world.shard.groups["g"].state is EMPTY
    await world.write(lambda shard: shard.delete_group("g"))


async def test_a_member_that_comes_while_the_group_cannot_become_empty_is_let_in(world):
    await silent_member(world)
    world.journal.fail = NotEnoughReplicas()
    world.pass_ms(FAILS_MS)
    joined = (await world.join()).answer
    world.pass_ms(2_000)
    world.journal.fail = None
    synced = await world.sync(joined.member_id, joined.generation_id, {joined.member_id: b"all"})
    assert synced.answer.assignment == b"all"
    assert world.shard.groups["g"].state is STABLE


async def test_a_silent_consumer_is_fenced_when_that_can_be_recorded(world):
    world.topics.create("t", 2)
    told = await world.consumer_beat(
        "m", 0, rebalance_timeout_ms=5_000, subscribed_topic_names=["t"], topic_partitions=[]
    )
    assert told.member_epoch == 1
    world.journal.fail = NotEnoughReplicas()
    world.pass_ms(world.config.consumer_session_timeout_ms + FAILS_MS)
    assert set(world.shard.groups["cg"].members) == {"m"}
    world.journal.fail = None
    world.pass_ms(SOON_MS)
    assert world.shard.groups["cg"].members == {}


async def test_a_consumer_that_keeps_its_partitions_is_fenced_when_that_can_be_recorded(world):
    world.set(consumer_session_timeout_ms=1_000_000)
    world.topics.create("t", 2)
    fields = {
        "rebalance_timeout_ms": 5_000,
        "subscribed_topic_names": ["t"],
        "topic_partitions": [],
    }
    await world.consumer_beat("m", 0, **fields)
    await world.consumer_beat("n", 0, **fields)
    await world.consumer_beat("m", 1)  # it hears of what it has to give up, and does not
    world.journal.fail = NotEnoughReplicas()
    world.pass_ms(FAILS_MS)
    assert set(world.shard.groups["cg"].members) == {"m", "n"}
    world.journal.fail = None
    world.pass_ms(SOON_MS)
    assert set(world.shard.groups["cg"].members) == {"n"}


async def test_offsets_expire_when_that_can_be_recorded(world):
    world.topics.create("t", 1)
    row = OffsetCommitRequestPartition(partition_index=0, committed_offset=7)
    topic = OffsetCommitRequestTopic(name="t", partitions=[row])
    request = OffsetCommitRequest(
        group_id="old", generation_id_or_member_epoch=-1, member_id="", topics=[topic]
    )
    await world.write(lambda shard: shard.commit(request, 8))
    retention_ms = world.config.offsets_retention_minutes * 60_000
    interval_ms = world.config.offsets_retention_check_interval_ms
    world.journal.fail = NotEnoughReplicas()
    world.pass_ms(retention_ms + 2 * interval_ms)
    assert "old" in world.shard.groups
    world.journal.fail = None
    world.pass_ms(SOON_MS)
    assert "old" not in world.shard.groups
