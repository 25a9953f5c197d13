"""The clients' settings, under Kafka's names.

A client takes a mapping with Kafka's names, Python keywords in snake_case, or both; the keywords win:

    Producer({"bootstrap.servers": "localhost:9092"}, linger_ms=20)

Values may be Python's (numbers, booleans, lists) or Kafka's texts.  A name that no client setting has is refused,
with the one that was probably meant.
"""

import difflib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from tidelog.client.habits import SETTINGS
from tidelog.client.tokens import TokenProvider
from tidelog.dataclass import dataclass
from tidelog.errors import SettingsError
from tidelog.records import Codec
from tidelog.settings import (
    Section,
    at_least,
    between,
    declared,
    is_file_name,
    names_of,
    one_of,
    setting,
    text_of,
)

S = TypeVar("S", bound=Section)

RESETS = {
    "smallest": "earliest",
    "beginning": "earliest",
    "largest": "latest",
    "end": "latest",
    "error": "none",
}
"""The names that other clients have for the two ends of a partition, and for neither."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings(Section):
    """What every client needs to find its brokers and to talk to them."""

    bootstrap_servers: tuple[str, ...] = setting(
        "bootstrap.servers",
        doc="Addresses `host:port` of some brokers; the others are learnt from them.",
        also={"metadata.broker.list": 1},
    )
    client_id: str = setting(
        "client.id", "tidelog", doc="How the client calls itself to the brokers."
    )
    request_timeout_ms: int = setting(
        "request.timeout.ms",
        30_000,
        doc="How long to wait for an answer.",
        check=at_least(1),
        also={"socket.timeout.ms": 1},
    )
    default_api_timeout_ms: int = setting(
        "default.api.timeout.ms",
        60_000,
        doc="How long a call may take that has no timeout of its own, retries included.",
        check=at_least(1),
    )
    retry_backoff_ms: int = setting(
        "retry.backoff.ms", 100, doc="Pause before the first retry; it doubles.", check=at_least(0)
    )
    retry_backoff_max_ms: int = setting(
        "retry.backoff.max.ms", 1_000, doc="Longest pause between retries.", check=at_least(0)
    )
    metadata_max_age_ms: int = setting(
        "metadata.max.age.ms",
        300_000,
        doc="How often to ask anew which topics there are and who leads them.",
        check=at_least(1),
        also={"topic.metadata.refresh.interval.ms": 1},
    )
    connection_setup_timeout_ms: int = setting(
        "socket.connection.setup.timeout.ms",
        10_000,
        doc="How long to wait for a connection.",
        check=at_least(1),
    )

    security_protocol: str = setting(
        "security.protocol",
        "PLAINTEXT",
        doc="Whether connections are encrypted (SSL), and whether the client logs in (SASL).",
        check=one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    )
    sasl_mechanism: str = setting(
        "sasl.mechanism",
        "SCRAM-SHA-256",
        doc="How the client logs in.",
        check=one_of("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"),
        also={"sasl.mechanisms": 1},
    )
    sasl_username: str = setting(
        "sasl.username", "", doc="Whose login it is.", also={"sasl.plain.username": 1}
    )
    sasl_password: str = setting(
        "sasl.password", "", doc="The password.", secret=True, also={"sasl.plain.password": 1}
    )
    sasl_oauthbearer_token: str = setting(
        "sasl.oauthbearer.token", "", doc="A signed token for OAUTHBEARER.", secret=True
    )
    sasl_oauth_token_provider: TokenProvider | None = setting(
        "sasl.oauth.token.provider",
        None,
        doc="A function that fetches a token for OAUTHBEARER, called again before the last one expires.  tidelog's own.",
        secret=True,
    )
    ssl_ca_location: str = setting(
        "ssl.ca.location",
        "",
        doc="PEM file of the roots that a broker's certificate is checked against; the system's without.",
        check=is_file_name,
        also={"ssl.cafile": 1},
    )
    ssl_certificate_location: str = setting(
        "ssl.certificate.location",
        "",
        doc="PEM file of the client's certificate, for mutual TLS.",
        check=is_file_name,
        also={"ssl.certfile": 1},
    )
    ssl_key_location: str = setting(
        "ssl.key.location",
        "",
        doc="PEM file of its key; the certificate's file without.",
        check=is_file_name,
        also={"ssl.keyfile": 1},
    )
    ssl_key_password: str = setting(
        "ssl.key.password", "", doc="Password of the key.", secret=True, also={"ssl.password": 1}
    )
    ssl_endpoint_identification_algorithm: str = setting(
        "ssl.endpoint.identification.algorithm",
        "https",
        doc="`https` checks that a broker's certificate is for its host; `none` does not.",
        check=one_of("https", "none", ""),
    )

    @property
    def ssl_check_host(self) -> bool:
        return self.ssl_endpoint_identification_algorithm == "https"

    @property
    def request_timeout_s(self) -> float:
        return self.request_timeout_ms / 1000

    @property
    def default_timeout_s(self) -> float:
        return self.default_api_timeout_ms / 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings(ClientSettings):
    """How records are gathered, sent and sent again."""

    acks: str = setting(
        "acks",
        "all",
        doc="Who must have written a batch before it counts: all in-sync replicas, the leader (1), nobody (0).",
        check=one_of("all", "-1", "0", "1"),
        also={"request.required.acks": 1},
    )
    batch_size: int = setting(
        "batch.size",
        262_144,
        doc="Bytes at which a batch is full.  Kafka's own default is 16384; fewer, larger batches cost less.",
        check=at_least(0),
        also={"max.batch.size": 1},
    )
    linger_ms: float = setting(
        "linger.ms",
        5.0,
        doc="How long a batch that is not full waits for more.",
        check=at_least(0),
        also={"queue.buffering.max.ms": 1},
    )
    buffer_memory: int = setting(
        "buffer.memory",
        64 * 1024 * 1024,
        doc="Bytes of records that may wait or be on their way.",
        check=at_least(1),
        also={"queue.buffering.max.kbytes": 1024},
    )
    max_block_ms: int = setting(
        "max.block.ms",
        60_000,
        doc="How long `send` may wait for metadata or for memory; 0 fails at once.",
        check=at_least(0),
    )
    max_request_size: int = setting(
        "max.request.size",
        1_048_576,
        doc="Largest request, and so largest message.",
        check=at_least(1),
        also={"message.max.bytes": 1},
    )
    max_in_flight: int = setting(
        "max.in.flight.requests.per.connection",
        5,
        doc="Requests that may wait for their answers at one broker.",
        check=between(1, 1_000),
        also={"max.in.flight": 1},
    )
    enable_idempotence: bool = setting(
        "enable.idempotence",
        True,
        doc="Number the batches, so that retries neither repeat nor reorder; needs acks=all.",
    )
    compression_type: str = setting(
        "compression.type",
        "none",
        doc="Codec of the batches.",
        check=one_of("none", "gzip", "snappy", "lz4", "zstd"),
        also={"compression.codec": 1},
    )
    compression_level: int = setting(
        "compression.level", -1, doc="The codec's own level; -1 is a fast default of each codec."
    )
    delivery_timeout_ms: int = setting(
        "delivery.timeout.ms",
        120_000,
        doc="When a record that is still not acknowledged has failed.",
        check=at_least(1),
        also={"message.timeout.ms": 1},
    )
    retries: int = setting(
        "retries",
        2_147_483_647,
        doc="How often a batch is sent again.",
        check=at_least(0),
        also={"message.send.max.retries": 1},
    )

    transactional_id: str = setting(
        "transactional.id",
        "",
        doc="Makes the producer transactional, and fences an older one of the same name.",
    )
    transaction_timeout_ms: int = setting(
        "transaction.timeout.ms",
        60_000,
        doc="After this long the coordinator aborts a transaction that was not ended.",
        check=at_least(1),
    )

    @property
    def acks_number(self) -> int:
        return -1 if self.acks == "all" else int(self.acks)

    @property
    def codec(self) -> Codec:
        return Codec[self.compression_type.upper()]

    @property
    def idempotent(self) -> bool:
        """Whether batches are numbered; asking for fewer acks switches it off, as in Kafka's client."""
        return self.enable_idempotence and self.acks_number == -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings(ClientSettings):
    """What is read, from where, and with whom it is shared."""

    group_id: str = setting(
        "group.id", "", doc="The group that shares the partitions; none without."
    )
    group_instance_id: str = setting(
        "group.instance.id",
        "",
        doc="Makes the member static (KIP-345): it may come back within the session timeout without a rebalance.",
    )
    group_protocol: str = setting(
        "group.protocol",
        "classic",
        doc="How the group shares: `classic`, where a member decides, or `consumer`, where the broker does (KIP-848).",
        check=one_of("classic", "consumer"),
    )
    group_remote_assignor: str = setting(
        "group.remote.assignor",
        "",
        doc="Assignor of the broker (`uniform`, `range`) with group.protocol=consumer; its own choice without.",
    )
    partition_assignment_strategy: tuple[str, ...] = setting(
        "partition.assignment.strategy",
        ("range", "cooperative-sticky"),
        doc="Assignors in order of liking; the group takes one that all its members know.",
        check=one_of("range", "roundrobin", "sticky", "cooperative-sticky"),
    )
    session_timeout_ms: int = setting(
        "session.timeout.ms",
        45_000,
        doc="After this long without a heartbeat a member has left.",
        check=at_least(1),
    )
    heartbeat_interval_ms: int = setting(
        "heartbeat.interval.ms", 3_000, doc="How often to say that one is alive.", check=at_least(1)
    )
    max_poll_interval_ms: int = setting(
        "max.poll.interval.ms",
        300_000,
        doc="After this long without asking for messages a member leaves its group.",
        check=at_least(1),
    )
    max_poll_records: int = setting(
        "max.poll.records", 500, doc="What `poll` returns at most unless told.", check=at_least(1)
    )
    enable_auto_commit: bool = setting(
        "enable.auto.commit",
        True,
        doc="Commit what has been consumed from time to time, and at the end.",
    )
    auto_commit_interval_ms: int = setting(
        "auto.commit.interval.ms", 5_000, doc="How often.", check=at_least(1)
    )
    auto_offset_reset: str = setting(
        "auto.offset.reset",
        "latest",
        doc="Where to start without a committed offset: earliest (smallest), latest (largest), none is an error.",
        check=one_of("earliest", "latest", "none", *RESETS),
    )
    isolation_level: str = setting(
        "isolation.level",
        "read_uncommitted",
        doc="Whether records of open and aborted transactions are shown.",
        check=one_of("read_uncommitted", "read_committed"),
    )
    fetch_min_bytes: int = setting(
        "fetch.min.bytes", 1, doc="The broker waits for so many bytes,", check=at_least(0)
    )
    fetch_max_wait_ms: int = setting(
        "fetch.max.wait.ms",
        500,
        doc="but no longer than this.",
        check=at_least(0),
        also={"fetch.wait.max.ms": 1},
    )
    fetch_max_bytes: int = setting(
        "fetch.max.bytes", 52_428_800, doc="Bytes of one answer, about.", check=at_least(1)
    )
    max_partition_fetch_bytes: int = setting(
        "max.partition.fetch.bytes",
        1_048_576,
        doc="Bytes of one partition in it.",
        check=at_least(1),
        also={"fetch.message.max.bytes": 1},
    )
    prefetch_max_bytes: int = setting(
        "prefetch.max.bytes",
        16 * 1024 * 1024,
        doc="Bytes that are fetched ahead of the reader.  tidelog's own.",
        check=at_least(1),
    )
    client_rack: str = setting(
        "client.rack",
        "",
        doc="Where this reader is: it is sent to a replica in the same rack if the broker allows that (KIP-392).",
    )
    check_crcs: bool = setting(
        "check.crcs", True, doc="Whether the checksum of each batch is verified."
    )

    @property
    def reset(self) -> str:
        return RESETS.get(self.auto_offset_reset, self.auto_offset_reset)


