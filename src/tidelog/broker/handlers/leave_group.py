"""LeaveGroup (13): members leave their classic group, by themselves or removed by an administrator.

Versions: 0-2 one member, whose error is the answer's; 3 several, also by instance id (KIP-345); 4 is flexible;
5 a reason for each.  Absent: nothing.
"""

from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.permissions import READ, group
from tidelog.errors import UnknownMemberId
from tidelog.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)

_BATCHED_FROM = 3


@handles(LeaveGroupRequest, "0-5", allow=group(READ, "group_id"))
async def leave_group(request: LeaveGroupRequest, ctx: Context) -> LeaveGroupResponse:
    batched = ctx.api_version >= _BATCHED_FROM
    leavers = request.members if batched else [MemberIdentity(member_id=request.member_id)]
    try:
        codes = await ctx.broker.groups.leave_group(request.group_id, leavers)
    except UnknownMemberId as error:  # the group itself is not known
        codes = [error.code] * len(leavers)
    if not batched:
        return LeaveGroupResponse(error_code=codes[0])
    return LeaveGroupResponse(
        members=[
            MemberResponse(
                member_id=each.member_id, group_instance_id=each.group_instance_id, error_code=code
            )
            for each, code in zip(leavers, codes, strict=True)
        ]
    )
