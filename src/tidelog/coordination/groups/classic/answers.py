"""What members of a classic group are told."""

from tidelog.coordination.groups.classic.group import ClassicGroup
from tidelog.coordination.groups.classic.member import Member
from tidelog.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from tidelog.protocol.messages.sync_group import SyncGroupResponse


def members_of(group: ClassicGroup) -> list[JoinGroupResponseMember]:
    """What the leader needs to assign."""
    return [
        JoinGroupResponseMember(
            member_id=each.member_id,
            group_instance_id=each.group_instance_id,
            metadata=each.metadata(group.protocol),
        )
        for each in group.members.values()
    ]


def joined(
    group: ClassicGroup, member: Member, members: list[JoinGroupResponseMember]
) -> JoinGroupResponse:
    """The member is in this generation; `members` are told to the leader alone."""
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=group.leader or "",
        member_id=member.member_id,
        members=members if group.leader == member.member_id else [],
    )


def synced(group: ClassicGroup, assignment: bytes) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=assignment
    )
