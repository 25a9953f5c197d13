"""Offsets within transactions: who may commit them (KIP-447), and what they are until the end."""

import pytest

from tests.coordination.conftest import World
from tidelog.coordination.runtime import EndOfTransaction
from tidelog.errors import (
    FencedInstanceId,
    IllegalGeneration,
    OffsetMetadataTooLarge,
    UnknownMemberId,
    UnknownTopicOrPartition,
)
from tidelog.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tidelog.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)


@pytest.fixture(autouse=True)
def topic(world: World) -> None:
    world.topics.create("t", 2)


async def commit(world: World, offset: int, *, topic="t", group="g", metadata="", **more) -> int:
    row = TxnOffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=metadata
    )
    request = TxnOffsetCommitRequest(
        group_id=group,
        producer_id=more.pop("producer", 7),
        topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[row])],
        **more,
    )
    response = await world.write(lambda shard: shard.commit_in_transaction(request))
    return response.topics[0].partitions[0].error_code


async def commit_plainly(world: World, offset: int) -> None:
    row = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    request = OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=-1,
        topics=[OffsetCommitRequestTopic(name="t", partitions=[row])],
    )
    await world.write(lambda shard: shard.commit(request, 8))


async def end(world: World, *, commit: bool = True, producer: int = 7) -> None:
    await world.runtime.end_transaction(0, EndOfTransaction(producer, 0, commit, 0))


def offset(world: World, group: str = "g") -> int | None:
    found = world.shard.offsets.of(group).get(("t", 0))
    return None if found is None else found.offset


@pytest.mark.parametrize("reloaded", [False, True])
@pytest.mark.parametrize("commits", [False, True])
async def test_pending_until_the_end(world: World, commits: bool, reloaded: bool):
    await commit_plainly(world, 1)
    assert await commit(world, 5) == 0
    assert await commit(world, 6, producer=8) == 0
    if reloaded:
        await world.runtime.load(0, world.journal)
    assert offset(world) == 1
    assert world.shard.offsets.has_pending("g", ("t", 0))
    await end(world, commit=False, producer=8)
    assert world.shard.offsets.has_pending("g", ("t", 0))
    await end(world, commit=commits)
    assert not world.shard.offsets.has_pending("g")
    assert offset(world) == (5 if commits else 1)
    await world.runtime.load(0, world.journal)
    assert offset(world) == (5 if commits else 1)
    assert not world.shard.offsets.has_pending("g")


async def test_the_later_commit_holds(world: World):
    await commit(world, 5)
    await commit_plainly(world, 9)
    await end(world)
    assert offset(world) == 9
    await world.runtime.load(0, world.journal)
    assert offset(world) == 9


async def test_what_cannot_be_stored_is_refused_by_itself(world: World):
    assert await commit(world, 1, topic="absent") == UnknownTopicOrPartition.code
    assert await commit(world, 1, metadata="x" * 5000) == OffsetMetadataTooLarge.code


async def test_members_of_a_classic_group(world: World):
    member, generation = await world.stable()
    good = {"member_id": member, "generation_id": generation}
    assert await commit(world, 1, **good) == 0
    assert await commit(world, 2) == 0, "a producer of before KIP-447 does not say who it is"
    with pytest.raises(IllegalGeneration):
        await commit(world, 3, **{**good, "generation_id": generation - 1})
    with pytest.raises(UnknownMemberId):
        await commit(world, 3, **{**good, "member_id": "zombie"})
    await world.join(client_id="second")
    assert await commit(world, 4, **good) == 0, "also while the group rebalances"
    await end(world)
    assert offset(world) == 4


async def test_a_static_member_that_was_replaced(world: World):
    member, generation = await world.stable(instance="i", version=5)
    good = {"member_id": member, "generation_id": generation, "group_instance_id": "i"}
    assert await commit(world, 1, **good) == 0
    with pytest.raises(FencedInstanceId):
        await commit(world, 1, **{**good, "member_id": "other"})


async def test_a_group_that_is_not_there(world: World):
    with pytest.raises(IllegalGeneration):
        await commit(world, 1, group="new", member_id="m", generation_id=3)
    assert await commit(world, 1, group="new") == 0


async def test_members_of_a_consumer_group(world: World):
    joined = await world.consumer_beat(
        "m", 0, group="g", subscribed_topic_names=["t"], rebalance_timeout_ms=1000,
        topic_partitions=[],
    )  # fmt: skip
    good = {"member_id": "m", "generation_id": joined.member_epoch}
    assert await commit(world, 1, **good) == 0
    assert await commit(world, 2) == 0
    with pytest.raises(IllegalGeneration):
        await commit(world, 3, **{**good, "generation_id": joined.member_epoch + 1})
    with pytest.raises(UnknownMemberId):
        await commit(world, 3, **{**good, "member_id": "zombie"})


@pytest.mark.parametrize("reloaded", [False, True])
@pytest.mark.parametrize("before", [False, True], ids=["never committed", "committed before"])
@pytest.mark.parametrize("what", ["group", "topic"])
async def test_what_was_deleted_does_not_come_back_with_the_end_of_a_transaction(
    world: World, what: str, before: bool, reloaded: bool
):
    if before:
        await commit_plainly(world, 1)
    await commit(world, 5)
    if what == "group":
        await world.write(lambda shard: shard.delete_group("g"))
        assert "g" not in world.shard.groups
    else:
        await world.write(lambda shard: shard.topics_deleted(frozenset({"t"})))
    if reloaded:
        await world.load()
    await end(world)
    assert offset(world) is None
    await world.load()
    assert offset(world) is None
    await commit(world, 6, producer=8)  # what comes later counts
    await end(world, producer=8)
    assert offset(world) == 6
    assert "g" in world.shard.groups
