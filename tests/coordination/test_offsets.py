"""Committed offsets: who may commit, what is read back, and when they expire."""

import pytest

from tidelog.coordination.groups.records import Change
from tidelog.coordination.groups.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from tidelog.errors import (
    GroupIdNotFound,
    GroupSubscribedToTopic,
    IllegalGeneration,
    NonEmptyGroup,
    OffsetMetadataTooLarge,
    RebalanceInProgress,
    UnknownMemberId,
    UnknownTopicOrPartition,
    UnstableOffsetCommit,
)
from tidelog.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tidelog.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tidelog.protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)

SUBSCRIBED = b"\x00\x00\x00\x00\x00\x01\x00\x01t\xff\xff\xff\xff"
"""A consumer's subscription, version 0, to the topic t."""
WEEK_MS = 7 * 24 * 3_600_000


@pytest.fixture(autouse=True)
def topic(world):
    world.topics.create("t", 2)


async def commit(
    world, offset=5, *, member="", generation=-1, topic="t", index=0, group="g", **more
):
    metadata = more.pop("metadata", "m")
    row = OffsetCommitRequestPartition(
        partition_index=index, committed_offset=offset, committed_metadata=metadata
    )
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member,
        topics=[OffsetCommitRequestTopic(name=topic, partitions=[row])],
        **more,
    )
    version = 8
    response = await world.write(lambda shard: shard.commit(request, version))
    return response.topics[0].partitions[0].error_code


def fetch(world, *indexes, topic="t", group="g", require_stable=False, everything=False):
    topics = (
        None
        if everything
        else [OffsetFetchRequestTopics(name=topic, partition_indexes=list(indexes))]
    )
    request = OffsetFetchRequestGroup(group_id=group, topics=topics)
    found = world.shard.fetch(request, require_stable)
    return {
        (each.name, row.partition_index): (row.committed_offset, row.metadata, row.error_code)
        for each in found.topics
        for row in each.partitions
    }


async def delete(world, *indexes):
    rows = [OffsetDeleteRequestPartition(partition_index=each) for each in indexes]
    request = OffsetDeleteRequest(
        group_id="g", topics=[OffsetDeleteRequestTopic(name="t", partitions=rows)]
    )
    response = await world.write(lambda shard: shard.delete_offsets(request))
    return [each.error_code for each in response.topics[0].partitions]


async def test_outsider_commits_to_a_group_that_nobody_is_in(world):
    assert await commit(world) == 0
    assert fetch(world, 0, 1) == {("t", 0): (5, "m", 0), ("t", 1): (-1, "", 0)}
    assert fetch(world, everything=True) == {("t", 0): (5, "m", 0)}
    assert fetch(world, 0, group="unknown") == {("t", 0): (-1, "", 0)}
    await world.load()
    assert fetch(world, 0) == {("t", 0): (5, "m", 0)}


async def test_refusals_of_single_partitions(world):
    assert await commit(world, topic="nowhere") == UnknownTopicOrPartition.code
    assert await commit(world, index=2) == UnknownTopicOrPartition.code
    assert await commit(world, metadata="x" * 4097) == OffsetMetadataTooLarge.code
    assert await commit(world, metadata="x" * 4096) == 0
    assert await commit(world, metadata=None) == 0


async def test_members_of_the_generation_only(world):
    member, generation = await world.stable()
    assert await commit(world, member=member, generation=generation) == 0
    with pytest.raises(UnknownMemberId):
        await commit(world)
    with pytest.raises(IllegalGeneration):
        await commit(world, member=member, generation=generation + 1)
    with pytest.raises(UnknownMemberId):
        await commit(world, member="stranger", generation=generation)
    with pytest.raises(IllegalGeneration):
        await commit(world, member=member, generation=1, group="unknown")


async def test_commit_during_a_rebalance(world):
    member, generation = await world.stable()
    await world.join()
    assert await commit(world, member=member, generation=generation) == 0, "preparing: accepted"
    await world.join(member)
    with pytest.raises(RebalanceInProgress):
        await commit(world, member=member, generation=generation + 1)


async def test_pending_offsets_of_a_transaction(world):
    key = OffsetCommitKey(group="g", topic="t", partition=0)
    world.shard.replay(Change(key, OffsetCommitValue(offset=9), producer_id=7))
    assert fetch(world, 0) == {("t", 0): (-1, "", 0)}
    assert fetch(world, 0, require_stable=True)["t", 0][2] == UnstableOffsetCommit.code
    world.shard.end_transaction(7, True)
    assert fetch(world, 0, require_stable=True)["t", 0][0] == 9
    world.shard.replay(Change(key, OffsetCommitValue(offset=11), producer_id=7))
    world.shard.end_transaction(7, False)
    assert fetch(world, 0)["t", 0][0] == 9


async def test_delete_offsets(world):
    with pytest.raises(GroupIdNotFound):
        await delete(world, 0)
    await commit(world)
    assert await delete(world, 0, 1) == [0, 0]
    assert fetch(world, everything=True) == {}
    await world.stable(group="g", protocols=(("range", SUBSCRIBED),))
    assert await delete(world, 0) == [GroupSubscribedToTopic.code]


async def test_delete_group(world):
    with pytest.raises(GroupIdNotFound):
        await world.write(lambda shard: shard.delete_group("g"))
    await commit(world)
    member, _ = await world.stable()
    with pytest.raises(NonEmptyGroup):
        await world.write(lambda shard: shard.delete_group("g"))
    await world.leave(member)
    await world.write(lambda shard: shard.delete_group("g"))
    assert "g" not in world.shard.groups
    assert fetch(world, everything=True) == {}
    await world.load()
    assert not world.shard.groups


async def test_offsets_of_a_deleted_topic_are_forgotten(world):
    await commit(world)
    await world.write(lambda shard: shard.topics_deleted(frozenset({"t"})))
    assert fetch(world, everything=True) == {}


async def test_offsets_expire_a_week_after_the_last_member_left(world):
    member, generation = await world.stable(protocols=(("range", SUBSCRIBED),))
    await commit(world, member=member, generation=generation)
    world.clock.advance(2 * WEEK_MS)
    await world.write(lambda shard: shard.expire())
    assert fetch(world, 0)["t", 0][0] == 5, "its topic is still read"
    await world.leave(member)
    world.clock.advance(WEEK_MS - 1)
    await world.write(lambda shard: shard.expire())
    assert fetch(world, 0)["t", 0][0] == 5
    world.clock.advance(1)
    await world.write(lambda shard: shard.expire())
    assert fetch(world, 0)["t", 0][0] == -1
    assert "g" not in world.shard.groups


async def test_own_retention_of_old_clients(world):
    await commit(world, retention_time_ms=1000)
    world.clock.advance(1000)
    await world.load()
    await world.write(lambda shard: shard.expire())
    assert fetch(world, everything=True) == {}


async def test_expiry_runs_by_itself(world):
    await commit(world, retention_time_ms=1000)
    world.pass_ms(world.config.offsets_retention_check_interval_ms + 1)
    assert fetch(world, everything=True) == {}
