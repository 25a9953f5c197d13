"""What the metadata log says: one frozen dataclass a record type, with a stable JSON form.

An entry of the metastore's log is a batch of records that take effect together:

    [["topic", {"name": "orders", "topic_id": "x0b3…"}], ["partition", {…}], …]

Names in the JSON form are for ever.  A field may be added if it has a default, which is left out of the JSON;
a record type or field that a broker does not know stops it, because guessing would split the cluster's mind.

So that a cluster can be updated broker by broker, there is a *metadata version*.  Each broker registers with the newest one that
it can read (`METADATA_VERSION`), and the controller writes what all registered brokers can read, and no more (`versions.py`).
To add a record type or a field: raise `METADATA_VERSION`, enter it into `_SINCE`, and where something is decided that needs it
ask `image.metadata_version` first and do without while that is lower.  A decision that does not is refused, with the
brokers that are to be updated.
"""

import base64
import json
from collections.abc import Iterable
from dataclasses import MISSING, fields
from functools import lru_cache
from typing import Any, ClassVar
from uuid import UUID

from tidelog.dataclass import dataclass
from tidelog.errors import TidelogError

METADATA_VERSION = 2
"""The newest metadata version that this code can read."""

_SINCE: dict[tuple[str, str], int] = {
    ("partition", "offline"): 2,
    ("partition_change", "offline"): 2,
}
"""The metadata version that brought a record type (kind, "") or a field of one (kind, field); the first is not told."""


class MetadataError(TidelogError):
    """The metadata log holds what this version of tidelog cannot read."""


class NewerMetadata(MetadataError):
    """It was written by a newer version of tidelog."""


@dataclass(frozen=True, slots=True)
class BrokerRecord:
    """A broker registered, or registered anew."""

    kind: ClassVar[str] = "broker"
    broker_id: int
    endpoints: tuple[tuple[str, str, int], ...]
    """Listener name, host and port; an empty host means "as the client dialled" (see broker/addresses.py)."""
    rack: str | None = None
    incarnation: str = ""
    """Of the session in whose name it registered (see cluster/registration.py)."""
    fenced: bool = False
    stopping: bool = False
    epoch: int = 0
    """In a snapshot: the registration's own entry; 0 for "this entry"."""


@dataclass(frozen=True, slots=True)
class BrokerChangeRecord:
    """A registered broker was fenced or unfenced, or is about to stop; None leaves a fact as it is."""

    kind: ClassVar[str] = "broker_change"
    broker_id: int
    fenced: bool | None = None
    """A fenced broker leads nothing, and is in no ISR that has a member that is not fenced."""
    stopping: bool | None = None


@dataclass(frozen=True, slots=True)
class RemoveBrokerRecord:
    """The broker will not come back."""

    kind: ClassVar[str] = "remove_broker"
    broker_id: int


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """A topic exists from here on; its partitions follow."""

    kind: ClassVar[str] = "topic"
    name: str
    topic_id: UUID


@dataclass(frozen=True, slots=True)
class PartitionRecord:
    """A partition exists from here on."""

    kind: ClassVar[str] = "partition"
    topic_id: UUID
    index: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int = 0
    partition_epoch: int = 0
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    eligible: tuple[int, ...] = ()
    offline: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class PartitionChangeRecord:
    """Some facts of a partition changed; None leaves one as it is.  The partition epoch grows by one."""

    kind: ClassVar[str] = "partition_change"
    topic_id: UUID
    index: int
    leader: int | None = None
    """A new value, even the same broker again, raises the leader epoch."""
    isr: tuple[int, ...] | None = None
    replicas: tuple[int, ...] | None = None
    adding: tuple[int, ...] | None = None
    removing: tuple[int, ...] | None = None
    eligible: tuple[int, ...] | None = None
    offline: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class RemoveTopicRecord:
    """The topic, its partitions and its settings are gone."""

    kind: ClassVar[str] = "remove_topic"
    topic_id: UUID


@dataclass(frozen=True, slots=True)
class ConfigRecord:
    """A setting of a topic or of a broker; None takes it back."""

    kind: ClassVar[str] = "config"
    resource: str
    """`topic` or `broker`."""
    name: str
    """The topic's name, the broker's id, or "" for all brokers."""
    key: str
    value: str | None


