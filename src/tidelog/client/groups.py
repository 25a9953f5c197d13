"""Groups from outside: who there is, what they have committed, and changing that."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeVar, cast

from tidelog.client.closing import Closing
from tidelog.client.cluster import Cluster, note_coordinator_error
from tidelog.client.group_protocol import decode_assignment
from tidelog.client.group_requests import CommittedOffset, committed_offsets, offset_commit
from tidelog.dataclass import dataclass
from tidelog.errors import (
    GroupIdNotFound,
    KafkaError,
    ProtocolError,
    UnsupportedVersion,
    error_of,
)
from tidelog.names import TopicPartition, names_in
from tidelog.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from tidelog.protocol.messages.consumer_group_describe import DescribedGroup as DescribedConsumers
from tidelog.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from tidelog.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from tidelog.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from tidelog.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tidelog.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)

T = TypeVar("T")

_DEAD = "Dead"
"""How old brokers describe a group that is not there, or is of the new protocol."""


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group by name, protocol and state."""

    group_id: str
    protocol_type: str
    state: str
    type: str


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A member and what it is assigned; nothing while the group rebalances."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group and its members."""

    group_id: str
    state: str
    protocol_type: str
    assignor: str
    members: tuple[MemberDescription, ...]
    type: str = "classic"
    """`consumer` where the broker assigns (KIP-848)."""


class AsyncGroups(Closing):
    """The part of the admin client that is about groups."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def list_groups(self) -> list[GroupListing]:
        """All groups of all brokers."""
        await self._cluster.retrying(lambda: self._cluster.refresh([]))
        found: dict[str, GroupListing] = {}
        for node in list(self._cluster.nodes):
            answer = cast(ListGroupsResponse, await self._cluster.ask(node, ListGroupsRequest()))
            if answer.error_code:
                raise error_of(answer.error_code)
            for each in answer.groups:
                found[each.group_id] = GroupListing(
                    each.group_id, each.protocol_type, each.group_state, each.group_type
                )
        return sorted(found.values(), key=lambda each: each.group_id)

    async def describe_groups(self, groups: Iterable[str]) -> dict[str, GroupDescription]:
        """These groups with their members."""
        return {group: await self._at(group, self._describe) for group in names_in(groups)}

    async def delete_groups(self, groups: Iterable[str]) -> None:
        """Delete groups that have no members, with their offsets."""
        for group in names_in(groups):
            await self._at(group, self._delete)

    async def group_offsets(
        self, group: str, *, require_stable: bool = False
    ) -> dict[TopicPartition, CommittedOffset]:
        """Everything the group has committed; if stable, after transactions that are being ended have been."""
        return await self._at(
            group,
            lambda group: committed_offsets(
                self._cluster, group, None, require_stable=require_stable
            ),
        )

    async def alter_group_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets in the group's place; it must have no members."""
        wanted = {tp: CommittedOffset(offset, "") for tp, offset in offsets.items()}

        async def commit(group: str) -> None:
            for error in (await offset_commit(self._cluster, group, wanted)).values():
                raise error

        await self._at(group, commit)

    async def delete_group_offsets(self, group: str, partitions: Iterable[TopicPartition]) -> None:
        """Forget what the group has committed for these partitions."""
        topics: dict[str, OffsetDeleteRequestTopic] = {}
        for topic, partition in partitions:
            entry = topics.setdefault(topic, OffsetDeleteRequestTopic(name=topic))
            entry.partitions.append(OffsetDeleteRequestPartition(partition_index=partition))
        request = OffsetDeleteRequest(group_id=group, topics=list(topics.values()))

        async def delete(group: str) -> None:
            answer = cast(OffsetDeleteResponse, await self._cluster.ask_coordinator(group, request))
            self._check(group, answer.error_code)
            for topic in answer.topics:
                for each in topic.partitions:
                    self._check(group, each.error_code)

        await self._at(group, delete)

    async def remove_members(
        self, group: str, *, member_ids: Iterable[str] = (), instance_ids: Iterable[str] = ()
    ) -> None:
        """Put members out of a group, static ones by their instance id."""
        members = [MemberIdentity(member_id=each) for each in member_ids]
        members += [MemberIdentity(group_instance_id=each) for each in instance_ids]

        async def leave(group: str) -> None:
            request = LeaveGroupRequest(group_id=group, members=members)
            answer = cast(LeaveGroupResponse, await self._cluster.ask_coordinator(group, request))
            self._check(group, answer.error_code)
            for each in answer.members:
                self._check(group, each.error_code)

        await self._at(group, leave)

    async def _describe(self, group: str) -> GroupDescription:
        request = DescribeGroupsRequest(groups=[group])
        answer = cast(DescribeGroupsResponse, await self._cluster.ask_coordinator(group, request))
        found = answer.groups[0]
        if found.error_code == GroupIdNotFound.code or found.group_state == _DEAD:
            modern = await self._describe_consumers(group)
            if modern is not None:
                return modern
        self._check(group, found.error_code)
        return _description(found)

    async def _describe_consumers(self, group: str) -> GroupDescription | None:
        """A group of the new protocol; None if it is none, or if the broker does not know of such."""
        request = ConsumerGroupDescribeRequest(group_ids=[group])
        try:
            answer = await self._cluster.ask_coordinator(group, request)
        except UnsupportedVersion:
            return None
        found = cast(ConsumerGroupDescribeResponse, answer).groups[0]
        if found.error_code == GroupIdNotFound.code:
            return None
        self._check(group, found.error_code)
        return _consumers(found)

    async def _delete(self, group: str) -> None:
        request = DeleteGroupsRequest(groups_names=[group])
        answer = cast(DeleteGroupsResponse, await self._cluster.ask_coordinator(group, request))
        self._check(group, answer.results[0].error_code)

    async def _at(self, group: str, action: Callable[[str], Awaitable[T]]) -> T:
        async def ask() -> T:
            try:
                return await action(group)
            except KafkaError as error:
                note_coordinator_error(self._cluster, group, error.code)
                raise

        return await self._cluster.retrying(ask)

    def _check(self, group: str, code: int) -> None:
        if code:
            raise error_of(code, f"group {group!r}: {error_of(code).text}")


def _description(found: DescribedGroup) -> GroupDescription:
    members = []
    for each in found.members:
        try:
            assigned = decode_assignment(each.member_assignment) if each.member_assignment else ()
        except ProtocolError:
            assigned = ()  # a group of another protocol (Connect) assigns something else
        members.append(
            MemberDescription(
                each.member_id,
                each.group_instance_id,
                each.client_id,
                each.client_host,
                tuple(sorted(assigned)),
            )
        )
    return GroupDescription(
        found.group_id,
        found.group_state,
        found.protocol_type,
        found.protocol_data,
        tuple(members),
    )


def _consumers(found: DescribedConsumers) -> GroupDescription:
    members = []
    for each in found.members:
        assigned = [
            TopicPartition(topic.topic_name, partition)
            for topic in each.assignment.topic_partitions
            for partition in topic.partitions
        ]
        members.append(
            MemberDescription(
                each.member_id,
                each.instance_id,
                each.client_id,
                each.client_host,
                tuple(sorted(assigned)),
            )
        )
    return GroupDescription(
        found.group_id,
        found.group_state,
        "consumer",
        found.assignor_name,
        tuple(members),
        "consumer",
    )
