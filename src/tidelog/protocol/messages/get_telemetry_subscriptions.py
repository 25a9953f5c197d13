"""GetTelemetrySubscriptions (71): which metrics a client is to send (KIP-714)."""

from ..schema import ZERO_UUID, Request, Response, boolean, field, int8, int16, int32, string, uuid


class GetTelemetrySubscriptionsRequest(Request, api_key=71, versions="0", flexible="0+"):
    client_instance_id: uuid = ZERO_UUID


class GetTelemetrySubscriptionsResponse(Response, to=GetTelemetrySubscriptionsRequest):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    client_instance_id: uuid = ZERO_UUID
    subscription_id: int32 = 0
    accepted_compression_types: list[int8] = field(factory=list)
    push_interval_ms: int32 = 0
    telemetry_max_bytes: int32 = 0
    delta_temporality: boolean = False
    requested_metrics: list[string] = field(factory=list)