@dataclass(frozen=True, slots=True)
class ProducerIdsRecord:
    """Every producer id below `next_producer_id` has been handed to some broker."""

    kind: ClassVar[str] = "producer_ids"
    next_producer_id: int


@dataclass(frozen=True, slots=True)
class AclRecord:
    """An access rule, or its removal; the numbers are Kafka's."""

    kind: ClassVar[str] = "acl"
    resource_type: int
    name: str
    pattern: int
    principal: str
    host: str
    operation: int
    permission: int
    removed: bool = False


@dataclass(frozen=True, slots=True)
class ScramRecord:
    """What proves a user's password right (base64), or its removal."""

    kind: ClassVar[str] = "scram"
    user: str
    mechanism: int
    salt: str = ""
    iterations: int = 0
    stored_key: str = ""
    server_key: str = ""
    removed: bool = False


@dataclass(frozen=True, slots=True)
class QuotaRecord:
    """A limit of a user, a client id, both, or an address; None takes it back."""

    kind: ClassVar[str] = "quota"
    user: str | None
    client_id: str | None
    ip: str | None
    key: str
    value: float | None


Record = (
    BrokerRecord
    | BrokerChangeRecord
    | RemoveBrokerRecord
    | TopicRecord
    | PartitionRecord
    | PartitionChangeRecord
    | RemoveTopicRecord
    | ConfigRecord
    | ProducerIdsRecord
    | AclRecord
    | ScramRecord
    | QuotaRecord
)

_BY_KIND: dict[str, type[Record]] = {each.kind: each for each in Record.__args__}


def encode(records: Iterable[Record]) -> bytes:
    """The JSON form of a batch."""
    rows = [[record.kind, _plain(record)] for record in records]
    return json.dumps(rows, separators=(",", ":")).encode()


def decode(data: bytes) -> list[Record]:
    """The records of a batch; `MetadataError` if any of them is not known."""
    try:
        rows = json.loads(data)
        for kind, values in rows:
            _check_known(kind, values)
        return [_BY_KIND[kind](**_typed(values)) for kind, values in rows]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise MetadataError(f"the metadata log is damaged: {error!r}") from error


def version_of(records: Iterable[Record]) -> int:
    """The metadata version that a broker must have to read these records."""
    return max((_version_of(record) for record in records), default=1)


def _version_of(record: Record) -> int:
    version = _SINCE.get((record.kind, ""), 1)
    for (kind, name), since in _SINCE.items():
        if since > version and kind == record.kind and name and name in _plain(record):
            version = since
    return version


def _check_known(kind: str, values: dict[str, Any]) -> None:
    known = _BY_KIND.get(kind)
    names = () if known is None else {each for each, _ in _FIELDS[known]}
    new = kind if known is None else next((each for each in values if each not in names), None)
    if new is not None:
        raise NewerMetadata(
            f"the metadata log was written by a newer tidelog: {new!r} is not known to metadata version {METADATA_VERSION}"
        )


@lru_cache(maxsize=4096)  # a batch speaks of few topics, again and again
def topic_id_text(topic_id: UUID) -> str:
    """A topic id as Kafka writes it: 22 characters of base64url."""
    return base64.urlsafe_b64encode(topic_id.bytes).rstrip(b"=").decode()


@lru_cache(maxsize=4096)
def topic_id_of(text: str) -> UUID:
    """The topic id that `topic_id_text` wrote."""
    return UUID(bytes=base64.urlsafe_b64decode(text + "=="))


def _plain(record: Record) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, default in _FIELDS[type(record)]:
        value = getattr(record, name)
        if value != default:
            values[name] = topic_id_text(value) if name == "topic_id" else value
    return values


def _typed(values: dict[str, Any]) -> dict[str, Any]:
    for name, value in values.items():
        if name == "topic_id":
            values[name] = topic_id_of(value)
        elif isinstance(value, list):
            values[name] = tuple(tuple(x) if isinstance(x, list) else x for x in value)
    return values


_FIELDS: dict[type[Record], list[tuple[str, Any]]] = {
    kind: [
        (each.name, each.default if each.default is not MISSING else object())
        for each in fields(kind)
    ]
    for kind in _BY_KIND.values()
}
