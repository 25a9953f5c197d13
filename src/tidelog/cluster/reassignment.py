"""Moving replicas to other brokers (KIP-455): pure functions over the image.

While a partition is moved its replicas are the old and the new ones together.  As soon as all that are added are in sync,
those that are to be removed go, in the same change.  The data is carried by ordinary replication.
"""

from collections.abc import Sequence, Set
from dataclasses import replace
from uuid import UUID

from tidelog.cluster.elections import best_leader
from tidelog.cluster.image import NO_LEADER, Image, PartitionState
from tidelog.cluster.metadata import PartitionChangeRecord
from tidelog.dataclass import dataclass
from tidelog.errors import (
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    KafkaError,
    NoReassignmentInProgress,
    UnknownTopicOrPartition,
)


@dataclass(frozen=True, slots=True)
class Move:
    """A partition that is to be held by `replicas`; None calls its reassignment off."""

    topic: str
    index: int
    replicas: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Moving:
    """A reassignment that is under way."""

    topic: str
    index: int
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


def reassign(
    image: Image, moves: Sequence[Move], *, allow_factor_change: bool = True
) -> tuple[list[PartitionChangeRecord], list[KafkaError | None]]:
    """Begin or call off reassignments; None for each that was begun or called off."""
    records: list[PartitionChangeRecord] = []
    outcomes: list[KafkaError | None] = []
    live = image.live_brokers
    for move in moves:
        try:
            topic_id, state = _partition(image, move)
            if move.replicas is None:
                records.append(_called_off(topic_id, move.index, state, live))
            else:
                _check(image, state, move.replicas, allow_factor_change)
                record = _begun(topic_id, move.index, state, move.replicas, live)
                records += [] if record is None else [record]
            outcomes.append(None)
        except KafkaError as error:
            outcomes.append(error.kept())
    return records, outcomes


def under_way(image: Image) -> list[Moving]:
    """All reassignments that are not over."""
    return [
        Moving(topic.name, index, state.replicas, state.adding, state.removing)
        for topic in image.topics.values()
        for index, state in enumerate(topic.partitions)
        if state.adding or state.removing
    ]


def completed(
    state: PartitionState, record: PartitionChangeRecord, live: Set[int]
) -> PartitionChangeRecord:
    """`record` that leads to `state`; with what ends the reassignment, if the replicas it adds are all in sync."""
    if not (state.adding or state.removing) or not set(state.adding) <= set(state.isr):
        return record
    replicas = state.target
    isr = tuple(each for each in replicas if each in state.isr)
    if not isr:
        return record
    leader = state.leader
    if leader not in isr:
        leader = best_leader(replace(state, replicas=replicas, isr=isr), live)
    return replace(
        record,
        leader=record.leader if leader == state.leader else leader,
        isr=isr,
        replicas=replicas,
        adding=(),
        removing=(),
    )


def _partition(image: Image, move: Move) -> tuple[UUID, PartitionState]:
    topic = image.topics.get(move.topic)
    if topic is None or not 0 <= move.index < len(topic.partitions):
        raise UnknownTopicOrPartition(f"there is no partition {move.topic}-{move.index}")
    return topic.id, topic.partitions[move.index]


def _check(
    image: Image, state: PartitionState, wanted: tuple[int, ...], allow_factor_change: bool
) -> None:
    if not wanted:
        raise InvalidReplicaAssignment("a partition needs at least one replica")
    if len(set(wanted)) != len(wanted):
        raise InvalidReplicaAssignment(f"a broker appears twice in {list(wanted)}")
    for broker in wanted:
        if broker not in image.brokers:
            raise InvalidReplicaAssignment(f"there is no broker {broker}")
    before = len(state.replicas) - len(state.adding)
    if not allow_factor_change and len(wanted) != before:
        raise InvalidReplicationFactor(
            f"the partition has {before} replica(s), {list(wanted)} would change that"
        )


def _begun(
    topic_id: UUID, index: int, state: PartitionState, wanted: tuple[int, ...], live: Set[int]
) -> PartitionChangeRecord | None:
    """From the replicas before any reassignment to those wanted; one that is under way is replaced."""
    before = tuple(each for each in state.replicas if each not in state.adding)
    removing = tuple(each for each in before if each not in wanted)
    replicas = wanted + removing
    after = replace(
        state,
        replicas=replicas,
        adding=tuple(each for each in wanted if each not in before),
        removing=removing,
        isr=tuple(each for each in replicas if each in state.isr),
    )
    if not after.isr:
        raise InvalidReplicaAssignment("none of the replicas that would remain is in sync")
    if after == state:
        return None
    return completed(after, _change(topic_id, index, state, after, live), live)


def _called_off(
    topic_id: UUID, index: int, state: PartitionState, live: Set[int]
) -> PartitionChangeRecord:
    if not (state.adding or state.removing):
        raise NoReassignmentInProgress
    replicas = tuple(each for each in state.replicas if each not in state.adding)
    isr = tuple(each for each in replicas if each in state.isr)
    if not isr:
        raise InvalidReplicaAssignment("none of the replicas before the reassignment is in sync")
    after = replace(state, replicas=replicas, isr=isr, adding=(), removing=())
    return _change(topic_id, index, state, after, live)


def _change(
    topic_id: UUID, index: int, state: PartitionState, after: PartitionState, live: Set[int]
) -> PartitionChangeRecord:
    leader = state.leader
    if leader != NO_LEADER and leader not in after.isr:
        leader = best_leader(after, live)
    return PartitionChangeRecord(
        topic_id,
        index,
        leader=None if leader == state.leader else leader,
        isr=None if after.isr == state.isr else after.isr,
        replicas=None if after.replicas == state.replicas else after.replicas,
        adding=None if after.adding == state.adding else after.adding,
        removing=None if after.removing == state.removing else after.removing,
    )
