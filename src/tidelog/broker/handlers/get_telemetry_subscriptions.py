"""GetTelemetrySubscriptions (71): which metrics a client is to send, and how often (KIP-714).

Versions: 0.  What is wanted are the broker's settings `client.telemetry.metrics` and `client.telemetry.interval.ms`.  Absent:
subscriptions for some clients only (the resources of type CLIENT_METRICS).
"""

from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.permissions import anybody
from tidelog.broker.telemetry import ACCEPTED
from tidelog.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from tidelog.protocol.schema import ZERO_UUID


@handles(GetTelemetrySubscriptionsRequest, "0", allow=anybody)
def get_telemetry_subscriptions(
    request: GetTelemetrySubscriptionsRequest, ctx: Context
) -> GetTelemetrySubscriptionsResponse:
    telemetry, config = ctx.broker.telemetry, ctx.broker.settings.monitoring
    instance = request.client_instance_id
    if instance == ZERO_UUID:
        instance = telemetry.new_id()
    software = " ".join(ctx.peer.software or ())
    telemetry.subscribe(instance, ctx.client_id or "", software, str(ctx.principal))
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance,
        subscription_id=telemetry.subscription_id,
        accepted_compression_types=[int(each) for each in ACCEPTED],
        push_interval_ms=config.telemetry_interval_ms,
        telemetry_max_bytes=config.telemetry_max_bytes,
        # Totals, not differences: what is shown of a client is its last message.
        delta_temporality=False,
        requested_metrics=telemetry.requested,
    )
