"""PushTelemetry (72): a client sends its metrics (KIP-714)."""

from ..schema import ZERO_UUID, Request, Response, boolean, int8, int16, int32, octets, uuid


class PushTelemetryRequest(Request, api_key=72, versions="0", flexible="0+"):
    client_instance_id: uuid = ZERO_UUID
    subscription_id: int32 = 0
    terminating: boolean = False
    compression_type: int8 = 0
    metrics: octets = b""


class PushTelemetryResponse(Response, to=PushTelemetryRequest):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
