"""How a client shows who it is, and makes sure whom it talks to: TLS and SASL, from the client's settings.

    security = ClientSecurity.of(settings)          # None for plain text
    connection = await Connection.open(host, port, client_id=…, timeout_s=…, security=security)

Passwords are in no message and no log.
"""

import secrets
import ssl
from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING, cast

from tidelog.client.tokens import Tokens, fixed
from tidelog.dataclass import dataclass
from tidelog.errors import SaslAuthenticationFailed, SettingsError, error_of
from tidelog.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from tidelog.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tidelog.security.certificates import trust
from tidelog.security.plain import plain_token
from tidelog.security.scram import Mechanism, ScramClient

if TYPE_CHECKING:
    from tidelog.client.connection import Connection
    from tidelog.client.settings import ClientSettings

_SCRAM = {each.sasl_name: each for each in Mechanism}


@dataclass(frozen=True)
class ClientSecurity:
    """See the module's docstring."""

    protocol: str
    mechanism: str = ""
    user: str = ""
    password: str = field(default="", repr=False)
    tokens: Tokens | None = field(default=None, repr=False)
    roots: str = ""
    certificate: str = ""
    key: str = ""
    key_password: str = field(default="", repr=False)
    check_host: bool = True

    @classmethod
    def of(cls, settings: "ClientSettings") -> "ClientSecurity | None":
        """What the settings ask for; `SettingsError` names what is missing."""
        if settings.security_protocol == "PLAINTEXT":
            return None
        made = cls(
            protocol=settings.security_protocol,
            mechanism=settings.sasl_mechanism,
            user=settings.sasl_username,
            password=settings.sasl_password,
            tokens=_tokens(settings),
            roots=settings.ssl_ca_location,
            certificate=settings.ssl_certificate_location,
            key=settings.ssl_key_location,
            key_password=settings.ssl_key_password,
            check_host=settings.ssl_check_host,
        )
        made._check()
        return made

    def _check(self) -> None:
        if not self.protocol.startswith("SASL"):
            return
        if self.mechanism == "OAUTHBEARER":
            if self.tokens is None:
                raise SettingsError(
                    "sasl.mechanism=OAUTHBEARER needs a token: give a function that fetches one as "
                    "sasl_oauth_token_provider, or a token as sasl_oauthbearer_token"
                )
        elif not self.user or not self.password:
            raise SettingsError(
                f"sasl.mechanism={self.mechanism} needs sasl.username and sasl.password"
            )

    @cached_property
    def context(self) -> ssl.SSLContext | None:
        """For TLS; None without."""
        if not self.protocol.endswith("SSL"):
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = self.check_host
        trust(context, self.roots)
        if self.certificate:
            try:
                context.load_cert_chain(
                    self.certificate, self.key or self.certificate, lambda: self.key_password
                )
            except (OSError, ValueError) as error:
                raise SettingsError(
                    f"ssl.certificate.location={self.certificate} cannot be used: {error}"
                ) from error
        return context

    async def log_in(self, connection: "Connection", timeout_s: float) -> int:
        """Log in over a new connection; returns for how many milliseconds that is good, 0 for ever."""
        if not self.protocol.startswith("SASL"):
            return 0
        asked = SaslHandshakeRequest(mechanism=self.mechanism)
        answer = cast(SaslHandshakeResponse, await connection.ask(asked, timeout_s=timeout_s))
        if answer.error_code:
            offered = ", ".join(answer.mechanisms) or "none"
            raise error_of(
                answer.error_code,
                f"{connection.address} does not offer sasl.mechanism={self.mechanism}; it offers: {offered}",
            )
        bearer = await self.tokens.token() if self.tokens is not None else ""
        steps = self._steps(bearer)
        token = next(steps)
        while True:
            told = await self._step(connection, token, timeout_s)
            try:
                token = steps.send(told.auth_bytes)
            except StopIteration:
                return told.session_lifetime_ms
            except SaslAuthenticationFailed as error:
                raise SaslAuthenticationFailed(f"{connection.address}: {error}") from None

    async def _step(
        self, connection: "Connection", token: bytes, timeout_s: float
    ) -> SaslAuthenticateResponse:
        request = SaslAuthenticateRequest(auth_bytes=token)
        told = cast(SaslAuthenticateResponse, await connection.ask(request, timeout_s=timeout_s))
        if told.error_code:
            who = f"the login of {self.user}" if self.user else "the login"
            raise error_of(
                told.error_code,
                f"{connection.address} refused {who} with {self.mechanism}: {told.error_message}",
            )
        return told

    def _steps(self, bearer: str) -> "_Steps":
        """The messages of the mechanism: gives a token, is sent the answer to it."""
        if self.mechanism in _SCRAM:
            return _scram(_SCRAM[self.mechanism], self.user, self.password)
        if self.mechanism == "OAUTHBEARER":
            return _once(f"n,,\x01auth=Bearer {bearer}\x01\x01".encode())
        return _once(plain_token(self.user, self.password))


if TYPE_CHECKING:
    from collections.abc import Generator

    _Steps = Generator[bytes, bytes, None]


def _scram(mechanism: Mechanism, user: str, password: str) -> "_Steps":
    client = ScramClient(mechanism, user, password, secrets.token_urlsafe(24))
    challenge = yield client.first()
    answer = yield client.final(challenge)
    client.check(answer)


def _once(token: bytes) -> "_Steps":
    yield token


def _tokens(settings: "ClientSettings") -> Tokens | None:
    if settings.sasl_mechanism != "OAUTHBEARER":
        return None
    if settings.sasl_oauth_token_provider is not None:
        return Tokens(settings.sasl_oauth_token_provider)
    return fixed(settings.sasl_oauthbearer_token) if settings.sasl_oauthbearer_token else None
