"""The group APIs over real logs, in every version, as a client would call them."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from uuid import UUID

import pytest
from hot_path import PEER, HotPath

from tidelog.broker.dispatch import Dispatcher, Handlers
from tidelog.broker.handlers.consumer_group_describe import consumer_group_describe
from tidelog.broker.handlers.consumer_group_heartbeat import consumer_group_heartbeat
from tidelog.broker.handlers.delete_groups import delete_groups
from tidelog.broker.handlers.describe_groups import describe_groups
from tidelog.broker.handlers.find_coordinator import find_coordinator
from tidelog.broker.handlers.heartbeat import heartbeat
from tidelog.broker.handlers.join_group import join_group
from tidelog.broker.handlers.leave_group import leave_group
from tidelog.broker.handlers.list_groups import list_groups
from tidelog.broker.handlers.offset_commit import offset_commit
from tidelog.broker.handlers.offset_delete import offset_delete
from tidelog.broker.handlers.offset_fetch import offset_fetch
from tidelog.broker.handlers.sync_group import sync_group
from tidelog.cluster.image import Broker, Image, PartitionState, Topic
from tidelog.coordination.groups.config import GroupConfig
from tidelog.coordination.groups.coordinator import GroupCoordinator
from tidelog.coordination.shards import shard_of
from tidelog.errors import (
    CoordinatorNotAvailable,
    GroupIdNotFound,
    IllegalGeneration,
    InvalidGroupId,
    InvalidRequest,
    MemberIdRequired,
    NonEmptyGroup,
    UnknownMemberId,
)
from tidelog.names import CONSUMER_OFFSETS
from tidelog.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from tidelog.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tidelog.protocol.messages.delete_groups import DeleteGroupsRequest
from tidelog.protocol.messages.describe_groups import DescribeGroupsRequest
from tidelog.protocol.messages.find_coordinator import FindCoordinatorRequest
from tidelog.protocol.messages.heartbeat import HeartbeatRequest
from tidelog.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tidelog.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tidelog.protocol.messages.list_groups import ListGroupsRequest
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
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tidelog.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

HANDLERS = [
    consumer_group_describe, consumer_group_heartbeat, delete_groups, describe_groups, find_coordinator,
    heartbeat, join_group, leave_group, list_groups, offset_commit, offset_delete, offset_fetch, sync_group,
]  # fmt: skip
SHARDS = 4
OFFSETS_ID, EVENTS_ID = UUID(int=1), UUID(int=2)
STATE = PartitionState(1, 0, 0, (1,), (1,))


class GroupRig(HotPath):
    """A broker of groups alone; the offsets topic is made when it is first needed."""

    def __init__(self, directory) -> None:
        super().__init__(directory)
        events = Topic("events", EVENTS_ID, (STATE, STATE))
        self.image = Image(
            number=1,
            brokers={1: Broker(1, 1, (("PLAINTEXT", "", 9092),), None)},
            topics={"events": events},
            topic_names={EVENTS_ID: "events"},
        )
        self.config = GroupConfig()
        self.services.image = lambda: self.image
        self.services.handlers = Handlers({each.api_key: each for each in HANDLERS})
        self.dispatcher = Dispatcher(self.services)
        self.restart()

    def restart(self) -> None:
        """A new coordinator over the same logs."""
        self.services.groups = GroupCoordinator(
            broker_id=1,
            clock=self.clock,
            image=lambda: self.image,
            partitions=self.services.partitions,
            ensure_topic=self._make_topic,
            config=lambda: self.config,
            call_later=self.timers.call_later,
        )

    async def _make_topic(self, name: str) -> None:
        topic = Topic(name, OFFSETS_ID, (STATE,) * SHARDS)
        self.image = replace(self.image, number=2, topics={**self.image.topics, name: topic})
        for index in range(SHARDS):
            self.add(name, index, OFFSETS_ID, 0)


@pytest.fixture
async def rig(tmp_path):
    made = GroupRig(tmp_path)
    yield made
    await made.services.groups.stop()


def version_of(handler, version):
    """The nearest version that the API has."""
    return max(handler.versions.first, min(version, handler.versions.last))


async def join(rig, version, member_id="", group="g"):
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=20_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"meta")],
    )
    task = asyncio.create_task(rig.ask(request, version))
    for _ in range(20):
        await asyncio.sleep(0)
    if not task.done():
        await rig.timers.advance(100)
    return await task


async def stable(rig, version=9, group="g"):
    joined = await join(rig, version, group=group)
    if joined.error_code == MemberIdRequired.code:
        joined = await join(rig, version, joined.member_id, group)
    assert joined.error_code == 0
    assignment = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"mine")
    synced = await rig.ask(
        SyncGroupRequest(
            group_id=group,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=[assignment],
        ),
        version_of(sync_group, version),
    )
    assert (synced.error_code, synced.assignment) == (0, b"mine")
    return joined


def commit_request(joined=None, group="g", offset=42):
    row = OffsetCommitRequestPartition(
        partition_index=1, committed_offset=offset, committed_metadata="m"
    )
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=joined.generation_id if joined else -1,
        member_id=joined.member_id if joined else "",
        topics=[OffsetCommitRequestTopic(name="events", partitions=[row])],
    )


def fetch_request(version, group="g"):
    if version >= 8:
        topics = [OffsetFetchRequestTopics(name="events", partition_indexes=[0, 1])]
        return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)])
    topics = [OffsetFetchRequestTopic(name="events", partition_indexes=[0, 1])]
    return OffsetFetchRequest(group_id=group, topics=topics)


def offsets_in(response, version):
    topics = response.groups[0].topics if version >= 8 else response.topics
    return {
        row.partition_index: (row.committed_offset, row.metadata)
        for each in topics
        for row in each.partitions
    }


@pytest.mark.parametrize("version", range(10))
async def test_a_member_in_every_version(rig, version):
    joined = await stable(rig, version)
    assert joined.leader == joined.member_id
    assert [each.metadata for each in joined.members] == [b"meta"]
    beat = HeartbeatRequest(
        group_id="g", generation_id=joined.generation_id, member_id=joined.member_id
    )
    assert (await rig.ask(beat, version_of(heartbeat, version))).error_code == 0

    committed = await rig.ask(commit_request(joined), version_of(offset_commit, version))
    assert committed.topics[0].partitions[0].error_code == 0
    at = version_of(offset_fetch, version)
    assert offsets_in(await rig.ask(fetch_request(at), at), at) == {0: (-1, ""), 1: (42, "m")}

    listed = await rig.ask(ListGroupsRequest(), version_of(list_groups, version))
    assert [(each.group_id, each.protocol_type) for each in listed.groups] == [("g", "consumer")]
    described = await rig.ask(
        DescribeGroupsRequest(groups=["g"]), version_of(describe_groups, version)
    )
    (group,) = described.groups
    assert (group.group_state, group.protocol_data) == ("Stable", "range")
    assert group.members[0].client_host == "/192.0.2.1"
    assert group.members[0].member_assignment == b"mine"

    at = version_of(leave_group, version)
    gone = LeaveGroupRequest(group_id="g", member_id=joined.member_id)
    if at >= 3:
        gone = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=joined.member_id)])
    left = await rig.ask(gone, at)
    assert left.error_code == 0
    assert [each.error_code for each in left.members] == ([0] if at >= 3 else [])


@pytest.mark.parametrize("version", range(7))
async def test_find_coordinator(rig, version):
    batched = version >= 4
    keys = {"coordinator_keys": ["g", "h"]} if batched else {"key": "g"}
    response = await rig.ask(FindCoordinatorRequest(**keys), version)
    found = response.coordinators if batched else [response]
    for each in found:
        assert (each.error_code, each.node_id, each.host, each.port) == (
            0, 1, PEER.local.host, PEER.local.port,
        )  # fmt: skip
    assert CONSUMER_OFFSETS in rig.image.topics


async def test_find_coordinator_says_why_not(rig):
    async def fail(name):
        raise CoordinatorNotAvailable

    rig.services.groups._shards._ensure_topic = fail
    response = await rig.ask(FindCoordinatorRequest(key="g"), 3)
    assert (response.error_code, response.node_id) == (CoordinatorNotAvailable.code, -1)
    response = await rig.ask(FindCoordinatorRequest(coordinator_keys=["s"], key_type=2), 6)
    assert response.coordinators[0].error_code == InvalidRequest.code
    response = await rig.ask(FindCoordinatorRequest(coordinator_keys=["t"], key_type=1), 6)
    assert response.coordinators[0].error_code == 0


async def test_offsets_and_members_survive_a_restart(rig):
    joined = await stable(rig)
    await rig.ask(commit_request(joined), 9)
    await rig.services.groups.stop()
    rig.restart()
    rig.services.groups.follow()
    assert offsets_in(await rig.ask(fetch_request(9), 9), 9)[1] == (42, "m")
    beat = HeartbeatRequest(
        group_id="g", generation_id=joined.generation_id, member_id=joined.member_id
    )
    assert (await rig.ask(beat, 4)).error_code == 0


async def test_a_large_log_asks_for_patience(rig, monkeypatch):
    await rig.ask(commit_request(), 9)
    await rig.services.groups.stop()
    rig.restart()
    monkeypatch.setattr("tidelog.coordination.shards._LOADED_AT_ONCE_BYTES", 0)
    response = await rig.ask(fetch_request(9), 9)
    assert response.groups[0].error_code == 14
    for _ in range(20):
        await asyncio.sleep(0)
    assert offsets_in(await rig.ask(fetch_request(9), 9), 9)[1] == (42, "m")


async def test_errors_of_a_commit_are_on_each_partition(rig):
    stranger = SimpleNamespace(generation_id=3, member_id="x")
    response = await rig.ask(commit_request(stranger), 8)
    assert response.topics[0].partitions[0].error_code == IllegalGeneration.code
    response = await rig.ask(commit_request(stranger), 9)
    assert response.topics[0].partitions[0].error_code == GroupIdNotFound.code


@pytest.mark.parametrize("version", range(1, 10))
async def test_place_of_an_offset_fetch_error(rig, version):
    async def fail(name):
        raise CoordinatorNotAvailable

    rig.services.groups._shards._ensure_topic = fail
    response = await rig.ask(fetch_request(version), version)
    code = CoordinatorNotAvailable.code
    if version >= 8:
        assert response.groups[0].error_code == code
    elif version >= 2:
        assert (response.error_code, response.topics) == (code, [])
    else:
        assert {row.error_code for row in response.topics[0].partitions} == {code}


async def test_all_offsets_of_several_groups(rig):
    await rig.ask(commit_request(group="a"), 9)
    groups = [OffsetFetchRequestGroup(group_id=each, topics=None) for each in ("a", "b")]
    response = await rig.ask(OffsetFetchRequest(groups=groups), 8)
    assert [len(each.topics) for each in response.groups] == [1, 0]
    assert [each.error_code for each in response.groups] == [0, 0]


async def test_unknown_groups(rig):
    for version in range(7):
        response = await rig.ask(DescribeGroupsRequest(groups=["nobody"]), version)
        (group,) = response.groups
        assert group.group_state == "Dead"
        assert group.error_code == (GroupIdNotFound.code if version == 6 else 0)
    response = await rig.ask(ConsumerGroupDescribeRequest(group_ids=["nobody"]), 1)
    assert response.groups[0].error_code == GroupIdNotFound.code
    leave = LeaveGroupRequest(group_id="nobody", member_id="m")
    assert (await rig.ask(leave, 2)).error_code == UnknownMemberId.code
    leave = LeaveGroupRequest(group_id="nobody", members=[MemberIdentity(member_id="m")])
    response = await rig.ask(leave, 3)
    assert (response.error_code, response.members[0].error_code) == (0, UnknownMemberId.code)
    beat = HeartbeatRequest(group_id="", generation_id=1, member_id="m")
    assert (await rig.ask(beat, 4)).error_code == InvalidGroupId.code


async def test_delete_groups_and_offsets(rig):
    await rig.ask(commit_request(group="simple"), 9)
    await stable(rig, group="busy")
    row = OffsetDeleteRequestPartition(partition_index=1)
    topic = OffsetDeleteRequestTopic(name="events", partitions=[row])
    response = await rig.ask(OffsetDeleteRequest(group_id="simple", topics=[topic]), 0)
    assert (response.error_code, response.topics[0].partitions[0].error_code) == (0, 0)
    for version in range(3):
        response = await rig.ask(DeleteGroupsRequest(groups_names=["busy", "none"]), version)
        codes = [each.error_code for each in response.results]
        assert codes == [NonEmptyGroup.code, GroupIdNotFound.code]
    response = await rig.ask(DeleteGroupsRequest(groups_names=["simple"]), 2)
    assert response.results[0].error_code == 0


async def test_list_filters(rig):
    await rig.ask(commit_request(group="simple"), 9)
    await stable(rig, group="busy")

    async def names(**filters):
        response = await rig.ask(ListGroupsRequest(**filters), 5)
        return sorted(each.group_id for each in response.groups)

    assert await names() == ["busy", "simple"]
    assert await names(states_filter=["Stable"]) == ["busy"]
    assert await names(states_filter=["empty", "Stable"]) == ["busy", "simple"]
    assert await names(types_filter=["consumer"]) == []
    assert await names(types_filter=["Classic"]) == ["busy", "simple"]


@pytest.mark.parametrize("version", range(2))
async def test_consumer_protocol(rig, version):
    request = ConsumerGroupHeartbeatRequest(
        group_id="cg",
        member_id="m1",
        rebalance_timeout_ms=20_000,
        subscribed_topic_names=["events"],
        topic_partitions=[],
    )
    response = await rig.ask(request, version)
    assert (response.error_code, response.member_epoch) == (0, 1)
    (topic,) = response.assignment.topic_partitions
    assert (topic.topic_id, topic.partitions) == (EVENTS_ID, [0, 1])
    described = await rig.ask(
        ConsumerGroupDescribeRequest(group_ids=["cg"], include_authorized_operations=True), version
    )
    (group,) = described.groups
    assert (group.group_state, group.group_epoch, group.assignor_name) == ("Stable", 1, "uniform")
    assert group.authorized_operations == 1 << 3 | 1 << 6 | 1 << 8
    (member,) = group.members
    assert member.assignment.topic_partitions[0].topic_name == "events"
    assert member.assignment == member.target_assignment
    wrong = await rig.ask(
        ConsumerGroupHeartbeatRequest(group_id="cg", member_id="x", member_epoch=9), version
    )
    assert wrong.error_code == UnknownMemberId.code
    assert wrong.error_message


async def test_stop_sends_away_who_waits(rig):
    await stable(rig, version=3)
    waiting = asyncio.create_task(
        rig.ask(
            JoinGroupRequest(
                group_id="g",
                session_timeout_ms=10_000,
                rebalance_timeout_ms=20_000,
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name="range")],
            ),
            3,
        )
    )
    for _ in range(20):
        await asyncio.sleep(0)
    assert not waiting.done()
    await rig.services.groups.stop()
    assert (await waiting).error_code == 16


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        ("", 0),
        ("a", 97 % 50),
        ("abc", 96354 % 50),
        ("accounting", 803323243 % 50),  # the hash is negative: Kafka takes its absolute value
        ("polygenelubricants", 0),
        ("ü€😀", 17318035 % 50),
    ],
)
def test_shard_is_javas_string_hash(group, expected):
    assert shard_of(group, 50) == expected


async def test_names_too_long_to_be_stored(rig):
    response = await rig.ask(commit_request(group="g" * 32768), 9)
    assert response.topics[0].partitions[0].error_code == InvalidGroupId.code
    request = ConsumerGroupHeartbeatRequest(
        group_id="cg",
        member_id="m" * 40_000,
        rebalance_timeout_ms=20_000,
        subscribed_topic_names=["events"],
        topic_partitions=[],
    )
    assert (await rig.ask(request, 1)).error_code == InvalidRequest.code
    request.member_id = "m"
    assert (await rig.ask(request, 1)).error_code == 0
