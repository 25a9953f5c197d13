"""What administrators are told of a group."""

from collections.abc import Mapping
from uuid import UUID

from tidelog.coordination.groups.assignors.spec import Assignment as Places
from tidelog.coordination.groups.classic.group import ClassicGroup
from tidelog.coordination.groups.classic.states import STABLE
from tidelog.coordination.groups.consumer.group import ConsumerGroup
from tidelog.coordination.groups.consumer.member import by_topic
from tidelog.errors import GroupIdNotFound
from tidelog.protocol.messages.consumer_group_describe import (
    Assignment,
    Member,
    TopicPartitions,
)
from tidelog.protocol.messages.consumer_group_describe import (
    DescribedGroup as DescribedConsumerGroup,
)
from tidelog.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from tidelog.protocol.messages.list_groups import ListedGroup

_CONSUMER_MEMBER = 1
"""ConsumerGroupDescribe v1: the member speaks the consumer protocol, not the classic one."""


def listed(group: ClassicGroup | ConsumerGroup) -> ListedGroup:
    """One line of ListGroups."""
    state = group.state.value if isinstance(group, ClassicGroup) else group.state_name
    return ListedGroup(
        group_id=group.group_id,
        protocol_type=group.protocol_type or "",
        group_state=state,
        group_type=group.type_name,
    )


def classic(group: object, group_id: str) -> DescribedGroup:
    """A classic group; its members' metadata and assignments only when they are settled."""
    if not isinstance(group, ClassicGroup):
        raise GroupIdNotFound(f"there is no classic group {group_id}")
    settled = group.state is STABLE
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol or "") if settled else "",
        members=[
            DescribedGroupMember(
                member_id=each.member_id,
                group_instance_id=each.group_instance_id,
                client_id=each.client_id,
                client_host=each.client_host,
                member_metadata=each.metadata(group.protocol) if settled else b"",
                member_assignment=each.assignment if settled else b"",
            )
            for each in group.members.values()
        ],
    )


def consumer(
    group: object, group_id: str, topic_names: Mapping[UUID, str]
) -> DescribedConsumerGroup:
    """A KIP-848 group with what each member owns and shall own."""
    if not isinstance(group, ConsumerGroup):
        raise GroupIdNotFound(f"there is no consumer group {group_id}")
    votes = [each.server_assignor for each in group.members.values() if each.server_assignor]
    return DescribedConsumerGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=max(set(votes), key=votes.count) if votes else "uniform",
        members=[
            Member(
                member_id=each.member_id,
                instance_id=each.instance_id,
                rack_id=each.rack_id,
                member_epoch=each.epoch,
                client_id=each.client_id,
                client_host=each.client_host,
                subscribed_topic_names=list(each.topic_names),
                subscribed_topic_regex=each.topic_regex,
                assignment=_told(each.assigned, topic_names),
                target_assignment=_told(group.target.get(each.member_id, frozenset()), topic_names),
                member_type=_CONSUMER_MEMBER,
            )
            for each in group.members.values()
        ],
    )


def _told(places: Places, topic_names: Mapping[UUID, str]) -> Assignment:
    topics: list[TopicPartitions] = by_topic(places, TopicPartitions)
    for each in topics:
        each.topic_name = topic_names.get(each.topic_id, "")
    # A topic that was deleted has no name any more.
    return Assignment(topic_partitions=[each for each in topics if each.topic_name])
