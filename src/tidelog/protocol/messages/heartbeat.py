"""Heartbeat (12): a member says that it is alive, and hears of a rebalance.

Versions: 1 throttles; 2 throttles after the answer; 3 has static members (KIP-345); 4 is flexible.
"""

from ..schema import Request, Response, field, int16, int32, string


class HeartbeatRequest(Request, api_key=12, versions="0-4", flexible="4+"):
    group_id: string = ""
    generation_id: int32 = 0
    member_id: string = ""
    group_instance_id: string | None = field("3+", default=None)


class HeartbeatResponse(Response, to=HeartbeatRequest):
    throttle_time_ms: int32 = field("1+", default=0)
    error_code: int16 = 0
