"""LeaveGroup (13): members go, or are removed from their group.

Versions: 1 throttles; 2 throttles after the answer; 3 takes several members, by id or instance id (KIP-345); 4 is
flexible; 5 takes a reason (KIP-800).
"""

from ..schema import Request, Response, Struct, field, int16, int32, string


class MemberIdentity(Struct):
    member_id: string = field("3+", default="")
    group_instance_id: string | None = field("3+", default=None)
    reason: string | None = field("5+", default=None)


class LeaveGroupRequest(Request, api_key=13, versions="0-5", flexible="4+"):
    group_id: string = ""
    member_id: string = field("0-2", default="")
    members: list[MemberIdentity] = field("3+", factory=list)


class MemberResponse(Struct):
    member_id: string = field("3+", default="")
    group_instance_id: string | None = field("3+", default="")
    error_code: int16 = field("3+", default=0)


class LeaveGroupResponse(Response, to=LeaveGroupRequest):
    throttle_time_ms: int32 = field("1+", default=0)
    error_code: int16 = 0
    members: list[MemberResponse] = field("3+", factory=list)
