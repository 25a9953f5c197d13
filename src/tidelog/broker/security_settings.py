"""What is wrong with the security settings of a properties file, beyond single values.

Elsewhere a name of Kafka's that tidelog has no use for is accepted and listed.  A setting that shuts a door is different: a
typo in it, or a name without effect, would leave the door open and nobody would know.  So every name in `STRICT` families is
one that is declared, one of those below that are safe without effect, or a reason not to start.

Absent: settings of a single listener, except `max.connection.creation.rate`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from tidelog.broker.addresses import Listener
from tidelog.errors import SettingsError
from tidelog.security.config import SecurityConfig

STRICT = ("ssl.", "sasl.", "listener.name.", "zookeeper.ssl.", "zookeeper.auth.")

CONNECTION_RATE = "max.connection.creation.rate"

WITHOUT_EFFECT = frozenset(
    {
        # Which classes of Java do the work, and how keystores are opened; the certificates and who checks them are the same.
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.keymanager.algorithm",
        "ssl.trustmanager.algorithm",
        "ssl.keystore.password",
        "ssl.truststore.password",
        "zookeeper.ssl.truststore.password",
        # New certificates are taken as they come, and change nobody's rights: the file belongs to the broker's owner.
        "ssl.allow.dn.changes",
        "ssl.allow.san.changes",
        # ZooKeeper's host names are always checked, and TLS is 1.2 or newer.
        "zookeeper.ssl.endpoint.identification.algorithm",
        "zookeeper.ssl.protocol",
        # Nobody comes in with Kerberos, and there is no controller beside the brokers.
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.min.time.before.relogin",
        "sasl.kerberos.principal.to.local.rules",
        "sasl.kerberos.service.name",
        "sasl.kerberos.ticket.renew.jitter",
        "sasl.kerberos.ticket.renew.window.factor",
        "sasl.mechanism.controller.protocol",
        # How Java's clients get their tokens; how often keys are read again, which is when the file has changed.
        "sasl.login.connect.timeout.ms",
        "sasl.login.read.timeout.ms",
        "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
        "sasl.login.retry.backoff.max.ms",
        "sasl.login.retry.backoff.ms",
        "sasl.oauthbearer.header.urlencode",
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        "sasl.oauthbearer.scope.claim.name",
        "sasl.oauthbearer.token.endpoint.url",
    }
)
"""Names of Kafka's that may stand in a file: what they ask for holds anyway, or opens nothing."""


def complaints(
    properties: Mapping[str, str],
    unknown: Iterable[str],
    listeners: Sequence[Listener],
    controllers: Iterable[str],
) -> Iterator[str]:
    """Every name of the strict families that would have no effect, with the cure; `unknown` are those not declared."""
    protected = _protected(properties, listeners)
    open_names = {each.name.lower() for each in listeners}
    never_opened = {each.lower() for each in controllers}
    for name in unknown:
        if name.startswith("listener.name."):
            found = _of_one_listener(name, open_names, never_opened)
        elif name in _JUDGES:
            # Of a door that there is not even its key may lie about.
            relevant = name.startswith(protected)
            found = _JUDGES[name](name, properties[name].strip()) if relevant else None
        else:
            unsafe = name.startswith(STRICT) and name not in WITHOUT_EFFECT
            found = _no_setting(name) if unsafe else None
        if found:
            yield found
    if "ssl." not in protected and properties.get("ssl.client.auth", "").strip() == "required":
        yield (
            "ssl.client.auth=required has no effect: no listener speaks TLS; "
            "give one as SSL://host:port, or leave the setting out"
        )


def inter_broker_listener(security: SecurityConfig, listeners: Sequence[Listener]) -> Listener:
    """The listener by which brokers reach each other: by its name, by its protocol, or else the first."""
    wanted, protocol = security.inter_broker_listener.upper(), security.inter_broker_protocol
    if wanted and protocol:
        raise SettingsError(
            "inter.broker.listener.name and security.inter.broker.protocol are both set; one of them is enough"
        )
    for each in listeners:
        if (not wanted or each.name == wanted) and (not protocol or each.protocol == protocol):
            return each
    asked = (
        f"inter.broker.listener.name={wanted}"
        if wanted
        else f"security.inter.broker.protocol={protocol}"
    )
    names = ", ".join(f"{each.name} ({each.protocol})" for each in listeners)
    raise SettingsError(f"{asked}: no listener is like that; there are: {names}")


def open_doors(security: SecurityConfig, listeners: Sequence[Listener]) -> list[str]:
    """What whoever starts a broker should know of its listeners, with the cure; nothing where all is well."""
    found = []
    for each in listeners:
        where = (
            f"{each.protocol}://{f'[{each.host}]' if ':' in each.host else each.host}:{each.port}"
        )
        has_login = each.protocol.startswith("SASL") or (
            each.protocol == "SSL" and security.tls_client_auth == "required"
        )
        if not has_login and not _is_this_machine(each.host):
            cure = "listen on 127.0.0.1, or ask for a login (SASL_SSL)"
            found.append(f"{where} is reached from other machines and asks for no login; {cure}")
        if each.protocol == "SASL_PLAINTEXT" and "PLAIN" in security.mechanisms:
            cure = "use SASL_SSL, or SCRAM alone"
            found.append(f"{where} takes passwords in plain text (PLAIN without TLS); {cure}")
    return found


