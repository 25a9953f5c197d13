"""Settings of the network layer, under Kafka's names."""

from tidelog.dataclass import dataclass
from tidelog.errors import SettingsError
from tidelog.settings import Section, at_least, setting

_UNLIMITED = (1 << 31) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkConfig(Section):
    """Sizes and limits of connections."""

    request_max_bytes: int = setting(
        "socket.request.max.bytes",
        100 * 1024 * 1024,
        "Largest request that is read; a connection that announces a larger one is closed.",
        check=at_least(1),
    )
    queued_max_request_bytes: int = setting(
        "queued.max.request.bytes",
        256 * 1024 * 1024,
        "Memory for requests that are not yet whole or not yet answered; when it is used up, no more is "
        "read. -1 for no limit.",
        check=at_least(-1),
    )
    send_buffer_bytes: int = setting(
        "socket.send.buffer.bytes",
        -1,
        "Send buffer (SO_SNDBUF) of a connection; -1 leaves it to the system, which adapts it.",
        check=at_least(-1),
    )
    receive_buffer_bytes: int = setting(
        "socket.receive.buffer.bytes",
        -1,
        "Receive buffer (SO_RCVBUF) of a connection; -1 leaves it to the system, which adapts it.",
        check=at_least(-1),
    )
    backlog: int = setting(
        "socket.listen.backlog.size",
        1024,
        "Connections that may wait to be accepted.",
        check=at_least(1),
    )
    max_idle_ms: int = setting(
        "connections.max.idle.ms",
        600_000,
        "Time without a request after which a connection is closed; -1 for never.",
        check=at_least(-1),
    )
    max_connections: int = setting(
        "max.connections",
        _UNLIMITED,
        "Connections that are served at a time; further ones wait to be accepted.",
        check=at_least(0),
        dynamic=True,
    )
    max_connections_per_ip: int = setting(
        "max.connections.per.ip",
        _UNLIMITED,
        "Connections from one address; further ones are closed at once.",
        check=at_least(0),
        dynamic=True,
    )
    max_connections_per_ip_overrides: tuple[str, ...] = setting(
        "max.connections.per.ip.overrides",
        (),
        "Exceptions to max.connections.per.ip, as 10.0.0.1:200,10.0.0.2:5.",
        dynamic=True,
    )

    max_strangers_per_ip: int = setting(
        "max.connections.per.ip.before.login",
        1000,
        "Connections from one address that have not logged in, where a listener asks for it; further ones are closed at once.",
        check=at_least(1),
        dynamic=True,
    )
    login_timeout_ms: int = setting(
        "connections.login.timeout.ms",
        30_000,
        "Time in which a connection has to log in, where a listener asks for it; -1 for any time.",
        check=at_least(-1),
        dynamic=True,
    )

    def allowed_from(self, host: str) -> int:
        """How many connections one address may have."""
        return self._exceptions().get(host, self.max_connections_per_ip)

    def _exceptions(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for entry in self.max_connections_per_ip_overrides:
            host, _, count = entry.rpartition(":")
            if not host or not count.isdigit():
                raise SettingsError(
                    f"max.connections.per.ip.overrides: {entry!r} must be address:count"
                )
            found[host] = int(count)
        return found
