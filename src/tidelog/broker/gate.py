"""Stands in front of the dispatcher on listeners that ask for a login: until then a client may only log in.

A connection begins with ApiVersions, SaslHandshake, SaslAuthenticate.  After a handshake of version 0 the tokens come
raw, in frames without a header, as they did before KIP-152.  A client whose session is over, and who does not log in
again, is cut off (KIP-368).
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from struct import Struct as Packer
from typing import TYPE_CHECKING

from tidelog.broker.dispatch import Serving
from tidelog.errors import ProtocolError, SaslAuthenticationFailed
from tidelog.network.answer import Answer, Deferred, Ready
from tidelog.network.peer import Peer, Principal
from tidelog.security.login import Login, State
from tidelog.security.slow_logins import SlowLogins

if TYPE_CHECKING:
    from tidelog.broker.audit_trail import AuditTrail

_BEFORE_LOGIN = frozenset({17, 18, 36})  # SaslHandshake, ApiVersions, SaslAuthenticate
_API_KEY = Packer(">h")
_LENGTH = Packer(">i")
_BETWEEN_LINES_S = 10.0

log = logging.getLogger(__name__)


class LoginCounts:
    """How many logins there were; Kafka's successful- and failed-authentication-total."""

    def __init__(self) -> None:
        self.succeeded = 0
        self.failed = 0


class PeerLogin:
    """The login of one connection, and how it is spoken."""

    __slots__ = ("gate", "login", "raw")

    def __init__(self, login: Login, gate: "Gate") -> None:
        self.login = login
        self.gate = gate
        self.raw = False
        """The handshake was of version 0: tokens follow without headers."""


class Gate:
    """See the module's docstring; implements `dispatch.Serving`."""

    def __init__(
        self,
        serving: Serving,
        logins: Mapping[str, Callable[[], Login]],
        *,
        failed_delay_s: Callable[[], float],
        monotonic: Callable[[], float],
        trail: "AuditTrail | None" = None,
    ) -> None:
        """`logins` makes the logins of each listener that asks for them."""
        self._serving = serving
        self._logins = logins
        self._failed_delay_s = failed_delay_s
        self.counts = LoginCounts()
        self.slow = SlowLogins(monotonic)
        self.trail = trail
        self._monotonic = monotonic
        self._refused = 0
        self._refused_told_at = -_BETWEEN_LINES_S

    def serve(self, peer: Peer, frame: memoryview) -> Answer:
        make = self._logins.get(peer.listener)
        if make is None:
            return self._serving.serve(peer, frame)
        found = peer.login
        if not isinstance(found, PeerLogin):
            found = peer.login = PeerLogin(make(), self)
        login = found.login
        if found.raw and login.state is State.AUTHENTICATING:
            return self._raw_step(peer, found, bytes(frame))
        if not login.is_logged_in or login.state is State.AUTHENTICATING:
            self._check_before_login(frame, login)
        return self._serving.serve(peer, frame)

    def serve_run(
        self, peer: Peer, buffer: memoryview, pos: int, end: int
    ) -> tuple[int, bytes | Deferred | None]:
        if peer.listener in self._logins:
            found = peer.login
            if not isinstance(found, PeerLogin) or not found.login.is_logged_in:
                return pos, None
        return self._serving.serve_run(peer, buffer, pos, end)

    def tell_refused(self, peer: Peer, login: Login, why: str) -> None:
        """A login was refused without a look at it: there may be very many, so of those of ten seconds one is told."""
        self.counts.failed += 1
        self._refused += 1
        now = self._monotonic()
        if now - self._refused_told_at < _BETWEEN_LINES_S:
            return
        if self._refused > 1:
            why = f"{why}; {self._refused} such since the last line"
        self._refused, self._refused_told_at = 0, now
        log.warning("a login from %s failed: %s", peer, why)
        if self.trail is not None:
            self.trail.login_failed(peer, login.mechanism, login.attempted, why)

    def _check_before_login(self, frame: memoryview, login: Login) -> None:
        if len(frame) >= _API_KEY.size and _API_KEY.unpack_from(frame)[0] in _BEFORE_LOGIN:
            return
        if login.user:
            raise ProtocolError("the session is over, and the client did not log in again")
        raise ProtocolError("the client asks for something before it has logged in")

    async def _raw_step(self, peer: Peer, found: PeerLogin, token: bytes) -> Ready:
        answer = await log_in(peer, found, token, self._failed_delay_s())
        return _LENGTH.pack(len(answer)) + answer


async def log_in(peer: Peer, found: PeerLogin, token: bytes, failed_delay_s: float) -> bytes:
    """One step of a login; a failure is told late, so that guessing takes its time, and the more the longer it goes on."""
    gate, login, host = found.gate, found.login, peer.address.host
    user = login.claimed(token)
    try:
        wait_s = gate.slow.wait_s(host, failed_delay_s, user)
    except SaslAuthenticationFailed as error:
        gate.tell_refused(peer, login, str(error))
        await asyncio.sleep(failed_delay_s)
        raise
    if wait_s > 0:
        await asyncio.sleep(wait_s)
    try:
        step = login.step(token)
    except SaslAuthenticationFailed as error:
        gate.slow.failed(host, user)
        gate.counts.failed += 1
        log.warning("a login from %s failed: %s", peer, error)
        if gate.trail is not None:
            gate.trail.login_failed(peer, login.mechanism, login.attempted, str(error))
        await asyncio.sleep(failed_delay_s)
        raise
    if step.user is not None:
        gate.slow.succeeded(host, step.user)
        gate.counts.succeeded += 1
        peer.principal = Principal("User", step.user)
        peer.largest = None
        if gate.trail is not None:
            gate.trail.login(peer, login.mechanism)
    return step.answer
