"""Accepts connections on one address."""

import errno
import logging
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from .config import NetworkConfig
from .connection import Connection
from .hub import Hub
from .peer import Address, Peer

if TYPE_CHECKING:
    import ssl

    from .tls import Identify

_ACCEPTS_AT_ONCE = 64
_BREATHING_SPACE_S = 0.5  # after the process ran out of file descriptors

_log = logging.getLogger(__name__)

OpenSocket: TypeAlias = Callable[[str, int, NetworkConfig], socket.socket]
"""As `open_socket`; the simulation passes one of its own, whose sockets lead nowhere but into the simulation."""


def open_socket(host: str, port: int, config: NetworkConfig) -> socket.socket:
    """A socket that holds the address; raises OSError.  An empty host means all, IPv6 included where there is.

    It does not listen yet: who comes before the broker serves is refused, and does not wait for an answer in vain.
    """
    family = socket.AF_INET
    if ":" in host or (not host and socket.has_dualstack_ipv6()):
        family = socket.AF_INET6
    elif host:
        # As bytes, where it can be: Python loads the tables of international names for any text.
        name = host.encode() if host.isascii() else host
        found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = found[0]
        host = str(address[0])
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1 if host else 0)
        sock.bind((host, port))
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock


class TlsSettings(NamedTuple):
    """What a listener needs for TLS."""

    context: "Callable[[], ssl.SSLContext]"
    """Asked for every connection, so that certificates can be replaced."""
    identify: "Identify"


class Listener:
    """Turns what a listening socket accepts into connections of a hub."""

    def __init__(
        self,
        sock: socket.socket,
        name: str,
        hub: Hub,
        tls: "TlsSettings | None" = None,
        *,
        largest: int | None = None,
    ) -> None:
        """With `tls` everybody has to speak TLS; `largest` limits the requests of peers at first."""
        self.name = name
        self.address = _address(sock.getsockname())
        self._sock = sock
        self._hub = hub
        self._tls = tls
        self._largest = largest
        self._accepting = False
        self._listening = False

    def start(self) -> None:
        """Accept from now on; raises OSError if somebody else listens there since the socket was opened."""
        if not self._accepting and self._sock.fileno() >= 0:
            if not self._listening:
                self._sock.listen(self._hub.config.backlog)
                self._listening = True
            self._accepting = True
            self._hub.loop.add_reader(self._sock.fileno(), self._on_acceptable)

    def pause(self) -> None:
        """Let new connections wait."""
        if self._accepting:
            self._accepting = False
            self._hub.loop.remove_reader(self._sock.fileno())

    def close(self) -> None:
        """Accept no more; open connections are the hub's."""
        self.pause()
        self._sock.close()

    def _on_acceptable(self) -> None:
        for _ in range(_ACCEPTS_AT_ONCE):
            if self._hub.admission.full:
                self.pause()
                self._hub.wait_for_room(self.start)
                return
            try:
                sock, remote = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._on_accept_error(error)
                return
            self._connect(sock, _address(remote))
            arrivals = self._hub.arrivals
            if arrivals is not None and (pause_s := arrivals.paused_for(self.name)) > 0:
                self.pause()
                self._hub.loop.call_later(pause_s, self.start)
                return

    def _on_accept_error(self, error: OSError) -> None:
        _log.error("cannot accept connections on %s: %s", self.address, error)
        if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
            self.pause()
            self._hub.loop.call_later(_BREATHING_SPACE_S, self.start)

    def _connect(self, sock: socket.socket, remote: Address) -> None:
        arrivals = self._hub.arrivals
        if arrivals is not None and (close_s := arrivals.refused_for(remote.host)) > 0:
            self._hub.refuse(sock, close_s)
            return
        if self._largest is not None and self._hub.strangers.too_many(remote.host):
            self._refuse(sock, remote, "max.connections.per.ip.before.login")
            return
        if not self._hub.admission.admit(remote.host):
            self._refuse(sock, remote, "max.connections.per.ip")
            return
        try:
            sock.setblocking(False)
            self._tune(sock)
            local = _address(sock.getsockname())
        except OSError:  # gone again already
            self._hub.admission.leave(remote.host)
            sock.close()
            return
        peer = Peer(remote, local, self.name)
        peer.largest = self._largest
        if self._tls is None:
            made = Connection(sock, peer, self._hub)
        else:
            from .tls import TlsConnection, wrap  # OpenSSL takes its time to be loaded

            wrapped = wrap(sock, self._tls.context())
            made = TlsConnection(wrapped, peer, self._hub, self._tls.identify)
        if self._largest is not None:
            self._hub.strangers.add(made)

    def _refuse(self, sock: socket.socket, remote: Address, setting: str) -> None:
        self._hub.refused += 1
        self._hub.strangers_log.tell(logging.WARNING, remote, f"refused by {setting}")
        sock.close()

    def _tune(self, sock: socket.socket) -> None:
        config = self._hub.config
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if config.send_buffer_bytes > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, config.send_buffer_bytes)
        if config.receive_buffer_bytes > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, config.receive_buffer_bytes)


def _address(name: tuple[str, int] | tuple[str, int, int, int]) -> Address:
    host, port = name[0], name[1]
    # An IPv4 peer of a socket for both families is shown as ::ffff:192.0.2.1.
    return Address(host.removeprefix("::ffff:"), port)
