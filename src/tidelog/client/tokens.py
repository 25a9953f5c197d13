"""Tokens for OAUTHBEARER: from a function of the user's, kept while they are good, and fetched anew before they are not.

    def provide() -> tuple[str, float]:
        answer = requests.post(…).json()
        return answer["access_token"], time.time() + answer["expires_in"]

    Producer(bootstrap_servers="…", security_protocol="SASL_SSL", sasl_mechanism="OAUTHBEARER",
             sasl_oauth_token_provider=provide)

A function that returns the bare token will do where that is a JWT that says when it expires; of one that does not, the
function is called for every login.  It may be `async`; if not, it runs in a thread and may block.  Objects with a method
`token`, as kafka-python and aiokafka have them, are taken as well.
"""

import asyncio
import base64
import binascii
import inspect
import json
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, cast

from tidelog.errors import SaslAuthenticationFailed

Token = str | tuple[str, float]
"""A token, or a token and the time in seconds since 1970 at which it expires."""


class HasToken(Protocol):
    """What other clients call a token provider."""

    def token(self) -> Any: ...


TokenProvider = Callable[[], Token | Awaitable[Token]] | HasToken

_FRESH_SHARE = 0.8
"""Of a token's life it is used so much before another is fetched (Kafka's sasl.login.refresh.window.factor)."""

_log = logging.getLogger(__name__)


class Tokens:
    """Gives the token for a login; lives on one loop."""

    def __init__(self, provider: TokenProvider, now: Callable[[], float] = time.time) -> None:
        found = provider if callable(provider) else provider.token
        self._provide: Callable[[], Any] = found
        self._now = now
        self._fetching = asyncio.Lock()
        self._token = ""
        # Invariant: fetched <= refresh_at <= expires_at; all 0 for a token that is used once.
        self._refresh_at = 0.0
        self._expires_at = 0.0

    async def token(self) -> str:
        """A token that is good for a while; SaslAuthenticationFailed if there is none to be had."""
        async with self._fetching:
            if self._now() < self._refresh_at:
                return self._token
            try:
                await self._fetch()
            except SaslAuthenticationFailed as error:
                if self._now() >= self._expires_at:
                    raise
                _log.warning("%s; the last one is used as long as it is good", error)
            return self._token

    async def _fetch(self) -> None:
        try:
            given = await self._call()
        except (
            Exception
        ) as error:  # the user's own function: whatever it raises is why there is no token
            raise SaslAuthenticationFailed(
                f"sasl.oauth.token.provider gave no token: {type(error).__name__}: {error}"
            ) from error
        token, expires_at = given if isinstance(given, tuple) else (given, _expiry_of(given))
        if not isinstance(token, str) or not token:
            raise SaslAuthenticationFailed(
                f"sasl.oauth.token.provider returned {type(token).__name__}; it must return a token as text, "
                "or a token and the time at which it expires"
            )
        now = self._now()
        self._token = token
        self._expires_at = float(expires_at)
        self._refresh_at = now + max(0.0, self._expires_at - now) * _FRESH_SHARE

    async def _call(self) -> Token:
        if inspect.iscoroutinefunction(self._provide):
            given = await self._provide()
        else:
            given = await asyncio.to_thread(self._provide)
            if inspect.isawaitable(given):
                given = await given
        return cast(Token, given)


def fixed(token: str) -> Tokens:
    """The same token for every login."""
    return Tokens(lambda: (token, float("inf")))


def _expiry_of(token: object) -> float:
    """When a JWT expires, by its own account; 0 for anything else."""
    try:
        claims = str(token).split(".")[1]
        octets = base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4))
        return float(json.loads(octets)["exp"])
    except (IndexError, binascii.Error, ValueError, KeyError, TypeError):
        return 0.0
