"""Where a broker listens, and what it tells clients about how to reach it.

Without `advertised.listeners` a client is told the address that it dialled: whatever worked for the first
connection works for the next one, through port forwards and from inside containers.  With it, the broker obeys.
"""

import errno
from collections.abc import Sequence
from typing import NamedTuple

from tidelog.broker.context import Context
from tidelog.cluster.image import Broker
from tidelog.errors import SettingsError
from tidelog.network.peer import Address, Peer

_ALL_INTERFACES = ("", "0.0.0.0", "::")

SUPPORTED = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class Listener(NamedTuple):
    name: str
    host: str
    """Empty, 0.0.0.0 or :: for all interfaces."""
    port: int
    """0 lets the system choose."""
    protocol: str = "PLAINTEXT"
    """Whether it speaks TLS, and whether clients have to log in."""


Endpoint = tuple[str, str, int]
"""Listener name, host and port, as a broker registers; an empty host means "as dialled"."""


def endpoints(
    bound: Sequence[Listener], advertised: Sequence[Listener], machine: str | None = None
) -> tuple[Endpoint, ...]:
    """What a broker registers for the listeners it has opened.

    Where the cluster may have several machines "as dialled" would mislead: `machine` is then the name of this one.
    """
    told = {each.name: each for each in advertised}
    return tuple(
        (each.name, told[each.name].host, told[each.name].port or each.port)
        if each.name in told
        else (each.name, _own_host(each.host, machine), each.port)
        for each in bound
    )


def _own_host(bound: str, machine: str | None) -> str:
    if machine is None:
        return ""
    return machine if bound in _ALL_INTERFACES else bound


def address_of(broker: Broker, peer: Peer) -> Address:
    """How `peer` reaches `broker`, by the listener that the peer itself came in by."""
    found = {name: (host, port) for name, host, port in broker.endpoints}
    host, port = found.get(peer.listener) or next(iter(found.values()), ("", peer.local.port))
    return Address(host or peer.local.host, port)


def advertised(ctx: Context) -> Address:
    """How the client that asks reaches this broker."""
    return address_of(ctx.broker.image().brokers[ctx.broker.broker_id], ctx.peer)


def parse_listeners(setting: str, items: Sequence[str]) -> list[Listener]:
    """Listeners out of `PLAINTEXT://host:port` or `host:port`; `SettingsError` names the bad one."""
    return [_parse(setting, each) for each in items]


def check_protocols(
    listeners: Sequence[Listener], protocol_map: Sequence[str], controllers: Sequence[str]
) -> list[Listener]:
    """The listeners that serve clients; those of Kafka's own controllers are left out."""
    protocols = dict(each.upper().split(":", 1) for each in protocol_map if ":" in each)
    serving = [
        each._replace(protocol=protocols.get(each.name, each.name))
        for each in listeners
        if each.name not in controllers
    ]
    for each in serving:
        if each.protocol not in SUPPORTED:
            raise SettingsError(
                f"listeners: {each.name} asks for {each.protocol}, but tidelog serves {', '.join(SUPPORTED)}; "
                "listener.security.protocol.map says which one a name of your own stands for"
            )
    if not serving:
        raise SettingsError(
            "listeners names no listener for clients; give one as PLAINTEXT://host:port"
        )
    return serving


def _parse(setting: str, text: str) -> Listener:
    name, separator, rest = text.rpartition("://")
    host, colon, port = rest.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        example = "PLAINTEXT://host:9092"
        raise SettingsError(f"{setting}={text!r} must be an address such as {example}")
    return Listener(name.upper() if separator else "PLAINTEXT", host.strip("[]"), int(port))


def cure_of(error: OSError, port: int) -> str:
    """Why a port cannot be listened on, and what to do."""
    if error.errno == errno.EADDRINUSE:
        return f"port {port} is in use; stop what uses it, or choose another with --port"
    if error.errno == errno.EACCES:
        return f"port {port} needs more rights; choose one above 1023 with --port"
    return f"{error.strerror or error}; choose another address with --listen"
