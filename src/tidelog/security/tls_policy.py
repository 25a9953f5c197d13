"""Which versions of TLS and which cipher suites are spoken: `ssl.enabled.protocols` and `ssl.cipher.suites`.

    TlsPolicy(("TLSv1.3",), ()).apply(context)          # SettingsError says which name is unknown

Suites have the names of the standard, as in Kafka's files (TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384), or those of OpenSSL.
Python cannot choose among the suites of TLS 1.3: they are spoken all or, where none is named, not at all.
"""

import re
import ssl

from tidelog.dataclass import dataclass
from tidelog.errors import SettingsError

NEWEST_LAST = ("TLSv1.2", "TLSv1.3")
OLD = ("TLSv1", "TLSv1.1")
"""May stand in a file beside newer ones, and are not spoken."""

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_OF_1_3 = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")


def is_list_of_protocols(value: tuple[str, ...]) -> bool:
    """a list with TLSv1.2 or TLSv1.3 in it (TLSv1 and TLSv1.1 are never spoken)"""
    known = set(NEWEST_LAST) | set(OLD)
    return set(value) <= known and not set(value).isdisjoint(NEWEST_LAST)


@dataclass(frozen=True, slots=True)
class TlsPolicy:
    """See the module's docstring; empty `suites` are OpenSSL's own choice."""

    protocols: tuple[str, ...] = NEWEST_LAST
    suites: tuple[str, ...] = ()

    def apply(self, context: ssl.SSLContext) -> None:
        """Restrict a context; raises `SettingsError`."""
        newer = [each for each in self.suites if each in _OF_1_3]
        older = [each for each in self.suites if each not in _OF_1_3]
        spoken = [each for each in NEWEST_LAST if each in self.protocols]
        if self.suites:
            if "TLSv1.3" in spoken and newer and len(set(newer)) < len(_OF_1_3):
                raise SettingsError(
                    f"ssl.cipher.suites names {', '.join(newer)}, but the suites of TLS 1.3 are spoken all or none; name "
                    f"{', '.join(_OF_1_3)}, or set ssl.enabled.protocols=TLSv1.2"
                )
            if not newer:
                spoken = [each for each in spoken if each != "TLSv1.3"]
            if not older:
                spoken = [each for each in spoken if each != "TLSv1.2"]
            if not spoken:
                raise SettingsError(
                    f"ssl.cipher.suites={','.join(self.suites)} has no suite of {', '.join(self.protocols)}"
                )
        context.minimum_version = _VERSIONS[spoken[0]]
        context.maximum_version = _VERSIONS[spoken[-1]]
        if older:
            _choose(context, older)


def _choose(context: ssl.SSLContext, suites: list[str]) -> None:
    for each in suites:
        # OpenSSL passes over names that it does not know, so each is tried alone.
        alone = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            alone.set_ciphers(_openssl_name(each))
        except ssl.SSLError:
            raise SettingsError(
                f"ssl.cipher.suites: {each!r} is not a suite that is spoken here; `openssl ciphers -stdname` lists them"
            ) from None
    context.set_ciphers(":".join(map(_openssl_name, suites)))


def _openssl_name(suite: str) -> str:
    """TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 → ECDHE-RSA-AES256-GCM-SHA384."""
    match = re.fullmatch(r"TLS_(\w+)_WITH_(\w+)", suite)
    if match is None:
        # Lists of OpenSSL (`HIGH:!aNULL`) would be read as something else than one suite.
        return suite if re.fullmatch(r"[A-Z0-9-]+", suite) and "-" in suite else "-"
    exchange, cipher = match.groups()
    cipher = (
        re.sub(r"^(AES|CAMELLIA|ARIA)_(\d+)", r"\1\2", cipher)
        .replace("_CBC", "")
        .replace("CCM_8", "CCM8")
    )
    cipher = cipher.replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305")
    name = cipher if exchange == "RSA" else f"{exchange}_{cipher}"
    return name.replace("_", "-")
