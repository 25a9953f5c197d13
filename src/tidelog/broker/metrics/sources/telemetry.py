"""What clients tell of themselves (KIP-714), where `client.telemetry.metrics` asks them to."""

from collections.abc import Iterator

from tidelog.broker.metrics.families import Found, counter, gauge
from tidelog.broker.metrics.sight import Sight

PUSHES = counter(
    "tidelog_client_telemetry_pushes_total", "Messages with metrics that clients have sent."
)
BYTES = counter("tidelog_client_telemetry_bytes_total", "Their size, compressed as they came.")
REFUSED = counter(
    "tidelog_client_telemetry_refused_total",
    "Those that were refused: too large, too often, for an old subscription, unreadable.",
)
CLIENTS = gauge(
    "tidelog_client_telemetry_clients", "Instances of clients that have asked what is wanted."
)
VALUE = gauge(
    "tidelog_client_telemetry",
    "A number that a client has sent of itself last, under the client's own name for it.",
    "client_instance_id",
    "client_id",
    "software",
    "metric",
    "attributes",
    many=True,
)


def collect(sight: Sight) -> Iterator[Found]:
    telemetry = sight.services.telemetry
    fresh = telemetry.fresh()
    yield PUSHES.value(telemetry.pushes)
    yield BYTES.value(telemetry.bytes)
    yield REFUSED.value(telemetry.refused)
    yield CLIENTS.value(len(telemetry.clients))
    # A later number with the same name and attributes is the one that counts.
    yield VALUE.rows(
        ((str(instance), client.client_id, client.software, *key), value)
        for instance, client in fresh
        for key, value in {
            (each.name, ",".join(f"{k}={v}" for k, v in each.attributes)): each.value
            for each in client.points
        }.items()
    )
