"""Certificates: contexts for TLS that notice new files, and names out of certificates.

    store = Certificates(TlsFiles(certificate="server.pem", key="server.key", trusted="ca.pem"), ClientAuth.REQUIRED)
    store.context()                     # reads the files again when they have changed
    name = map_name(distinguished_name(certificate), rules)

Files are PEM, as everything outside of Java uses them.
"""

import os
import re
import ssl
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from tidelog.dataclass import dataclass
from tidelog.errors import SettingsError
from tidelog.security.tls_policy import TlsPolicy

ANONYMOUS_NAME = "ANONYMOUS"

_SHORT = {
    "commonName": "CN",
    "countryName": "C",
    "domainComponent": "DC",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "userId": "UID",
}
_SPECIAL = re.compile(r'([,+"\\<>;=])')


class ClientAuth(Enum):
    """`ssl.client.auth`."""

    NONE = "none"
    REQUESTED = "requested"
    REQUIRED = "required"


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Where certificates are."""

    certificate: str
    """The server's certificate, and those between it and the root."""
    key: str
    """Its private key; may be the same file."""
    key_password: str = ""
    trusted: str = ""
    """Roots that peers' certificates are checked against; the system's where it is empty."""


class Certificates:
    """A server's context, made anew when a file has changed; a bad new file leaves the old context in force."""

    def __init__(
        self,
        files: TlsFiles,
        client_auth: ClientAuth = ClientAuth.NONE,
        policy: TlsPolicy | None = None,
    ) -> None:
        self._files = files
        self._client_auth = client_auth
        self._policy = policy or TlsPolicy()
        self._seen = self._stamps()
        self._context = self._make()
        self.failure: str | None = None
        """Why the newest files could not be used; None if they are in use."""

    def context(self) -> ssl.SSLContext:
        stamps = self._stamps()
        if stamps != self._seen:
            self._seen = stamps
            try:
                self._context = self._make()
                self.failure = None
            except SettingsError as error:
                self.failure = str(error)
        return self._context

    def _make(self) -> ssl.SSLContext:
        files = self._files
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._policy.apply(context)
        try:
            # A password is always given: else OpenSSL would ask for it at the terminal.
            context.load_cert_chain(files.certificate, files.key, lambda: files.key_password)
        except (OSError, ValueError) as error:
            raise SettingsError(
                f"the certificate {files.certificate} with the key {files.key} cannot be used: {_why(error)}"
                f"{_cure_of_java(files.certificate)}"
            ) from error
        if self._client_auth is not ClientAuth.NONE:
            required = self._client_auth is ClientAuth.REQUIRED
            context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
            trust(context, files.trusted)
        return context

    def _stamps(self) -> tuple[tuple[int, int], ...]:
        paths = dict.fromkeys((self._files.certificate, self._files.key, self._files.trusted))
        return tuple(_stamp(path) for path in paths if path)


def trust(context: ssl.SSLContext, roots: str) -> None:
    """Check peers against these roots, or against the system's."""
    try:
        if roots:
            context.load_verify_locations(cafile=roots)
        else:
            context.load_default_certs()
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"the trusted certificates {roots} cannot be used: {_why(error)}{_cure_of_java(roots)}"
        ) from error


def distinguished_name(certificate: Mapping[str, Any] | None) -> str:
    """The subject of a certificate, as `SSLSocket.getpeercert` gives it, in the form of RFC 2253: most specific first."""
    if not certificate:
        return ANONYMOUS_NAME
    parts = [
        f"{_SHORT.get(name, name)}={_escaped(value)}"
        for group in reversed(certificate.get("subject", ()))
        for name, value in group
    ]
    return ",".join(parts) or ANONYMOUS_NAME


def _escaped(value: str) -> str:
    return _SPECIAL.sub(r"\\\1", value)


class NameRule:
    """One rule of `ssl.principal.mapping.rules`: DEFAULT, or RULE:pattern/replacement/ with L or U behind it."""

    def __init__(self, text: str) -> None:
        self._pattern: re.Pattern[str] | None = None
        if text == "DEFAULT":
            return
        match = re.fullmatch(r"RULE:((?:\\.|[^/\\])*)/((?:\\.|[^/\\])*)/([LU]?)", text)
        if match is None:
            raise SettingsError(
                f"ssl.principal.mapping.rules: {text!r} is no rule; write DEFAULT or RULE:pattern/replacement/[LU]"
            )
        pattern, replacement, self._case = match.groups()
        try:
            self._pattern = re.compile(pattern)
        except re.error as error:
            raise SettingsError(f"ssl.principal.mapping.rules: {pattern!r}: {error}") from error
        self._replacement = re.sub(r"\$(\d+)", r"\\g<\1>", replacement)

    def apply(self, name: str) -> str | None:
        """The name that the rule makes; None if it does not fit."""
        if self._pattern is None:
            return name
        match = self._pattern.fullmatch(name)
        if match is None:
            return None
        made = match.expand(self._replacement)
        if self._case == "L":
            return made.lower()
        return made.upper() if self._case == "U" else made


def map_name(name: str, rules: Sequence[NameRule]) -> str:
    """What the first rule that fits makes of a name; without rules the name itself."""
    if name == ANONYMOUS_NAME:
        return name
    for rule in rules:
        made = rule.apply(name)
        if made is not None:
            return made
    return name


def _stamp(path: str) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return (0, 0)
    return (found.st_mtime_ns, found.st_size)


def _cure_of_java(path: str) -> str:
    """Kafka's files name keystores of Java, which are not PEM."""
    if not path.lower().endswith((".jks", ".p12", ".pfx", ".keystore", ".truststore")):
        return ""
    return "; convert the keystore: openssl pkcs12 -in keystore.p12 -nodes -out server.pem"


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or str(error)).replace("_", " ").lower()
    return getattr(error, "strerror", None) or str(error)
