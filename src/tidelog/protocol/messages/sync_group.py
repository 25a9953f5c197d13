"""SyncGroup (14): the leader hands in the assignment, each member receives its share.

Versions: 1 throttles; 2 throttles after the answer; 3 has static members (KIP-345); 4 is flexible; 5 checks the
protocol type and name (KIP-559).
"""

from ..schema import Request, Response, Struct, field, int16, int32, octets, string


class SyncGroupRequestAssignment(Struct):
    member_id: string = ""
    assignment: octets = b""


class SyncGroupRequest(Request, api_key=14, versions="0-5", flexible="4+"):
    group_id: string = ""
    generation_id: int32 = 0
    member_id: string = ""
    group_instance_id: string | None = field("3+", default=None)
    protocol_type: string | None = field("5+", default=None)
    protocol_name: string | None = field("5+", default=None)
    assignments: list[SyncGroupRequestAssignment] = field(factory=list)


class SyncGroupResponse(Response, to=SyncGroupRequest):
    throttle_time_ms: int32 = field("1+", default=0)
    error_code: int16 = 0
    protocol_type: string | None = field("5+", default=None)
    protocol_name: string | None = field("5+", default=None)
    assignment: octets = b""
