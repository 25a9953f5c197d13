"""The cluster as a broker knows it: an immutable picture, and what changed between two of them.

    image, delta = image.apply(records, number)

A batch of records costs what it changes plus one shallow copy of each table it touches, so ten thousand partitions
can be loaded in one go and a single change stays cheap.  Whoever holds an image may keep it: it never changes.
"""

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from types import MappingProxyType
from uuid import UUID

from tidelog.cluster.access import Access
from tidelog.cluster.metadata import (
    AclRecord,
    BrokerChangeRecord,
    BrokerRecord,
    ConfigRecord,
    MetadataError,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    QuotaRecord,
    Record,
    RemoveBrokerRecord,
    RemoveTopicRecord,
    ScramRecord,
    TopicRecord,
)
from tidelog.dataclass import dataclass

NO_LEADER = -1
TOPIC = "topic"
BROKER = "broker"
CLUSTER = "cluster"
VERSION = "version"

Resource = tuple[str, str]
"""What settings belong to: (`topic`, name), (`broker`, id), (`broker`, "") for all brokers, or (`cluster`, "") for what the
controller takes from its own settings file, for all (`shared.py`); (`version`, id) is what a broker can read (`versions.py`)."""

MIN_IN_SYNC = "min.insync.replicas"

_NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class PartitionState:
    """Who holds a partition, and who leads it."""

    leader: int
    """A broker id, or NO_LEADER."""
    leader_epoch: int
    """Invariant: grows with every election of this partition."""
    partition_epoch: int
    """Invariant: grows with every change of this state."""
    replicas: tuple[int, ...]
    """The first is the preferred leader.  While they are reassigned: the old ones and the new ones."""
    isr: tuple[int, ...]
    """Invariant: a subset of `replicas`; not empty once it was."""
    adding: tuple[int, ...] = ()
    """Replicas that a reassignment brings; it is over when they are in sync."""
    removing: tuple[int, ...] = ()
    """Replicas that a reassignment takes away when it is over."""
    eligible: tuple[int, ...] = ()
    """Replicas outside of the ISR that have every committed record (`eligible.py`)."""
    offline: tuple[int, ...] = ()
    """Replicas whose log directory has failed (`offline.py`).  Invariant: they do not lead, and are in no ISR that has
    another member."""

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas when the reassignment is over."""
        if not self.removing:
            return self.replicas
        return tuple(each for each in self.replicas if each not in self.removing)


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    id: UUID
    partitions: tuple[PartitionState, ...]


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker that has registered."""

    id: int
    epoch: int
    """Number of the log entry that registered it; a later registration has a higher one."""
    endpoints: tuple[tuple[str, str, int], ...]
    rack: str | None
    incarnation: str = ""
    fenced: bool = False
    """Not to be used: it has gone, or has not caught up since it came."""
    stopping: bool = False
    """It is about to go, and has asked for others to take over what it leads."""

    @property
    def is_live(self) -> bool:
        """Whether it may lead partitions and get new ones."""
        return not (self.fenced or self.stopping)


