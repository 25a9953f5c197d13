"""Puts together what a broker needs for security, from its settings: TLS, logins, access rules.

    security = BrokerSecurity(settings, image, clock, random)         # SettingsError says what is missing
    Listener(sock, name, hub, security.tls_for(name))
    serving = security.gate(dispatcher)

A broker without security imports and makes none of it.
"""

import base64
import hmac
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from tidelog.broker.addresses import Listener
from tidelog.broker.authorizer import OPEN, AclAuthorizer, Authorizer
from tidelog.broker.background import Background
from tidelog.broker.dispatch import Serving
from tidelog.broker.settings import BrokerSettings
from tidelog.clock import Clock
from tidelog.cluster.access import SCRAM_SECRET
from tidelog.cluster.image import CLUSTER, Image
from tidelog.errors import SettingsError
from tidelog.network.listener import TlsSettings
from tidelog.network.peer import Address, Peer, Principal
from tidelog.security.config import SecurityConfig
from tidelog.security.login import Exchange, Login
from tidelog.security.plain import PlainExchange
from tidelog.security.scram import Credential, Mechanism, ScramExchange, Shape

if TYPE_CHECKING:
    import ssl

    from tidelog.broker.audit_trail import AuditTrail
    from tidelog.broker.gate import LoginCounts
    from tidelog.client.security import ClientSecurity
    from tidelog.security.oauthbearer import TokenCheck

RandomBytes = Callable[[int], bytes]

_NONCE_BYTES = 24

log = logging.getLogger(__name__)


