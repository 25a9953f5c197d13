"""Settings of what a broker tells of itself, and of what clients tell it."""

from tidelog.dataclass import dataclass
from tidelog.settings import Section, at_least, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitoringConfig(Section):
    """Metrics, health and the telemetry of clients."""

    listener: str = setting(
        "metrics.listener",
        "",
        "Where /metrics, /healthz and /readyz are served over HTTP, as host:port; nowhere if it is empty. "
        "`tidelog serve` has a default of its own, see --metrics.",
    )
    telemetry_metrics: tuple[str, ...] = setting(
        "client.telemetry.metrics",
        (),
        "Metrics that clients are asked to send (KIP-714), by the beginnings of their names; * for all. "
        "Without any, clients send nothing.",
        dynamic=True,
    )
    telemetry_interval_ms: int = setting(
        "client.telemetry.interval.ms",
        300_000,
        "How often clients are asked to send them.",
        check=at_least(100),
        dynamic=True,
    )
    telemetry_max_bytes: int = setting(
        "telemetry.max.bytes",
        1024 * 1024,
        "Largest telemetry that is taken from a client, compressed.",
        check=at_least(1),
        dynamic=True,
    )
