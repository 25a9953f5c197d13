"""FindCoordinator (10): which broker keeps a group, a transactional id or a share group.

Versions: 1 adds the type of key, an error message, and throttles; 2 throttles after the answer; 3 is flexible;
4 asks for several keys at once (KIP-699); 5 is for transactions verified by the server (KIP-890); 6 knows share
groups (KIP-932).
"""

from ..schema import Request, Response, Struct, field, int8, int16, int32, string


class FindCoordinatorRequest(Request, api_key=10, versions="0-6", flexible="3+"):
    key: string = field("0-3", default="")
    key_type: int8 = field("1+", default=0)
    coordinator_keys: list[string] = field("4+", factory=list)


class Coordinator(Struct):
    key: string = field("4+", default="")
    node_id: int32 = field("4+", default=0)
    host: string = field("4+", default="")
    port: int32 = field("4+", default=0)
    error_code: int16 = field("4+", default=0)
    error_message: string | None = field("4+", default="")


class FindCoordinatorResponse(Response, to=FindCoordinatorRequest):
    throttle_time_ms: int32 = field("1+", default=0)
    error_code: int16 = field("0-3", default=0)
    error_message: string | None = field("1-3", default="")
    node_id: int32 = field("0-3", default=0)
    host: string = field("0-3", default="")
    port: int32 = field("0-3", default=0)
    coordinators: list[Coordinator] = field("4+", factory=list)
