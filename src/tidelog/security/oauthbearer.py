"""OAUTHBEARER (RFC 7628, KIP-255): a login with a signed token (JWT), checked against public keys from a file.

    keys = TokenKeys("jwks.json")
    exchange = BearerExchange(TokenCheck(keys, audience="tidelog", issuer=None, now=clock))

The key file is a JWK set, as identity providers publish it, and is read again when it changes.  Tokens without a signature,
or with a symmetric one, are never accepted.  Needs the extra `oauth` (PyJWT).
"""

import json
import os
from collections.abc import Callable
from typing import Any

import jwt

from tidelog.dataclass import dataclass
from tidelog.errors import SaslAuthenticationFailed, SettingsError

_ALGORITHMS = [
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
]
_SEPARATOR = "\x01"


class TokenKeys:
    """The public keys of a JWK set file, by their ids."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._stamp = (0, 0)
        self._keys: dict[str, jwt.PyJWK] = {}
        self._read()

    def find(self, key_id: str | None) -> jwt.PyJWK:
        """The key with this id; a token without an id is fine as long as there is one key only."""
        self._read_if_changed()
        if key_id is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        found = self._keys.get(key_id or "")
        if found is None:
            raise SaslAuthenticationFailed("the token is signed with a key that is not known here")
        return found

    def _read_if_changed(self) -> None:
        try:
            if _stamp(self._path) != self._stamp:
                self._read()
        except (OSError, SettingsError):
            return  # in the middle of a replacement: what was known stays in force

    def _read(self) -> None:
        try:
            stamp = _stamp(self._path)
            with open(self._path, encoding="utf-8") as file:
                listed = json.load(file)["keys"]
            keys = {each.get("kid", ""): jwt.PyJWK(each) for each in listed}
        except (OSError, ValueError, KeyError, TypeError, AttributeError, jwt.PyJWTError) as error:
            raise SettingsError(
                f"sasl.oauthbearer.jwks.endpoint.url={self._path} is no JWK set: {error}"
            ) from error
        self._stamp, self._keys = stamp, keys


@dataclass(frozen=True, slots=True)
class TokenCheck:
    """What a token has to be like."""

    keys: TokenKeys
    now: Callable[[], float]
    """Seconds since 1970."""
    audience: str | None = None
    issuer: str | None = None
    name_claim: str = "sub"
    leeway_s: float = 30.0

    def check(self, token: str) -> tuple[str, float]:
        """The name in a token, and when it ends; raises `SaslAuthenticationFailed`."""
        try:
            key = self.keys.find(jwt.get_unverified_header(token).get("kid"))
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=_ALGORITHMS,
                audience=self.audience,
                issuer=self.issuer,
                options={
                    # Time is checked below, by the clock that was passed in.
                    "verify_exp": False,
                    "verify_nbf": False,
                    "verify_iat": False,
                    "verify_aud": self.audience is not None,
                },
            )
        except (jwt.PyJWTError, RecursionError) as error:
            raise SaslAuthenticationFailed(f"the token is not valid: {error}") from None
        name, ends = claims.get(self.name_claim), claims.get("exp")
        if not isinstance(name, str) or not name:
            raise SaslAuthenticationFailed(f"the token has no claim {self.name_claim!r}")
        if not isinstance(ends, int | float):
            raise SaslAuthenticationFailed("the token does not say when it ends (exp)")
        now = self.now()
        if ends + self.leeway_s <= now:
            raise SaslAuthenticationFailed("the token has expired")
        begins = claims.get("nbf")
        if isinstance(begins, int | float) and begins - self.leeway_s > now:
            raise SaslAuthenticationFailed("the token is not valid yet")
        return name, ends

    def claimed(self, token: str) -> str:
        """The name in a token that nobody has checked; "" if there is none."""
        try:
            claims = jwt.decode(token, options={"verify_signature": False})
        except (jwt.PyJWTError, RecursionError):
            return ""
        name = claims.get(self.name_claim)
        return name if isinstance(name, str) else ""


class BearerExchange:
    """One login, from the server's side."""

    def __init__(self, check: TokenCheck) -> None:
        self._check = check
        self.lifetime_ms: int | None = None
        """For how long the login is good; known when it is complete."""

    def respond(self, token: bytes) -> tuple[bytes, str | None]:
        """Nothing to answer, and the client's name; raises unless the token is valid."""
        header, signed = _parts(token)
        name, ends = self._check.check(signed)
        identity = header.split(",")[1].removeprefix("a=")
        if identity not in ("", name):
            raise SaslAuthenticationFailed("nobody may log in in the name of another")
        self.lifetime_ms = max(int((ends - self._check.now()) * 1000), 1)
        return b"", name

    def claims(self, token: bytes) -> str:
        try:
            return self._check.claimed(_parts(token)[1])
        except SaslAuthenticationFailed:
            return ""


def _parts(token: bytes) -> tuple[str, str]:
    """The header of a login message, and the signed token in it."""
    try:
        header, *pairs = token.decode().split(_SEPARATOR)
    except UnicodeDecodeError:
        raise SaslAuthenticationFailed("the login message is not UTF-8") from None
    values = dict(pair.partition("=")[::2] for pair in pairs if pair)
    scheme, _, signed = values.get("auth", "").partition(" ")
    if not header.startswith("n,") or scheme.lower() != "bearer" or not signed:
        raise SaslAuthenticationFailed("the login message is not that of OAUTHBEARER")
    return header, signed.strip()


def _stamp(path: str) -> tuple[int, int]:
    found = os.stat(path)
    return (found.st_mtime_ns, found.st_size)
