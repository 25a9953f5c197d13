"""What the controller decides about topics: pure functions over the image.

Each takes the image and what is wanted, and returns the records to append and an outcome for each item: what came of
it, or the `KafkaError` that says why not.  Nothing here appends or waits.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import field
from uuid import UUID

from tidelog.cluster.image import TOPIC, Image, Topic
from tidelog.cluster.metadata import (
    ConfigRecord,
    PartitionRecord,
    Record,
    RemoveTopicRecord,
    TopicRecord,
)
from tidelog.cluster.placement import Site, place
from tidelog.dataclass import dataclass
from tidelog.errors import (
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidTopicException,
    KafkaError,
    TopicAlreadyExists,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from tidelog.names import CLUSTER_METADATA, check_topic_name

DEFAULT = -1
MAX_PARTITIONS_PER_REQUEST = 10_000
"""As Kafka's controller: more in one request is refused (ReplicationControlManager)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to make; DEFAULT leaves a number to the broker's settings."""

    name: str
    partitions: int = DEFAULT
    replication_factor: int = DEFAULT
    assignments: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """By partition its replicas; instead of the two numbers."""
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Created:
    """A topic as it was made, or would be."""

    name: str
    topic_id: UUID
    partitions: int
    replication_factor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What creation depends on besides the image."""

    partitions: int
    """num.partitions"""
    replication_factor: int
    """default.replication.factor"""
    check_config: Callable[[Mapping[str, str]], None]
    """Raises `InvalidConfig` for settings that a topic cannot have."""
    new_id: Callable[[], UUID]
    unclean: bool = False
    """unclean.leader.election.enable"""
    shared: Mapping[str, str] = field(default_factory=dict)
    """Settings that hold for all brokers, as this one's file has them (`shared.py`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MorePartitions:
    """A topic that is to grow to `count` partitions."""

    name: str
    count: int
    assignments: Sequence[tuple[int, ...]] | None = None
    """Replicas of each new partition."""


def create(
    image: Image, wanted: Sequence[NewTopic], rules: Rules
) -> tuple[list[Record], list[Created | KafkaError]]:
    """Make topics; one that cannot be made does not hinder the others."""
    records: list[Record] = []
    outcomes: list[Created | KafkaError] = []
    folded = {_folded(name): name for name in image.topics}
    live = image.live_brokers
    budget = MAX_PARTITIONS_PER_REQUEST
    for topic in wanted:
        try:
            _check_new_name(topic.name, image, folded)
            rules.check_config(topic.configs)
            replicas = _replicas_of(image, topic, rules, image.number + len(outcomes))
            if len(replicas) > budget:
                raise InvalidPartitions(
                    f"one request may create {MAX_PARTITIONS_PER_REQUEST} partitions at most"
                )
        except KafkaError as error:
            outcomes.append(error.kept())
            continue
        budget -= len(replicas)
        folded[_folded(topic.name)] = topic.name
        topic_id = rules.new_id()
        records += _topic_records(topic, topic_id, replicas, live)
        outcomes.append(
            Created(
                name=topic.name,
                topic_id=topic_id,
                partitions=len(replicas),
                replication_factor=len(replicas[0]),
            )
        )
    return records, outcomes


def delete(
    image: Image, wanted: Sequence[str | UUID]
) -> tuple[list[Record], list[Topic | KafkaError]]:
    """Remove topics, given by name or by id."""
    records: list[Record] = []
    outcomes: list[Topic | KafkaError] = []
    for each in wanted:
        topic = image.topics.get(each) if isinstance(each, str) else image.topic_by_id(each)
        if topic is not None:
            records.append(RemoveTopicRecord(topic.id))
            outcomes.append(topic)
        else:
            outcomes.append(
                UnknownTopicOrPartition() if isinstance(each, str) else UnknownTopicId()
            )
    return records, outcomes


def grow(
    image: Image, wanted: Sequence[MorePartitions]
) -> tuple[list[Record], list[KafkaError | None]]:
    """Add partitions to topics."""
    records: list[Record] = []
    outcomes: list[KafkaError | None] = []
    for each in wanted:
        try:
            records += _growth(image, each)
            outcomes.append(None)
        except KafkaError as error:
            outcomes.append(error.kept())
    return records, outcomes


def may_be_unclean(image: Image, topic: str, rules: Rules) -> bool:
    """Whether the topic would rather lose records than have no leader."""
    own = image.topic_config(topic).get("unclean.leader.election.enable")
    return rules.unclean if own is None else own.lower() == "true"


def _check_new_name(name: str, image: Image, folded: Mapping[str, str]) -> None:
    check_topic_name(name)
    if name == CLUSTER_METADATA:
        raise InvalidTopicException(f"{name!r} is the name of Kafka's own metadata log")
    if name in image.topics:
        raise TopicAlreadyExists(f"topic {name!r} already exists")
    # Kafka's metrics fold '.' into '_', so two such names would be counted as one.
    other = folded.get(_folded(name))
    if other is not None:
        raise InvalidTopicException(
            f"topic {name!r} collides with the existing topic {other!r}: '.' and '_' count as the same"
        )


def _folded(name: str) -> str:
    return name.replace(".", "_")


def _replicas_of(image: Image, topic: NewTopic, rules: Rules, turn: int) -> list[tuple[int, ...]]:
    if topic.assignments:
        if topic.partitions != DEFAULT or topic.replication_factor != DEFAULT:
            raise InvalidRequest(
                "give either an assignment of replicas, or the number of partitions and the replication factor"
            )
        return _checked_assignment(image, topic.assignments)
    if topic.partitions != DEFAULT and topic.partitions < 1:
        raise InvalidPartitions(
            f"the number of partitions is {topic.partitions}; it must be at least 1, or -1 for the default"
        )
    if topic.replication_factor != DEFAULT and topic.replication_factor < 1:
        raise InvalidReplicationFactor(
            f"the replication factor is {topic.replication_factor}; it must be at least 1, or -1 for the default"
        )
    count = rules.partitions if topic.partitions == DEFAULT else topic.partitions
    if count > MAX_PARTITIONS_PER_REQUEST:
        raise InvalidPartitions(
            f"one request may create {MAX_PARTITIONS_PER_REQUEST} partitions at most, not {count}"
        )
    factor = topic.replication_factor
    factor = rules.replication_factor if factor == DEFAULT else factor
    _check_factor(image, factor)
    return place(count, factor, _sites(image), start=turn)


def _check_factor(image: Image, factor: int) -> None:
    if factor > len(image.live_brokers):
        raise InvalidReplicationFactor(
            f"the replication factor is {factor}, but only {len(image.live_brokers)} broker(s) are running"
        )


def _sites(image: Image) -> list[Site]:
    return [Site(each.id, each.rack) for each in image.brokers.values() if each.is_live]


def _checked_assignment(
    image: Image, assignments: Mapping[int, tuple[int, ...]]
) -> list[tuple[int, ...]]:
    if sorted(assignments) != list(range(len(assignments))):
        raise InvalidReplicaAssignment("partitions must be numbered 0, 1, 2 … without a gap")
    replicas = [assignments[index] for index in range(len(assignments))]
    _check_replicas(image, replicas, len(replicas[0]))
    return replicas


def _check_replicas(image: Image, assignments: Sequence[tuple[int, ...]], factor: int) -> None:
    for replicas in assignments:
        if not replicas:
            raise InvalidReplicaAssignment("a partition needs at least one replica")
        if len(set(replicas)) != len(replicas):
            raise InvalidReplicaAssignment(f"a broker appears twice in {list(replicas)}")
        if len(replicas) != factor:
            raise InvalidReplicaAssignment(
                f"{list(replicas)} has {len(replicas)} replicas where {factor} are expected"
            )
        for broker in replicas:
            if broker not in image.brokers:
                raise InvalidReplicaAssignment(f"there is no broker {broker}")
        if not any(image.brokers[broker].is_live for broker in replicas):
            raise InvalidReplicaAssignment(f"none of the brokers {list(replicas)} is running")


def _topic_records(
    topic: NewTopic, topic_id: UUID, replicas: Sequence[tuple[int, ...]], live: Set[int]
) -> list[Record]:
    records: list[Record] = [TopicRecord(topic.name, topic_id)]
    records += _partition_records(topic_id, 0, replicas, live)
    records += (ConfigRecord(TOPIC, topic.name, key, value) for key, value in topic.configs.items())
    return records


def _partition_records(
    topic_id: UUID, first: int, assignments: Sequence[tuple[int, ...]], live: Set[int]
) -> list[Record]:
    records: list[Record] = []
    for offset, replicas in enumerate(assignments):
        isr = tuple(each for each in replicas if each in live)
        records.append(PartitionRecord(topic_id, first + offset, replicas, isr, isr[0]))
    return records


def _growth(image: Image, wanted: MorePartitions) -> list[Record]:
    topic = image.topics.get(wanted.name)
    if topic is None:
        raise UnknownTopicOrPartition
    now = len(topic.partitions)
    more = wanted.count - now
    if more <= 0:
        raise InvalidPartitions(
            f"topic {topic.name!r} has {now} partition(s) already; {wanted.count} would not be more"
        )
    if more > MAX_PARTITIONS_PER_REQUEST:
        raise InvalidPartitions(
            f"one request may create {MAX_PARTITIONS_PER_REQUEST} partitions at most"
        )
    factor = len(topic.partitions[0].replicas)
    if wanted.assignments is None:
        _check_factor(image, factor)
        replicas = place(more, factor, _sites(image), first=now, start=topic.partitions[0].leader)
    else:
        replicas = list(wanted.assignments)
        if len(replicas) != more:
            raise InvalidReplicaAssignment(
                f"{len(replicas)} assignment(s) were given for {more} new partition(s)"
            )
        _check_replicas(image, replicas, factor)
    return _partition_records(topic.id, now, replicas, image.live_brokers)
