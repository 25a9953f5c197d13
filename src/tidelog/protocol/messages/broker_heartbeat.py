"""BrokerHeartbeat (63): a registered broker asks the controller to be fenced, unfenced or shut down (KIP-631).

Versions: 1 tells of failed log directories (KIP-858); 2 of those that get no new partitions (KIP-1066).
"""

from ..schema import Request, Response, boolean, field, int16, int32, int64, uuid


class BrokerHeartbeatRequest(Request, api_key=63, versions="0-2", flexible="0+"):
    broker_id: int32 = 0
    broker_epoch: int64 = -1
    current_metadata_offset: int64 = 0
    want_fence: boolean = False
    want_shut_down: boolean = False
    offline_log_dirs: list[uuid] = field("1+", tag=0, factory=list)
    cordoned_log_dirs: list[uuid] | None = field("2+", tag=1, default=None)


class BrokerHeartbeatResponse(Response, to=BrokerHeartbeatRequest):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    is_caught_up: boolean = False
    is_fenced: boolean = True
    should_shut_down: boolean = False