def load(cls: type[S], config: Mapping[str, Any] | None, options: Mapping[str, Any]) -> S:
    """The settings in a mapping of Kafka's names and in keywords; SettingsError names every bad one."""
    if config is not None and not isinstance(config, Mapping):
        raise SettingsError(
            f"{config!r}: settings are given by name, an address as bootstrap_servers={config!r}"
        )
    given = given_settings(config, options)
    known = set(names_of(cls))
    unknown = [name for name in given if name not in known]
    if unknown:
        raise SettingsError("; ".join(_unknown(name, known) for name in unknown))
    texts = {name: _text(value) for name, value in given.items() if name not in _objects(cls)}
    objects = {_objects(cls)[name]: value for name, value in given.items() if name in _objects(cls)}
    for name, attribute in _objects(cls).items():
        if isinstance(objects.get(attribute), str):
            raise SettingsError(f"{name}={given[name]!r} must be a function, which no text can be")
    return replace(cls.load(texts), **objects)


def given_settings(config: Mapping[str, Any] | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """What the user has set, under Kafka's names; None leaves a setting as it is."""
    both = {**(config or {}), **{name.replace("_", "."): each for name, each in options.items()}}
    return {name: value for name, value in both.items() if value is not None}


def names_given(config: Mapping[str, Any] | None, options: Mapping[str, Any]) -> set[str]:
    """Kafka's names of what the user has set."""
    return set(given_settings(config, options))


def _objects(cls: type[Section]) -> dict[str, str]:
    """The settings that no text can say, with their attributes."""
    return {each.spec.name: each.attribute for each in declared(cls) if not each.is_text}


def _text(value: Any) -> str:
    return text_of(tuple(value) if isinstance(value, list | set | frozenset) else value)


def _unknown(name: str, known: set[str]) -> str:
    if name in SETTINGS:
        return f"{name} is not a setting of this client; {SETTINGS[name]}"
    meant = difflib.get_close_matches(name, known, 1)
    return f"{name} is not a setting of this client" + (f"; {meant[0]} is" if meant else "")
