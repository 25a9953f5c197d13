"""PLAIN (RFC 4616): name and password in one message.  Use it over TLS only.

identity NUL user NUL password
"""

import hmac
from collections.abc import Callable

from tidelog.errors import SaslAuthenticationFailed


class PlainExchange:
    """One login, from the server's side; `find` gives a user's password, or None."""

    def __init__(self, find: Callable[[str], str | None]) -> None:
        self._find = find
        self.user = ""
        """As whom the client tries to log in; not proven until `respond` has returned."""

    def respond(self, token: bytes) -> tuple[bytes, str | None]:
        """Nothing to answer, and the client's name; raises unless the password is right."""
        try:
            identity, user, password = token.decode().split("\0")
        except ValueError:  # not UTF-8, or another number of parts
            raise SaslAuthenticationFailed("the login message is not that of PLAIN") from None
        self.user = user
        if not user or not password:
            raise SaslAuthenticationFailed("the login message names no user, or no password")
        if identity not in ("", user):
            raise SaslAuthenticationFailed("nobody may log in in the name of another")
        expected = self._find(user)
        # Compared in any case, so that it takes as long for a user who does not exist.
        matches = hmac.compare_digest((expected or "").encode(), password.encode())
        if expected is None or not matches:
            raise SaslAuthenticationFailed("the user or the password is wrong (PLAIN)")
        return b"", user

    def claims(self, token: bytes) -> str:
        parts = token.split(b"\0")
        return parts[1].decode("utf-8", "replace") if len(parts) == 3 else ""


def plain_token(user: str, password: str) -> bytes:
    """What a client sends."""
    return f"\0{user}\0{password}".encode()
