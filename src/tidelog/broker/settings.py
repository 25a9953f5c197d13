"""All settings of a broker, gathered from the layers that declare them.

`BrokerSettings.load` takes properties as server.properties and `-X` give them and complains of everything at once: values
that do not fit and names that nobody knows, with the name that was probably meant.  Names that only Kafka
has a use for are accepted and listed in `unused` (see kafka_names.py).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, fields
from functools import cache
from typing import Any

from tidelog.broker import kafka_names, security_settings
from tidelog.broker.addresses import Listener, check_protocols, parse_listeners
from tidelog.broker.monitoring_config import MonitoringConfig
from tidelog.cluster.config import ClusterConfig
from tidelog.cluster.replication_config import ReplicationConfig
from tidelog.coordination.groups.config import GroupConfig
from tidelog.coordination.transactions.config import TransactionConfig
from tidelog.dataclass import dataclass
from tidelog.errors import SettingsError
from tidelog.metastore.address import BadAddress, parse_address
from tidelog.network.config import NetworkConfig
from tidelog.quotas.config import QuotaConfig
from tidelog.security.config import SecurityConfig
from tidelog.settings import Declared, Section, at_least, declared, names_of, setting
from tidelog.storage.cleaner_config import CleanerConfig
from tidelog.storage.config import LogConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig(Section):
    """What belongs to the broker as a whole."""

    broker_id: int = setting(
        "broker.id",
        0,
        "Number of this broker in its cluster; node.id is the same.",
        check=at_least(0),
        also={"node.id": 1},
    )
    listeners: tuple[str, ...] = setting(
        "listeners",
        ("PLAINTEXT://127.0.0.1:9092",),
        "Addresses to listen on, as PLAINTEXT://host:port; no host means all interfaces.",
    )
    advertised_listeners: tuple[str, ...] = setting(
        "advertised.listeners",
        (),
        "Addresses that clients are told; without them a client is told the address that it dialled.",
    )
    listener_security_protocol_map: tuple[str, ...] = setting(
        "listener.security.protocol.map", (), "Security protocol of each listener name."
    )
    controller_listener_names: tuple[str, ...] = setting(
        "controller.listener.names",
        (),
        "Listeners that Kafka keeps for its controllers; tidelog does not open them.",
    )
    log_dirs: tuple[str, ...] = setting(
        "log.dirs",
        ("data",),
        "Directories that hold the partitions; log.dir is the same.",
        also={"log.dir": 1},
    )
    rack: str = setting(
        "broker.rack", "", "Where this broker stands; replicas are spread over racks."
    )
    num_partitions: int = setting(
        "num.partitions",
        1,
        "Partitions of a topic that is created without saying how many.",
        check=at_least(1),
        dynamic=True,
    )
    default_replication_factor: int = setting(
        "default.replication.factor",
        1,
        "Replicas of a topic that is created without saying how many.",
        check=at_least(1),
        dynamic=True,
    )
    auto_create_topics: bool = setting(
        "auto.create.topics.enable",
        True,
        "Whether a topic is created when a client first asks for it.",
        dynamic=True,
    )
    delete_topic: bool = setting(
        "delete.topic.enable", True, "Whether topics may be deleted.", dynamic=True
    )
    retention_check_interval_ms: int = setting(
        "log.retention.check.interval.ms",
        5 * 60_000,
        "How often segments that are too old or too many are looked for.",
        check=at_least(1),
    )
    flush_scheduler_interval_ms: int = setting(
        "log.flush.scheduler.interval.ms",
        1_000,
        "How often logs with a flush.ms are looked at.",
        check=at_least(1),
    )
    recovery_checkpoint_interval_ms: int = setting(
        "log.flush.offset.checkpoint.interval.ms",
        60_000,
        "How often the point from which a log must be checked after a crash is written down.",
        check=at_least(1),
    )
    start_offset_checkpoint_interval_ms: int = setting(
        "log.flush.start.offset.checkpoint.interval.ms",
        60_000,
        "How often the first offset of each log is written down.",
        check=at_least(1),
    )
    high_watermark_checkpoint_interval_ms: int = setting(
        "replica.high.watermark.checkpoint.interval.ms",
        5_000,
        "How often high watermarks are written down.",
        check=at_least(1),
    )
    producer_id_expiration_ms: int = setting(
        "producer.id.expiration.ms",
        24 * 3_600_000,
        "How long the sequence numbers of a silent producer are remembered.",
        check=at_least(1),
        dynamic=True,
    )
    producer_id_expiration_check_interval_ms: int = setting(
        "producer.id.expiration.check.interval.ms",
        600_000,
        "How often silent producers are looked for.",
        check=at_least(1),
    )
    fetch_max_bytes: int = setting(
        "fetch.max.bytes",
        55 * 1024 * 1024,
        "Largest answer to a fetch, whatever the client asks for.",
        check=at_least(1024),
    )
    max_fetch_sessions: int = setting(
        "max.incremental.fetch.session.cache.slots",
        1_000,
        "Incremental fetch sessions that are remembered (KIP-227).",
        check=at_least(0),
    )
    session_timeout_ms: int = setting(
        "broker.session.timeout.ms",
        9_000,
        "Time without a sign of life after which the cluster takes this broker for dead.",
        check=at_least(100),
    )
    heartbeat_interval_ms: int = setting(
        "broker.heartbeat.interval.ms",
        2_000,
        "How often this broker gives a sign of life.",
        check=at_least(10),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """Every section, and the properties they were read from."""

    broker: BrokerConfig = field(default_factory=BrokerConfig)
    log: LogConfig = field(default_factory=LogConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    groups: GroupConfig = field(default_factory=GroupConfig)
    transactions: TransactionConfig = field(default_factory=TransactionConfig)
    cleaner: CleanerConfig = field(default_factory=CleanerConfig)
    replication: ReplicationConfig = field(default_factory=ReplicationConfig)
    cluster: ClusterConfig = field(default_factory=ClusterConfig)
    security: SecurityConfig = field(default_factory=SecurityConfig)
    quotas: QuotaConfig = field(default_factory=QuotaConfig)
    monitoring: MonitoringConfig = field(default_factory=MonitoringConfig)
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    """As given at the start, secrets among them."""
    unused: tuple[str, ...] = ()
    """Names among `properties` that only Kafka has a use for."""

    @classmethod
    def load(cls, properties: Mapping[str, str]) -> "BrokerSettings":
        """The settings; `SettingsError` lists all that is wrong."""
        properties = _with_listeners_of_old(properties)
        wrong: list[str] = []
        sections: dict[str, Any] = {}
        for name, section in SECTIONS.items():
            try:
                sections[name] = section.load(properties)
            except SettingsError as error:
                wrong.append(str(error))
        known = known_names()
        unknown = [name for name in properties if name not in known]
        wrong += (_not_known(name) for name in unknown if not _is_kafkas(name))
        if "broker" in sections:
            others = {
                each: sections[each]
                for each in ("cluster", "monitoring", "security")
                if each in sections
            }
            wrong += _contradictions(
                cls(broker=sections["broker"], **others, properties=dict(properties))
            )
        if wrong:
            raise SettingsError("; ".join(wrong))
        return cls(
            **sections,
            properties=dict(properties),
            unused=tuple(
                name
                for name in unknown
                if name not in _READ_ELSEWHERE
                and not name.endswith(f".{security_settings.CONNECTION_RATE}")
            ),
        )

    def changed(self, *overrides: Mapping[str, str]) -> "BrokerSettings":
        """These settings with dynamic ones over them, the last given winning."""
        properties = dict(self.properties)
        for each in overrides:
            properties |= each
        sections: dict[str, Any] = {
            name: section.load(properties) for name, section in SECTIONS.items()
        }
        return BrokerSettings(**sections, properties=self.properties, unused=self.unused)

    def listeners(self) -> list[Listener]:
        """Where clients are served."""
        broker = self.broker
        parsed = parse_listeners("listeners", broker.listeners)
        controllers = [name.upper() for name in broker.controller_listener_names]
        return check_protocols(parsed, broker.listener_security_protocol_map, controllers)

    def inter_broker_listener(self) -> Listener:
        """The one by which brokers reach each other; raises `SettingsError`."""
        return security_settings.inter_broker_listener(self.security, self.listeners())

    def open_doors(self) -> list[str]:
        """What is open that need not be, with the cure."""
        return security_settings.open_doors(self.security, self.listeners())

    def security_complaints(self) -> Iterator[str]:
        """What would leave a door open, with the cure."""
        unknown = [name for name in self.properties if name not in known_names()]
        controllers = self.broker.controller_listener_names
        return security_settings.complaints(self.properties, unknown, self.listeners(), controllers)

    def advertised(self) -> list[Listener]:
        return parse_listeners("advertised.listeners", self.broker.advertised_listeners)

    def connection_rates(self) -> dict[str, int]:
        """`max.connection.creation.rate` of single listeners; raises `SettingsError`."""
        known = declarations()[security_settings.CONNECTION_RATE][1]
        found = {}
        for each in self.listeners():
            name = f"listener.name.{each.name.lower()}.{security_settings.CONNECTION_RATE}"
            if name in self.properties:
                found[each.name] = int(known.parse(name, self.properties[name]))
        return found

    def metrics_listener(self) -> Listener | None:
        """Where metrics are served; None for nowhere."""
        where = self.monitoring.listener
        return parse_listeners("metrics.listener", [where])[0] if where else None

    def value_of(self, setting_name: str) -> Any:
        """The value in force of a setting, by its main name."""
        section, each = declarations()[setting_name]
        return getattr(getattr(self, section), each.attribute)


SECTIONS: dict[str, type[Section]] = {
    "broker": BrokerConfig,
    "log": LogConfig,
    "network": NetworkConfig,
    "groups": GroupConfig,
    "transactions": TransactionConfig,
    "cleaner": CleanerConfig,
    "replication": ReplicationConfig,
    "cluster": ClusterConfig,
    "security": SecurityConfig,
    "quotas": QuotaConfig,
    "monitoring": MonitoringConfig,
}
assert list(SECTIONS) == [each.name for each in fields(BrokerSettings)][: len(SECTIONS)]

_READ_ELSEWHERE = frozenset({"port", "host.name", "advertised.port", "advertised.host.name"})


@cache
def declarations() -> dict[str, tuple[str, Declared]]:
    """Every declared setting by its main name, with the section that holds it."""
    return {
        each.spec.name: (section, each)
        for section, cls in SECTIONS.items()
        for each in declared(cls)
    }


@cache
def known_names() -> frozenset[str]:
    return frozenset(name for cls in SECTIONS.values() for name in names_of(cls))


def _is_kafkas(name: str) -> bool:
    return name in kafka_names.NAMES or name.startswith(
        (*kafka_names.PREFIXES, *security_settings.STRICT)
    )


def _not_known(name: str) -> str:
    import difflib  # only when something is wrong

    known = sorted(known_names() | kafka_names.NAMES)
    close = difflib.get_close_matches(name, known, 1, 0.7)
    return f"{name} is not a setting" + (f" (did you mean {close[0]}?)" if close else "")


def _contradictions(settings: BrokerSettings) -> Iterator[str]:
    checks: list[Callable[[], object]] = [settings.advertised, settings.metrics_listener]
    try:
        settings.listeners()
        yield from settings.security_complaints()
        checks += (settings.connection_rates, settings.inter_broker_listener)
    except SettingsError as error:
        yield str(error)
    for check in checks:
        try:
            check()
        except SettingsError as error:
            yield str(error)
    if settings.cluster.metastore:
        try:
            parse_address(settings.cluster.metastore)
        except BadAddress as error:
            yield str(error)
    if settings.broker.heartbeat_interval_ms >= settings.broker.session_timeout_ms:
        yield "broker.heartbeat.interval.ms must be less than broker.session.timeout.ms"
    if not settings.broker.log_dirs:
        yield "log.dirs names no directory"


def _with_listeners_of_old(properties: Mapping[str, str]) -> Mapping[str, str]:
    """`host.name` and `port` (Kafka 0.8) stand for a listener where none is given."""
    changed = dict(properties)
    for new, host, port in (
        ("listeners", "host.name", "port"),
        ("advertised.listeners", "advertised.host.name", "advertised.port"),
    ):
        if new not in properties and (host in properties or port in properties):
            where = properties.get(host, properties.get("host.name", ""))
            number = properties.get(port, properties.get("port", "9092"))
            changed[new] = f"PLAINTEXT://{where}:{number}"
    return changed
