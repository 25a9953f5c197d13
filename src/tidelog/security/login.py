"""The login of one connection: which mechanism, step by step, until when (KIP-43, KIP-152, KIP-368).

                 handshake                  last step
    NEW ──────────────────► AUTHENTICATING ──────────► DONE ──► (handshake again: re-authentication)
                                  │ a step fails
                                  ▼
                                FAILED

State changes only in `choose` and `step`.  A connection that re-authenticates must do so as the same user, with the
same mechanism; while it does, it is served as before.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import NamedTuple, Protocol

from tidelog.errors import IllegalSaslState, SaslAuthenticationFailed, UnsupportedSaslMechanism


class Exchange(Protocol):
    """One run of a mechanism, from the server's side."""

    def respond(self, token: bytes) -> tuple[bytes, str | None]:
        """What to answer, and the user's name once it is proven; raises `SaslAuthenticationFailed`."""
        ...

    def claims(self, token: bytes) -> str:
        """As whom `respond` would log in with this message; "" if that is not told, or cannot be read."""
        ...


class Step(NamedTuple):
    answer: bytes
    user: str | None
    """Who logged in; None while more steps are needed."""
    session_ms: int
    """Until then the client has to log in again; 0 for no limit."""


class State(Enum):
    NEW = "new"
    AUTHENTICATING = "authenticating"
    DONE = "done"
    FAILED = "failed"


class Login:
    """See the module's docstring."""

    def __init__(
        self,
        mechanisms: Mapping[str, Callable[[], Exchange]],
        *,
        monotonic: Callable[[], float],
        max_session_ms: int = 0,
    ) -> None:
        """`max_session_ms` is `connections.max.reauth.ms`; 0 for sessions without end."""
        self._mechanisms = mechanisms
        self._monotonic = monotonic
        self._max_session_ms = max_session_ms
        self.state = State.NEW
        self.mechanism = ""
        self.user = ""
        """Who is logged in; stays while the connection re-authenticates."""
        self.session_ms = 0
        """For how long the last login is good; 0 for ever, or before it is complete."""
        self._exchange: Exchange | None = None
        self._expires_at: float | None = None

    @property
    def is_logged_in(self) -> bool:
        """Whether requests are served: a login was completed, none has failed since, and its time is not over."""
        if not self.user or self.state is State.FAILED:
            return False
        return self._expires_at is None or self._monotonic() < self._expires_at

    @property
    def offered(self) -> list[str]:
        return sorted(self._mechanisms)

    @property
    def attempted(self) -> str:
        """As whom the peer tries to log in, as far as it has said; nothing of it is proven."""
        return str(getattr(self._exchange, "user", ""))

    def claimed(self, token: bytes) -> str:
        """As whom the peer is about to log in with this message; nothing of it is proven."""
        return "" if self._exchange is None else self._exchange.claims(token)

    def choose(self, mechanism: str) -> None:
        """SaslHandshake: begin a login with this mechanism."""
        if self.state in (State.AUTHENTICATING, State.FAILED):
            raise IllegalSaslState(
                f"a handshake is not expected in a login that is {self.state.value}"
            )
        make = self._mechanisms.get(mechanism)
        if make is None:
            raise UnsupportedSaslMechanism(
                f"{mechanism!r} is not offered here; these are: {', '.join(self.offered)}"
            )
        if self.user and mechanism != self.mechanism:
            self.state = State.FAILED
            raise SaslAuthenticationFailed(
                "the mechanism may not change while a connection is open"
            )
        self.mechanism = mechanism
        self._exchange = make()
        self.state = State.AUTHENTICATING

    def step(self, token: bytes) -> Step:
        """SaslAuthenticate: one message of the mechanism."""
        if self.state is not State.AUTHENTICATING or self._exchange is None:
            raise IllegalSaslState(f"a login that is {self.state.value} takes no message")
        try:
            answer, user = self._exchange.respond(token)
            if user is not None and self.user not in ("", user):
                raise SaslAuthenticationFailed("the user may not change while a connection is open")
        except SaslAuthenticationFailed:
            self.state = State.FAILED
            raise
        if user is None:
            return Step(answer, None, 0)
        self.user = user
        self.state = State.DONE
        self.session_ms = self._session_ms(self._exchange)
        ends = self._monotonic() + self.session_ms / 1000
        self._expires_at = ends if self.session_ms else None
        self._exchange = None
        return Step(answer, user, self.session_ms)

    def _session_ms(self, exchange: Exchange) -> int:
        """The shorter of what the broker allows and what a token is good for."""
        lifetime_ms: int | None = getattr(exchange, "lifetime_ms", None)
        limits = [each for each in (self._max_session_ms, lifetime_ms) if each]
        return min(limits, default=0)