class BrokerSecurity:
    """See the module's docstring."""

    def __init__(
        self,
        settings: Callable[[], BrokerSettings],
        image: Callable[[], Image],
        clock: Clock,
        random_bytes: RandomBytes,
    ) -> None:
        self._settings = settings
        self._image = image
        self._clock = clock
        self._random_bytes = random_bytes
        self._secret = random_bytes(32)
        """For the salts of users who do not exist, until the cluster has one of its own."""
        self._shapes: tuple[object, dict[Mechanism, set[Shape]]] = (None, {})
        config = self._config
        self._plain_users = _passwords(config.plain_users)
        listeners = settings().listeners()
        self._sasl = [each.name for each in listeners if each.protocol.startswith("SASL")]
        self.trail = self._make_trail()
        self._tls = self._make_tls(listeners)
        self._tokens = self._make_tokens() if self._sasl else None
        self.logins: LoginCounts | None = None
        """Of all listeners; None where none asks for a login."""
        self.authorizer: Authorizer = (
            AclAuthorizer(image, lambda: self._config) if config.authorizer else OPEN
        )

    @property
    def _config(self) -> SecurityConfig:
        return self._settings().security

    def tls_for(self, listener: Listener) -> TlsSettings | None:
        """None for a listener without TLS."""
        return self._tls if listener.protocol.endswith("SSL") else None

    def largest_before_login(self, listener: Listener) -> int | None:
        """How large the requests of strangers may be, in bytes; None where nobody has to log in."""
        return self._config.login_max_bytes if listener.protocol.startswith("SASL") else None

    def gate(self, serving: Serving) -> Serving:
        """What the network is given: the dispatcher, behind a gate where listeners ask for a login."""
        if not self._sasl:
            return serving
        from tidelog.broker.gate import Gate

        gate = Gate(
            serving,
            dict.fromkeys(self._sasl, self._login),
            failed_delay_s=lambda: self._config.failed_login_delay_ms / 1000,
            monotonic=self._clock.monotonic,
            trail=self.trail,
        )
        self.logins = gate.counts
        return gate

    def as_client(self) -> "ClientSecurity | None":
        """How this broker shows itself to the others; None for plain text."""
        chosen = self._settings().inter_broker_listener()
        if chosen.protocol == "PLAINTEXT":
            return None
        from tidelog.client.security import ClientSecurity

        config = self._config
        return ClientSecurity(
            protocol=chosen.protocol,
            mechanism=config.broker_mechanism,
            user=config.broker_user,
            password=config.broker_password,
            roots=config.tls_trusted,
            certificate=config.tls_certificate,
            key=config.tls_key,
            key_password=config.tls_key_password,
            # Brokers register the addresses that clients dial; a certificate need not have been made for them.
            check_host=config.tls_check_host.lower() == "https",
        )

    # ------------------------------------------------------------------ the audit trail

    def start_trail(
        self,
        background: Background,
        addresses: Callable[[], Sequence[Address]],
        ensure_topic: Callable[[str], Awaitable[object]],
    ) -> None:
        """From now on the broker can be reached, and the trail is written."""
        if self.trail is None:
            return
        index = self._settings().listeners().index(self._settings().inter_broker_listener())
        self.trail.sink.reach(
            lambda: self._client_config(addresses()[index]),
            ensure_topic,
        )
        background.run("audit trail", self.trail.run())

    async def settle_trail(self) -> None:
        """Write what there is, while the broker still serves."""
        if self.trail is not None:
            await self.trail.settle()

    async def close_trail(self) -> None:
        if self.trail is not None:
            await self.trail.close()

    def _make_trail(self) -> "AuditTrail | None":
        kind, _, where = self._config.audit_trail.partition(":")
        if not where:
            return None
        from tidelog.broker.audit_trail import AuditTrail, FileSink, TopicSink

        sink = FileSink(where) if kind == "file" else TopicSink(where)
        return AuditTrail(sink, self._settings().broker.broker_id, self._clock)

    def _client_config(self, address: Address) -> dict[str, str]:
        """What a client needs that comes as this broker itself."""
        config, listener = self._config, self._settings().inter_broker_listener()
        host = "127.0.0.1" if address.host in ("", "0.0.0.0", "::") else address.host
        found = {
            "bootstrap.servers": str(Address(host, address.port)),
            "security.protocol": listener.protocol,
            "client.id": "audit-trail",
        }
        if listener.protocol.startswith("SASL"):
            found["sasl.mechanism"] = config.broker_mechanism
            found["sasl.username"] = config.broker_user
            found["sasl.password"] = config.broker_password
        if listener.protocol.endswith("SSL"):
            found["ssl.ca.location"] = config.tls_trusted
            found["ssl.certificate.location"] = config.tls_certificate
            found["ssl.key.location"] = config.tls_key
            found["ssl.key.password"] = config.tls_key_password
            checks = config.tls_check_host.lower() == "https"
            found["ssl.endpoint.identification.algorithm"] = "https" if checks else "none"
        return found

    # ------------------------------------------------------------------ TLS

    def _make_tls(self, listeners: list[Listener]) -> TlsSettings | None:
        if not any(each.protocol.endswith("SSL") for each in listeners):
            return None
        from tidelog.security.certificates import (
            Certificates,
            ClientAuth,
            NameRule,
            TlsFiles,
            distinguished_name,
            map_name,
        )
        from tidelog.security.tls_policy import TlsPolicy

        config = self._config
        if not config.tls_certificate:
            raise SettingsError(
                "a listener asks for TLS; name its certificate with ssl.keystore.certificate.chain"
            )
        files = TlsFiles(
            config.tls_certificate,
            config.tls_key or config.tls_certificate,
            config.tls_key_password,
            config.tls_trusted,
        )
        policy = TlsPolicy(config.tls_protocols, config.tls_cipher_suites)
        rules = [NameRule(each) for each in _split_rules(config.principal_rules)]
        certificates = Certificates(files, ClientAuth(config.tls_client_auth), policy)

        def identify(certificate: object, peer: Peer) -> Principal:
            found = certificate if isinstance(certificate, dict) else None
            peer.principal = Principal("User", map_name(distinguished_name(found), rules))
            if self.trail is not None and found and peer.listener not in self._sasl:
                self.trail.login(peer, "SSL")
            return peer.principal

        def context() -> "ssl.SSLContext":
            before = certificates.failure
            made = certificates.context()
            if certificates.failure is not None and certificates.failure != before:
                log.warning("the old certificate stays in use: %s", certificates.failure)
            return made

        return TlsSettings(context, identify)

    # ------------------------------------------------------------------ logins

    def _login(self) -> Login:
        config = self._config
        return Login(
            {name: partial(self._exchange, name) for name in config.mechanisms},
            monotonic=self._clock.monotonic,
            max_session_ms=config.max_session_ms,
        )

    def _exchange(self, mechanism: str) -> Exchange:
        if mechanism == "PLAIN":
            return PlainExchange(self._plain_users.get)
        if mechanism == "OAUTHBEARER":
            from tidelog.security.oauthbearer import BearerExchange

            assert self._tokens is not None
            return BearerExchange(self._tokens)
        scram = next(each for each in Mechanism if each.sasl_name == mechanism)
        nonce = base64.urlsafe_b64encode(self._random_bytes(_NONCE_BYTES)).decode()
        find = partial(self._credential, scram)
        return ScramExchange(scram, find, nonce, self._scram_secret(), self._shapes_of(scram))

    def _scram_secret(self) -> bytes:
        """The same on all brokers and after every start, so that what is made up is not told by its changes."""
        image = self._image()
        stored = image.config((CLUSTER, "")).get(SCRAM_SECRET)
        if stored is not None:
            return bytes.fromhex(stored)
        if not image.access.credentials:
            return self._secret
        # A cluster whose users were made before there was a secret: theirs, until the next is made.
        _, oldest = min(image.access.credentials.items(), key=lambda item: item[0][0])
        return hmac.digest(oldest.server_key, b"users who do not exist", "sha256")

    def _shapes_of(self, mechanism: Mechanism) -> set[Shape]:
        credentials = self._image().access.credentials
        if self._shapes[0] is not credentials:
            found: dict[Mechanism, set[Shape]] = {}
            for (_, kind), each in credentials.items():
                found.setdefault(kind, set()).add(Shape.of(each))
            self._shapes = (credentials, found)
        return self._shapes[1].get(mechanism, set())

    def _credential(self, mechanism: Mechanism, user: str) -> Credential | None:
        return self._image().access.credentials.get((user, mechanism))

    def _make_tokens(self) -> "TokenCheck | None":
        config = self._config
        if "OAUTHBEARER" not in config.mechanisms:
            return None
        if not config.token_keys:
            raise SettingsError(
                "sasl.enabled.mechanisms=OAUTHBEARER needs keys; name their file with sasl.oauthbearer.jwks.endpoint.url"
            )
        try:
            from tidelog.security.oauthbearer import TokenCheck, TokenKeys
        except ImportError as error:
            raise SettingsError(
                "sasl.enabled.mechanisms=OAUTHBEARER needs PyJWT: pip install 'tidelog[oauth]'"
            ) from error
        return TokenCheck(
            TokenKeys(config.token_keys.removeprefix("file://")),
            lambda: self._clock.now_ms() / 1000,
            config.token_audience or None,
            config.token_issuer or None,
            config.token_name_claim,
        )


def _passwords(users: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for number, each in enumerate(users, 1):
        name, colon, password = each.partition(":")
        if not name or not colon or not password:
            raise SettingsError(
                f"sasl.plain.users: entry {number} must be written as name:password"
            )
        found[name] = password
    return found


def _split_rules(text: str) -> list[str]:
    """Rules are divided by commas, which patterns have too: a new one begins with its word."""
    rules: list[str] = []
    for part in text.split(","):
        begins = part.strip().startswith(("RULE:", "DEFAULT"))
        if begins or not rules:
            rules.append(part.strip() if begins else part)
        else:
            rules[-1] += "," + part
    return [each for each in rules if each]
