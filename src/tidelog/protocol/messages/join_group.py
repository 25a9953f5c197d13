"""JoinGroup (11): enter a group, or take part in its next generation.

Versions: 1 has a rebalance timeout of its own; 2 throttles; 3 throttles after the answer; 4 first hands out a
member id (KIP-394); 5 has static members (KIP-345); 6 is flexible; 7 answers with the protocol type (KIP-559);
8 takes a reason (KIP-800); 9 lets the leader skip the assignment (KIP-814).
"""

from ..schema import Request, Response, Struct, boolean, field, int16, int32, octets, string


class JoinGroupRequestProtocol(Struct):
    name: string = ""
    metadata: octets = b""


class JoinGroupRequest(Request, api_key=11, versions="0-9", flexible="6+", most=1_000):
    group_id: string = ""
    session_timeout_ms: int32 = 0
    rebalance_timeout_ms: int32 = field("1+", default=-1)
    member_id: string = ""
    group_instance_id: string | None = field("5+", default=None)
    protocol_type: string = ""
    protocols: list[JoinGroupRequestProtocol] = field(factory=list)
    reason: string | None = field("8+", default=None)


class JoinGroupResponseMember(Struct):
    member_id: string = ""
    group_instance_id: string | None = field("5+", default=None)
    metadata: octets = b""


class JoinGroupResponse(Response, to=JoinGroupRequest):
    throttle_time_ms: int32 = field("2+", default=0)
    error_code: int16 = 0
    generation_id: int32 = -1
    protocol_type: string | None = field("7+", default=None)
    protocol_name: string | None = field(nullable="7+", default="")
    leader: string = ""
    skip_assignment: boolean = field("9+", default=False)
    member_id: string = ""
    members: list[JoinGroupResponseMember] = field(factory=list)
