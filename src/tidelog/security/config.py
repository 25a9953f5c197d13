"""Settings of logins, TLS and access rules, under Kafka's names; files are PEM."""

import re

from tidelog.dataclass import dataclass
from tidelog.security.tls_policy import NEWEST_LAST, is_list_of_protocols
from tidelog.settings import Section, at_least, is_file_name, one_of, setting

_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


def is_trail(value: str) -> bool:
    """file:PATH or topic:NAME"""
    kind, _, where = value.partition(":")
    if kind == "topic":
        return bool(_TOPIC.fullmatch(where))
    return not value or (kind == "file" and bool(where))


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityConfig(Section):
    """Who may come in, and how that is found out."""

    inter_broker_listener: str = setting(
        "inter.broker.listener.name",
        "",
        "The listener by which brokers reach each other; the first one without.",
    )
    inter_broker_protocol: str = setting(
        "security.inter.broker.protocol",
        "",
        "Or its protocol: the first listener that has it.",
        check=one_of("", "PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    )
    # TLS
    tls_certificate: str = setting(
        "ssl.keystore.certificate.chain",
        "",
        "PEM file with the broker's certificate, and those between it and the root.",
        check=is_file_name,
        secret=True,
        also={"ssl.keystore.location": 1},
    )
    tls_key: str = setting(
        "ssl.keystore.key",
        "",
        "PEM file with its private key; the certificate's file without.",
        check=is_file_name,
        secret=True,
    )
    tls_key_password: str = setting(
        "ssl.key.password", "", "Password of the private key.", secret=True
    )
    tls_trusted: str = setting(
        "ssl.truststore.certificates",
        "",
        "PEM file with the roots that clients' certificates are checked against.",
        check=is_file_name,
        secret=True,
        also={"ssl.truststore.location": 1},
    )
    tls_client_auth: str = setting(
        "ssl.client.auth",
        "none",
        "Whether clients have to show a certificate.",
        check=one_of("none", "requested", "required"),
    )
    tls_protocols: tuple[str, ...] = setting(
        "ssl.enabled.protocols",
        NEWEST_LAST,
        "The versions of TLS that are spoken; TLSv1.3 alone refuses whoever cannot speak it.",
        check=is_list_of_protocols,
    )
    tls_cipher_suites: tuple[str, ...] = setting(
        "ssl.cipher.suites",
        (),
        "The cipher suites that are spoken, by the standard's names or OpenSSL's; OpenSSL's choice without.",
    )
    tls_check_host: str = setting(
        "ssl.endpoint.identification.algorithm",
        "",
        "https: brokers check that the certificate of another broker is made for the name by which they reach it.",
        check=one_of("", "none", "https", "HTTPS"),
    )
    principal_rules: str = setting(
        "ssl.principal.mapping.rules",
        "DEFAULT",
        "How a certificate's name becomes a user's: DEFAULT, or RULE:pattern/replacement/[LU] and a comma between rules.",
    )
    # Logins
    mechanisms: tuple[str, ...] = setting(
        "sasl.enabled.mechanisms",
        ("SCRAM-SHA-256", "SCRAM-SHA-512"),
        "How clients may log in, on listeners with SASL.",
        check=one_of(*MECHANISMS),
    )
    plain_users: tuple[str, ...] = setting(
        "sasl.plain.users",
        (),
        "Users of the mechanism PLAIN, as name:password,name:password.  tidelog's own.",
        secret=True,
    )
    max_session_ms: int = setting(
        "connections.max.reauth.ms",
        0,
        "After this long a client has to log in again (KIP-368); 0 for never.",
        check=at_least(0),
    )
    failed_login_delay_ms: int = setting(
        "connection.failed.authentication.delay.ms",
        100,
        "How long the answer to a login that failed is held back.",
        check=at_least(0),
    )
    login_max_bytes: int = setting(
        "sasl.server.max.receive.size",
        512 * 1024,
        "Largest request of a client that has not logged in yet.",
        check=at_least(1),
    )
    token_keys: str = setting(
        "sasl.oauthbearer.jwks.endpoint.url",
        "",
        "File with the public keys (a JWK set) that tokens are checked against.",
    )
    token_audience: str = setting(
        "sasl.oauthbearer.expected.audience", "", "For whom a token has to be made; any without."
    )
    token_issuer: str = setting(
        "sasl.oauthbearer.expected.issuer", "", "Who has to have made a token; anybody without."
    )
    token_name_claim: str = setting(
        "sasl.oauthbearer.sub.claim.name", "sub", "Which claim of a token is the user's name."
    )
    broker_mechanism: str = setting(
        "sasl.mechanism.inter.broker.protocol",
        "SCRAM-SHA-256",
        "How brokers log in to each other, where their listener asks for it.",
        check=one_of(*MECHANISMS),
    )
    broker_user: str = setting(
        "sasl.inter.broker.username", "", "As whom brokers log in to each other.  tidelog's own."
    )
    broker_password: str = setting(
        "sasl.inter.broker.password", "", "With which password.  tidelog's own.", secret=True
    )
    audit_trail: str = setting(
        "audit.trail",
        "",
        "Where logins and changes are told, as lines of JSON: file:PATH or topic:NAME; nowhere without.  tidelog's own.",
        check=is_trail,
    )
    # Access rules
    authorizer: str = setting(
        "authorizer.class.name",
        "",
        "Switches access rules on; any of Kafka's names for its authorizer will do.",
    )
    super_users: str = setting(
        "super.users", "", "Who may do everything, as User:admin;User:other."
    )
    allow_if_no_acl: bool = setting(
        "allow.everyone.if.no.acl.found",
        False,
        "Whether resources without any rule are open to all.",
        dynamic=True,
    )
    # ZooKeeper, where it keeps the metadata
    zookeeper_user: str = setting(
        "zookeeper.auth.username",
        "",
        "As whom the broker logs in to ZooKeeper; what it makes there is then for this user alone.  tidelog's own.",
    )
    zookeeper_password: str = setting(
        "zookeeper.auth.password", "", "With which password.  tidelog's own.", secret=True
    )
    zookeeper_tls: bool = setting(
        "zookeeper.ssl.client.enable", False, "Whether to speak TLS to ZooKeeper."
    )
    zookeeper_roots: str = setting(
        "zookeeper.ssl.truststore.location",
        "",
        "PEM file that ZooKeeper's certificates are checked against.",
        check=is_file_name,
    )
    zookeeper_certificate: str = setting(
        "zookeeper.ssl.keystore.location",
        "",
        "PEM file with a certificate and its key, where ZooKeeper asks for one.",
        check=is_file_name,
    )
    zookeeper_key_password: str = setting(
        "zookeeper.ssl.keystore.password", "", "Password of that key.", secret=True
    )
