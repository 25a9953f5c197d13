"""PushTelemetry (72): a client sends its metrics, in OpenTelemetry's format (KIP-714).

Versions: 0.  They are counted, and shown with the broker's own (`tidelog_client_telemetry`).  Absent: histograms.
"""

from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.permissions import anybody
from tidelog.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse


@handles(PushTelemetryRequest, "0", allow=anybody)
async def push_telemetry(request: PushTelemetryRequest, ctx: Context) -> PushTelemetryResponse:
    await ctx.broker.telemetry.push(
        request.client_instance_id,
        request.subscription_id,
        request.compression_type,
        bytes(request.metrics),
        terminating=request.terminating,
        principal=str(ctx.principal),
    )
    return PushTelemetryResponse()
