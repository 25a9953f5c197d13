"""A connection over TLS.

The handshake is done when the first bytes come, without blocking; who the peer is, by its certificate, is asked of
`identify` when it is complete.  Decrypted bytes may wait inside the TLS layer while the socket is silent, so they are
looked for whenever reading goes on.  Records that lie in files pass through this process: `sendfile` cannot encrypt.
"""

import logging
import socket
import ssl
from collections.abc import Callable, Mapping
from typing import Any, cast

from .connection import Connection
from .hub import Hub
from .outbox import Truncated, drop_sent
from .peer import Peer, Principal

_log = logging.getLogger(__name__)

_CHUNK_BYTES = 64 * 1024
"""Encrypted at a time."""
_CHUNKS_AT_ONCE = 16
"""Then it is time for other connections."""

Identify = Callable[[Mapping[str, Any] | None, Peer], Principal]
"""Makes a principal of the peer out of what `SSLSocket.getpeercert` gives; None for one without a certificate."""


class TlsConnection(Connection):
    """As `Connection`; `sock` is a socket that the listener has wrapped."""

    __slots__ = ("_identify", "_is_open")

    def __init__(self, sock: ssl.SSLSocket, peer: Peer, hub: Hub, identify: Identify) -> None:
        self._identify = identify
        self._is_open = False
        """Whether the handshake is complete."""
        super().__init__(sock, peer, hub)

    @property
    def _tls(self) -> ssl.SSLSocket:
        return cast(ssl.SSLSocket, self._sock)

    def _receive(self, room: memoryview) -> int:
        try:
            if not self._is_open:
                self._shake_hands()
            return self._tls.recv_into(room)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return 0
        except ssl.SSLError as error:
            if self._is_open:
                raise
            self.close(f"the TLS handshake failed: {_reason(error)}", logging.INFO)
            raise BlockingIOError from None

    def _shake_hands(self) -> None:
        self._tls.do_handshake()
        self._is_open = True
        self.peer.principal = self._identify(self._tls.getpeercert(), self.peer)

    def _on_readable(self) -> None:
        super()._on_readable()
        self._read_on()

    def _resume(self) -> None:
        super()._resume()
        self._read_on()

    def _read_on(self) -> None:
        """Nobody tells of bytes that are decrypted already: come back for them."""
        if not self._closed and self._reading and self._is_open and self._tls.pending():
            self._hub.loop.call_soon(self._read_pending)

    def _read_pending(self) -> None:
        if not self._closed and self._reading and self._tls.pending():
            self._on_readable()

    def _send_some(self) -> bool:
        out = self._out
        for _ in range(_CHUNKS_AT_ONCE):
            if not out:
                return True
            chunk = _front(out)
            try:
                sent = self._tls.send(chunk)
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                # The same bytes have to be offered again; they are still the first that are owed.
                return False
            drop_sent(out, sent)
        return not out


def wrap(sock: socket.socket, context: ssl.SSLContext) -> ssl.SSLSocket:
    """A server's TLS socket over one that was accepted; nothing is sent or received yet."""
    return context.wrap_socket(
        sock, server_side=True, do_handshake_on_connect=False, suppress_ragged_eofs=True
    )


def _front(out: list[Any]) -> bytes | memoryview:
    """Up to a chunk of the bytes that are owed first."""
    gathered: list[bytes | memoryview] = []
    left = _CHUNK_BYTES
    for piece in out:
        if isinstance(piece, bytes | bytearray | memoryview):
            gathered.append(memoryview(piece)[:left])
        else:
            length = min(piece.length, left)
            data = piece.file.pread(length, piece.position)
            if len(data) != length:
                raise Truncated(f"{length} bytes at {piece.position} are not in the file")
            gathered.append(data)
        left -= len(gathered[-1])
        if left == 0:
            break
    return gathered[0] if len(gathered) == 1 else b"".join(gathered)


def _reason(error: ssl.SSLError) -> str:
    """What went wrong, in words that a person may look up."""
    words = (error.reason or str(error)).replace("_", " ").lower()
    if error.reason == "HTTP_REQUEST" or error.reason == "WRONG_VERSION_NUMBER":
        return f"the peer does not speak TLS ({words})"
    return words
