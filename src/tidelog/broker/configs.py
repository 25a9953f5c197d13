"""Settings that are read and changed while the broker runs: what DescribeConfigs tells and AlterConfigs decides.

A value has a source.  From the strongest to the weakest: the topic's own, this broker's dynamic one, the dynamic one of
all brokers, server.properties (with -X), and the default.  Synonyms are all the sources that have a value for a setting, in
that order; the first is in force.  What all brokers must agree on (`cluster/shared.py`) is none of a single broker's: its dynamic one is
refused, and the controller's server.properties counts for all.

Decisions are pure: they take the image and return records; the controller appends them.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from tidelog.broker.context import Context, Services
from tidelog.broker.settings import BrokerSettings, declarations
from tidelog.cluster.image import BROKER, CLUSTER, MIN_IN_SYNC, TOPIC, Image, Resource
from tidelog.cluster.metadata import ConfigRecord, Record
from tidelog.cluster.shared import SHARED
from tidelog.dataclass import dataclass
from tidelog.errors import (
    InvalidConfig,
    InvalidRequest,
    KafkaError,
    SettingsError,
    UnknownTopicOrPartition,
)
from tidelog.names import check_topic_name
from tidelog.security import acls
from tidelog.security.acls import Operation as AclOperation
from tidelog.settings import Declared, text_of, topic_settings
from tidelog.storage.config import LogConfig

log = logging.getLogger(__name__)


class ResourceType(IntEnum):
    """As Kafka numbers them (ConfigResource.Type)."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Source(IntEnum):
    """As Kafka numbers them (DescribeConfigsResponse.ConfigSource)."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


class Operation(IntEnum):
    """Of IncrementalAlterConfigs (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Synonym(NamedTuple):
    name: str
    value: str
    source: Source


@dataclass(frozen=True, slots=True)
class Described:
    """One setting as DescribeConfigs tells it."""

    name: str
    declared: Declared
    synonyms: tuple[Synonym, ...]
    """Strongest first; the last is the default unless the setting is only dynamic."""
    read_only: bool

    @property
    def value(self) -> str | None:
        return None if self.is_sensitive else self.synonyms[0].value

    @property
    def source(self) -> Source:
        return self.synonyms[0].source

    @property
    def is_sensitive(self) -> bool:
        return self.declared.spec.secret

    @property
    def type_code(self) -> int:
        """ConfigType: 1 boolean, 2 string, 5 long, 6 double, 7 list, 9 password."""
        return 9 if self.is_sensitive else _TYPE_CODES.get(self.declared.kind, 7)


class Change(NamedTuple):
    key: str
    operation: Operation
    value: str | None


@dataclass(frozen=True, slots=True)
class Alteration:
    """What one resource is to become."""

    resource_type: int
    name: str
    changes: Sequence[Change]
    replace: bool = False
    """Whether settings that are not named go back to their defaults (AlterConfigs does so)."""


_TYPE_CODES = {bool: 1, str: 2, int: 5, float: 6}


def describe(
    image: Image, settings: BrokerSettings, broker_id: int, resource_type: int, name: str
) -> list[Described]:
    """Every setting of a resource; raises what keeps it from being described."""
    if resource_type == ResourceType.TOPIC:
        check_topic_name(name)
        if name not in image.topics:
            raise UnknownTopicOrPartition
        return describe_topic(image, settings, broker_id, image.topic_config(name))
    if resource_type == ResourceType.BROKER:
        if name == "":
            return _describe_all_brokers(image)
        check_broker(name, broker_id)
        return _describe_broker(image, settings, broker_id)
    raise InvalidRequest(f"resources of type {resource_type} have no settings here")


def describe_topic(
    image: Image, settings: BrokerSettings, broker_id: int, own: Mapping[str, str]
) -> list[Described]:
    """Every setting of a topic that has the settings `own`."""
    return [
        Described(
            name,
            each,
            (
                *((Synonym(name, own[name], Source.TOPIC),) if name in own else ()),
                *_broker_synonyms(image, settings, broker_id, each),
            ),
            read_only=False,
        )
        for name, each in topic_settings(LogConfig).items()
    ]


async def alter_allowed(
    wanted: Sequence[Alteration], ctx: Context, *, validate_only: bool
) -> list[KafkaError | None]:
    """Change through the controller what the client may change; None for each resource that was changed."""
    outcomes: list[KafkaError | None] = []
    for each in wanted:
        try:
            check_allowed(ctx, AclOperation.ALTER_CONFIGS, each.resource_type, each.name)
            outcomes.append(None)
        except KafkaError as error:
            outcomes.append(error.kept())
    allowed = [each for each, error in zip(wanted, outcomes, strict=True) if error is None]
    altered = iter(await _alter(allowed, ctx.broker, validate_only=validate_only))
    return [next(altered) if error is None else error for error in outcomes]


def check_allowed(ctx: Context, operation: AclOperation, resource_type: int, name: str) -> None:
    """Raise unless the client may do this to the settings of a resource; all but topics and groups are the cluster's."""
    if resource_type == ResourceType.TOPIC:
        ctx.check(operation, acls.Resource.topic(name))
    elif resource_type == ResourceType.GROUP:
        ctx.check(operation, acls.Resource.group(name))
    else:
        ctx.check(operation, acls.CLUSTER)


async def _alter(
    wanted: Sequence[Alteration], broker: Services, *, validate_only: bool
) -> list[KafkaError | None]:

    def decision(image: Image) -> tuple[list[Record], list[KafkaError | None]]:
        records, outcomes = decide(image, broker.settings, broker.broker_id, wanted)
        return ([] if validate_only else records), outcomes

    return await broker.controller.submit(decision)


def decide(
    image: Image, settings: BrokerSettings, broker_id: int, wanted: Sequence[Alteration]
) -> tuple[list[Record], list[KafkaError | None]]:
    """Change settings; a resource that cannot be changed does not hinder the others."""
    records: list[Record] = []
    outcomes: list[KafkaError | None] = []
    seen: dict[tuple[int, str], int] = {}
    for each in wanted:
        key = (each.resource_type, each.name)
        seen[key] = seen.get(key, 0) + 1
    for each in wanted:
        try:
            if seen[each.resource_type, each.name] > 1:
                raise InvalidRequest(f"the resource {each.name!r} appears twice in the request")
            records += _alter_one(image, settings, broker_id, each)
            outcomes.append(None)
        except KafkaError as error:
            outcomes.append(error.kept())
    return records, outcomes


def check_topic_settings(settings: BrokerSettings, values: Mapping[str, str]) -> LogConfig:
    """The log settings of a topic with `values`; raises `InvalidConfig`."""
    try:
        return settings.log.over(values)
    except SettingsError as error:
        raise InvalidConfig(str(error)) from None


def in_force(settings: BrokerSettings, image: Image, broker_id: int) -> BrokerSettings:
    """The broker's settings with the dynamic ones of the image over them."""
    own = image.config((BROKER, str(broker_id)))
    return settings.changed(
        image.config((CLUSTER, "")),
        image.config((BROKER, "")),
        {name: value for name, value in own.items() if name not in SHARED},
    )


def warn_of_own(settings: BrokerSettings, image: Image) -> None:
    """Tell of a value in this broker's file that is not in force, because the cluster has another."""
    own = settings.log.min_insync_replicas
    shared = image.config((CLUSTER, "")).get(MIN_IN_SYNC, str(own))
    if shared != str(own):
        log.warning(
            "min.insync.replicas=%d of this broker's settings is not in force: it is the same for all brokers, and the "
            "controller's is %s; give all brokers the same, or set it with `tidelog config set`",
            own,
            shared,
        )


def _describe_all_brokers(image: Image) -> list[Described]:
    known = declarations()
    return [
        Described(
            name,
            known[name][1],
            (Synonym(name, value, Source.DYNAMIC_DEFAULT_BROKER),),
            read_only=False,
        )
        for name, value in image.config((BROKER, "")).items()
        if name in known
    ]


def _describe_broker(image: Image, settings: BrokerSettings, broker_id: int) -> list[Described]:
    return [
        Described(
            name,
            each,
            _broker_synonyms(image, settings, broker_id, each),
            read_only=not each.spec.dynamic,
        )
        for name, (_, each) in declarations().items()
    ]


def _broker_synonyms(
    image: Image, settings: BrokerSettings, broker_id: int, each: Declared
) -> tuple[Synonym, ...]:
    alone = (image.config((BROKER, str(broker_id))), Source.DYNAMIC_BROKER)
    everybodys = (image.config((BROKER, "")), Source.DYNAMIC_DEFAULT_BROKER)
    file = (settings.properties, Source.STATIC_BROKER)
    tables: tuple[tuple[Mapping[str, str], Source], ...] = (alone, everybodys, file)
    if each.spec.name in SHARED:
        value = image.config((CLUSTER, "")).get(each.spec.name)
        file_value = settings.properties.get(each.spec.name, text_of(each.default))
        tables = (everybodys, file)
        if value not in (None, file_value):  # the controller's, not this one's, is in force
            controllers = (image.config((CLUSTER, "")), Source.DYNAMIC_DEFAULT_BROKER)
            tables = (everybodys, controllers, file)
    factors = {each.spec.name: 1, **each.spec.also}
    found = []
    for table, source in tables:
        for name, factor in factors.items():
            if name in table:
                # A coarser synonym (log.retention.hours) is told in the unit of the setting itself.
                value = (
                    table[name] if factor == 1 else text_of(each.parse(name, table[name], factor))
                )
                found.append(Synonym(each.spec.name if factor != 1 else name, value, source))
                break
    return (*found, Synonym(each.spec.name, text_of(each.default), Source.DEFAULT))


def _alter_one(
    image: Image, settings: BrokerSettings, broker_id: int, wanted: Alteration
) -> Iterable[Record]:
    resource = _checked_resource(image, wanted)
    kinds = _kinds_of(resource[0])
    names = [change.key for change in wanted.changes]
    if len(set(names)) != len(names):
        raise InvalidRequest("a setting appears twice in the request")
    before = image.config(resource)
    after = {} if wanted.replace else dict(before)
    for change in wanted.changes:
        if change.key not in kinds:
            raise InvalidConfig(f"{change.key} is not a {resource[0]} setting")
        _apply(after, change, kinds[change.key])
    if resource[0] == BROKER and resource[1] and SHARED & after.keys() - before.keys():
        raise InvalidConfig(
            f"{', '.join(sorted(SHARED & after.keys()))} holds for all brokers alike: "
            "set it for all of them, or for a topic"
        )
    if resource[0] == TOPIC:
        check_topic_settings(settings, after)
    else:
        _check_broker_settings(settings, after, before)
    return [
        ConfigRecord(*resource, key, after.get(key))
        for key in sorted(before.keys() | after.keys())
        if before.get(key) != after.get(key)
    ]


def _checked_resource(image: Image, wanted: Alteration) -> Resource:
    if wanted.resource_type == ResourceType.TOPIC:
        check_topic_name(wanted.name)
        if wanted.name not in image.topics:
            raise UnknownTopicOrPartition
        return (TOPIC, wanted.name)
    if wanted.resource_type == ResourceType.BROKER:
        if wanted.name and not (wanted.name.isdecimal() and int(wanted.name) in image.brokers):
            raise InvalidRequest(f"there is no broker {wanted.name!r}")
        return (BROKER, wanted.name)
    raise InvalidRequest(f"settings of resources of type {wanted.resource_type} cannot be changed")


def check_broker(name: str, broker_id: int) -> None:
    """Raise unless this is the broker that is meant."""
    if name != str(broker_id):
        raise InvalidRequest(f"this is broker {broker_id}, not {name!r}: ask that one")


def _kinds_of(kind: str) -> Mapping[str, Declared]:
    if kind == TOPIC:
        return topic_settings(LogConfig)
    return {
        name: each
        for _, each in declarations().values()
        for name in (each.spec.name, *each.spec.also)
    }


def _apply(values: dict[str, str], change: Change, declared: Declared) -> None:
    if change.operation == Operation.DELETE:
        values.pop(change.key, None)
        return
    if change.value is None:
        raise InvalidRequest(f"{change.key} needs a value")
    if change.operation == Operation.SET:
        values[change.key] = change.value
        return
    if declared.kind != tuple[str, ...]:
        raise InvalidConfig(
            f"{change.key} is not a list, so nothing can be added to or taken from it"
        )
    # What is not set yet counts from its default (Kafka's ConfigurationControlManager).
    now = values.get(change.key, text_of(declared.default))
    items = [item.strip() for item in now.split(",") if item.strip()]
    given = [item.strip() for item in change.value.split(",") if item.strip()]
    if change.operation == Operation.APPEND:
        items += [item for item in given if item not in items]
    else:
        items = [item for item in items if item not in given]
    values[change.key] = ",".join(items)


def _check_broker_settings(
    settings: BrokerSettings, after: Mapping[str, str], before: Mapping[str, str]
) -> None:
    fixed = [
        each.spec.name
        for _, each in declarations().values()
        if not each.spec.dynamic
        and any(after.get(name) != before.get(name) for name in (each.spec.name, *each.spec.also))
    ]
    if fixed:
        raise InvalidRequest(f"cannot be changed while the broker runs: {', '.join(fixed)}")
    try:
        settings.changed(after)
    except SettingsError as error:
        raise InvalidConfig(str(error)) from None
