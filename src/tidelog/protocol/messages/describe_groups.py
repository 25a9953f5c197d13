"""DescribeGroups (15): state and members of classic groups.

Versions: 1 throttles; 2 throttles after the answer; 3 adds authorized operations (KIP-430); 4 static members
(KIP-345); 5 is flexible; 6 says that a group does not exist, with a message (KIP-1043).
"""

from ..schema import Request, Response, Struct, boolean, field, int16, int32, octets, string


class DescribeGroupsRequest(Request, api_key=15, versions="0-6", flexible="5+"):
    groups: list[string] = field(factory=list)
    include_authorized_operations: boolean = field("3+", default=False)


class DescribedGroupMember(Struct):
    member_id: string = ""
    group_instance_id: string | None = field("4+", default=None)
    client_id: string = ""
    client_host: string = ""
    member_metadata: octets = b""
    member_assignment: octets = b""


class DescribedGroup(Struct):
    error_code: int16 = 0
    error_message: string | None = field("6+", default=None)
    group_id: string = ""
    group_state: string = ""
    protocol_type: string = ""
    protocol_data: string = ""
    members: list[DescribedGroupMember] = field(factory=list)
    authorized_operations: int32 = field("3+", default=-2147483648)


class DescribeGroupsResponse(Response, to=DescribeGroupsRequest):
    throttle_time_ms: int32 = field("1+", default=0)
    groups: list[DescribedGroup] = field(factory=list)