def _is_this_machine(host: str) -> bool:
    return host == "localhost" or host == "::1" or host.startswith("127.")


def _protected(properties: Mapping[str, str], listeners: Sequence[Listener]) -> tuple[str, ...]:
    """The families whose settings have a door to shut."""
    found = ["principal."]
    if any(each.protocol.endswith("SSL") for each in listeners):
        found.append("ssl.")
    if any(each.protocol.startswith("SASL") for each in listeners):
        found.append("sasl.")
    if properties.get("metastore", "").strip().startswith("zk:"):
        found.append("zookeeper.")
    return tuple(found)


def _no_setting(name: str) -> str:
    return (
        f"{name} is not a setting of tidelog, and a security setting without effect leaves a door open"
        f"{suggestion(name)}; correct it or take it out"
    )


def suggestion(name: str) -> str:
    """ " (did you mean …?)", or nothing."""
    import difflib  # only when something is wrong

    from tidelog.broker.settings import known_names

    close = difflib.get_close_matches(name, sorted(known_names() | _JUDGES.keys()), 1, 0.7)
    return f" (did you mean {close[0]}?)" if close else ""


def _of_one_listener(name: str, open_names: set[str], never_opened: set[str]) -> str | None:
    listener, _, rest = name.removeprefix("listener.name.").partition(".")
    if listener in never_opened and listener not in open_names:
        return None
    if listener not in open_names:
        return (
            f"{name}: there is no listener {listener!r}; there are: {', '.join(sorted(open_names))}"
        )
    if rest == CONNECTION_RATE:
        return None
    return (
        f"{name}: a single listener cannot have settings of its own, except {CONNECTION_RATE}; "
        f"write {rest} for all of them, or run another broker"
    )


def _pem(name: str, value: str) -> str | None:
    if value.upper() == "PEM":
        return None
    return (
        f"{name}={value!r}: keystores of Java are not read; convert yours with "
        "`openssl pkcs12 -in keystore.p12 -nodes -out server.pem` and write PEM"
    )


def _protocol(name: str, value: str) -> str | None:
    if value in ("TLS", "TLSv1.2", "TLSv1.3"):
        return None
    return f"{name}={value!r} must be TLS, TLSv1.2 or TLSv1.3; nothing older is spoken"


def _protocols(name: str, value: str) -> str | None:
    if {"TLSv1.2", "TLSv1.3"} <= {each.strip() for each in value.split(",")} or not value:
        return None
    return f"{name}={value!r}: towards ZooKeeper TLSv1.2 and TLSv1.3 are spoken; take it out"


def _kafkas_class(name: str, value: str) -> str | None:
    if value.startswith("org.apache.kafka.") or not value:
        return None
    return (
        f"{name}={value!r}: classes of Java are not loaded, so what it checks would not be checked; take it out. "
        "Users are in SCRAM's credentials, sasl.plain.users or tokens (sasl.enabled.mechanisms)"
    )


def _off(name: str, value: str) -> str | None:
    if value.lower() in ("false", ""):
        return None
    return f"{name}={value!r}: certificates are not looked up as revoked; take it out"


def _jaas(name: str, value: str) -> str | None:
    return (
        f"{name} has no effect: PLAIN's users are in sasl.plain.users, and brokers log in to each other with "
        "sasl.inter.broker.username and sasl.inter.broker.password"
    )


def _leeway(name: str, value: str) -> str | None:
    return None if value in ("30", "") else f"{name}={value!r}: it is 30 seconds, and cannot be set"


def _engine(name: str, value: str) -> str | None:
    return f"{name}={value!r}: classes of Java are not loaded; name PEM files instead"


_JUDGES: dict[str, Callable[[str, str], str | None]] = {
    "ssl.keystore.type": _pem,
    "ssl.truststore.type": _pem,
    "ssl.protocol": _protocol,
    "ssl.engine.factory.class": _engine,
    "sasl.jaas.config": _jaas,
    "sasl.client.callback.handler.class": _kafkas_class,
    "sasl.server.callback.handler.class": _kafkas_class,
    "sasl.login.callback.handler.class": _kafkas_class,
    "sasl.login.class": _kafkas_class,
    "sasl.oauthbearer.jwt.retriever.class": _kafkas_class,
    "sasl.oauthbearer.jwt.validator.class": _kafkas_class,
    "sasl.oauthbearer.clock.skew.seconds": _leeway,
    "principal.builder.class": _kafkas_class,
    "zookeeper.ssl.keystore.type": _pem,
    "zookeeper.ssl.truststore.type": _pem,
    "zookeeper.ssl.enabled.protocols": _protocols,
    "zookeeper.ssl.crl.enable": _off,
    "zookeeper.ssl.ocsp.enable": _off,
}
"""Names whose value decides: None where it is as good as done."""