@dataclass(slots=True)
class Delta:
    """What a batch changed."""

    created: list[Topic] = field(default_factory=list)
    deleted: list[Topic] = field(default_factory=list)
    partitions: dict[str, set[int]] = field(default_factory=dict)
    """By topic that existed before and still does: partitions added or changed."""
    configs: set[Resource] = field(default_factory=set)
    brokers: set[int] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Image:
    """See the module's docstring."""

    number: int = 0
    """Of the last log entry whose effect is in here."""
    brokers: Mapping[int, Broker] = field(default_factory=dict)
    topics: Mapping[str, Topic] = field(default_factory=dict)
    topic_names: Mapping[UUID, str] = field(default_factory=dict)
    configs: Mapping[Resource, Mapping[str, str]] = field(default_factory=dict)
    next_producer_id: int = 0
    access: Access = field(default_factory=Access)
    """Access rules, logins and quotas."""

    def apply(self, records: Iterable[Record], number: int) -> "tuple[Image, Delta]":
        """The picture after one log entry (or a snapshot), and what it changed."""
        draft = _Draft(self, number)
        for record in records:
            draft.apply(record)
        return draft.finish()

    def topic_by_id(self, topic_id: UUID) -> Topic | None:
        name = self.topic_names.get(topic_id)
        return None if name is None else self.topics[name]

    @property
    def live_brokers(self) -> frozenset[int]:
        """Those that may lead, and may be in an ISR."""
        return frozenset(each.id for each in self.brokers.values() if each.is_live)

    def version_of(self, broker: Broker) -> int:
        """The newest metadata version that a broker can read; 1 if it did not tell."""
        for value in self.config((VERSION, str(broker.id))).values():
            version, _, incarnation = value.partition(" ")
            if incarnation == broker.incarnation:
                return int(version)
        return 1

    @property
    def metadata_version(self) -> int:
        """What all registered brokers can read."""
        return min(map(self.version_of, self.brokers.values()), default=1)

    def maybe_partition(self, topic_id: UUID, index: int) -> PartitionState | None:
        topic = self.topic_by_id(topic_id)
        if topic is None or not 0 <= index < len(topic.partitions):
            return None
        return topic.partitions[index]

    def config(self, resource: Resource) -> Mapping[str, str]:
        """The settings given to a resource; empty when there are none."""
        return self.configs.get(resource, _NOTHING)

    def topic_config(self, name: str) -> Mapping[str, str]:
        return self.config((TOPIC, name))

    def min_in_sync(self, topic: str) -> int:
        """min.insync.replicas of a topic, the same for the controller and for every leader (`shared.py`)."""
        for resource in ((TOPIC, topic), (BROKER, ""), (CLUSTER, "")):
            value = self.config(resource).get(MIN_IN_SYNC)
            if value is not None:
                return int(value)
        return 1

    def needed_in_sync(self, topic_id: UUID, state: PartitionState) -> int:
        """How many replicas of a partition must be in sync before anything is committed."""
        return min(self.min_in_sync(self.topic_names[topic_id]), len(state.replicas))

    def partition_count(self, topic: str) -> int:
        """0 for a topic that does not exist."""
        found = self.topics.get(topic)
        return len(found.partitions) if found else 0

    def records(self) -> list[Record]:
        """Records that make this picture out of nothing: what a snapshot holds."""
        records: list[Record] = [
            BrokerRecord(
                each.id,
                each.endpoints,
                each.rack,
                each.incarnation,
                each.fenced,
                each.stopping,
                each.epoch,
            )
            for each in self.brokers.values()
        ]
        for topic in self.topics.values():
            records.append(TopicRecord(topic.name, topic.id))
            records += (
                _partition_record(topic.id, index, state)
                for index, state in enumerate(topic.partitions)
            )
        for (resource, name), values in self.configs.items():
            records += (ConfigRecord(resource, name, key, value) for key, value in values.items())
        records.append(ProducerIdsRecord(self.next_producer_id))
        return records + self.access.records()


class _Draft:
    """An image in the making; tables are copied when they are first written to."""

    def __init__(self, image: Image, number: int) -> None:
        self._before = image
        self._number = number
        self._brokers = dict(image.brokers)
        self._topics = dict(image.topics)
        self._names = dict(image.topic_names)
        self._configs = dict(image.configs)
        self._next_producer_id = image.next_producer_id
        self._access = image.access
        self._partitions: dict[UUID, list[PartitionState]] = {}
        """Partitions of the topics that this batch touches."""
        self._delta = Delta()
        self._created: dict[UUID, None] = {}

    def apply(self, record: Record) -> None:
        match record:
            case PartitionRecord():
                self._add_partition(record)
            case PartitionChangeRecord():
                self._change_partition(record)
            case TopicRecord():
                self._add_topic(record)
            case RemoveTopicRecord():
                self._remove_topic(record)
            case ConfigRecord():
                self._set_config(record)
            case ProducerIdsRecord():
                self._next_producer_id = max(self._next_producer_id, record.next_producer_id)
            case BrokerRecord():
                self._brokers[record.broker_id] = Broker(
                    record.broker_id,
                    record.epoch or self._number,
                    record.endpoints,
                    record.rack,
                    record.incarnation,
                    record.fenced,
                    record.stopping,
                )
                self._delta.brokers.add(record.broker_id)
            case BrokerChangeRecord():
                self._change_broker(record)
            case AclRecord() | ScramRecord() | QuotaRecord():
                self._access = self._access.apply(record)
            case RemoveBrokerRecord():
                self._brokers.pop(record.broker_id, None)
                self._delta.brokers.add(record.broker_id)

    def finish(self) -> tuple[Image, Delta]:
        for topic_id, states in self._partitions.items():
            name = self._names[topic_id]
            self._topics[name] = replace(self._topics[name], partitions=tuple(states))
        self._delta.created = [self._topics[self._names[each]] for each in self._created]
        image = Image(
            self._number,
            self._brokers,
            self._topics,
            self._names,
            self._configs,
            self._next_producer_id,
            self._access,
        )
        return image, self._delta

    def _change_broker(self, record: BrokerChangeRecord) -> None:
        old = self._brokers.get(record.broker_id)
        if old is None:
            raise MetadataError(f"the metadata log speaks of an unknown broker {record.broker_id}")
        self._brokers[old.id] = replace(
            old,
            fenced=old.fenced if record.fenced is None else record.fenced,
            stopping=old.stopping if record.stopping is None else record.stopping,
        )
        self._delta.brokers.add(old.id)

    def _add_topic(self, record: TopicRecord) -> None:
        if record.name in self._topics:
            raise MetadataError(f"topic {record.name} is created twice in the metadata log")
        self._topics[record.name] = Topic(record.name, record.topic_id, ())
        self._names[record.topic_id] = record.name
        self._created[record.topic_id] = None

    def _remove_topic(self, record: RemoveTopicRecord) -> None:
        name = self._name(record.topic_id)
        states = self._partitions.pop(record.topic_id, None)
        topic = self._topics.pop(name)
        del self._names[record.topic_id]
        self._configs.pop((TOPIC, name), None)
        self._delta.partitions.pop(name, None)
        if record.topic_id in self._created:
            del self._created[record.topic_id]
        else:
            gone = topic if states is None else replace(topic, partitions=tuple(states))
            self._delta.deleted.append(gone)

    def _add_partition(self, record: PartitionRecord) -> None:
        states = self._states(record.topic_id)
        if record.index != len(states):
            raise MetadataError(
                f"partition {record.index} of {self._name(record.topic_id)} is out of order in the metadata log"
            )
        states.append(
            PartitionState(
                record.leader,
                record.leader_epoch,
                record.partition_epoch,
                record.replicas,
                record.isr,
                record.adding,
                record.removing,
                record.eligible,
                record.offline,
            )
        )
        self._touch(record.topic_id, record.index)

    def _change_partition(self, record: PartitionChangeRecord) -> None:
        states = self._states(record.topic_id)
        states[record.index] = changed(states[record.index], record)
        self._touch(record.topic_id, record.index)

    def _set_config(self, record: ConfigRecord) -> None:
        resource = (record.resource, record.name)
        values = dict(self._configs.get(resource, _NOTHING))
        if record.value is None:
            values.pop(record.key, None)
        else:
            values[record.key] = record.value
        if values:
            self._configs[resource] = values
        else:
            self._configs.pop(resource, None)
        self._delta.configs.add(resource)

    def _states(self, topic_id: UUID) -> list[PartitionState]:
        if topic_id not in self._partitions:
            self._partitions[topic_id] = list(self._topics[self._name(topic_id)].partitions)
        return self._partitions[topic_id]

    def _touch(self, topic_id: UUID, index: int) -> None:
        if topic_id not in self._created:
            self._delta.partitions.setdefault(self._names[topic_id], set()).add(index)

    def _name(self, topic_id: UUID) -> str:
        name = self._names.get(topic_id)
        if name is None:
            raise MetadataError(f"the metadata log speaks of an unknown topic id {topic_id}")
        return name


def changed(state: PartitionState, record: PartitionChangeRecord) -> PartitionState:
    """A partition's state after `record`."""
    replicas = state.replicas if record.replicas is None else record.replicas
    offline = state.offline if record.offline is None else record.offline
    return PartitionState(
        leader=state.leader if record.leader is None else record.leader,
        leader_epoch=state.leader_epoch + (record.leader is not None),
        partition_epoch=state.partition_epoch + 1,
        replicas=replicas,
        isr=state.isr if record.isr is None else record.isr,
        adding=state.adding if record.adding is None else record.adding,
        removing=state.removing if record.removing is None else record.removing,
        eligible=state.eligible if record.eligible is None else record.eligible,
        # A replica that is moved away and comes again begins anew, on another directory.
        offline=tuple(each for each in offline if each in replicas) if offline else (),
    )


def _partition_record(topic_id: UUID, index: int, state: PartitionState) -> PartitionRecord:
    return PartitionRecord(
        topic_id,
        index,
        state.replicas,
        state.isr,
        state.leader,
        state.leader_epoch,
        state.partition_epoch,
        state.adding,
        state.removing,
        state.eligible,
        state.offline,
    )
