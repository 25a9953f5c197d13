"""Changes of in-sync replicas, as leaders ask the controller for them (KIP-497): pure functions over the image."""

from collections.abc import Callable, Sequence, Set
from dataclasses import replace
from uuid import UUID

from tidelog.cluster.elections import best_leader
from tidelog.cluster.image import NO_LEADER, Image, PartitionState, changed
from tidelog.cluster.metadata import PartitionChangeRecord, version_of
from tidelog.cluster.reassignment import completed
from tidelog.dataclass import dataclass
from tidelog.errors import (
    FencedLeaderEpoch,
    IneligibleReplica,
    InvalidRequest,
    InvalidUpdateVersion,
    KafkaError,
    NotController,
    StaleBrokerEpoch,
    UnknownTopicId,
    UnknownTopicOrPartition,
)


@dataclass(frozen=True, slots=True)
class IsrChange:
    """What a leader wants its in-sync replicas to be; or, without the one who asks, that it leaves them."""

    topic_id: UUID
    index: int
    leader_epoch: int
    partition_epoch: int
    """Of the state that the leader knows; the change is refused if that is no longer the newest."""
    isr: tuple[int, ...]
    broker_epochs: tuple[int, ...] = ()
    """Of the members in `isr`, as they fetched (KIP-903); empty where the leader takes them from its image.

    A member that has restarted since is refused: it may have lost what it had.
    """
    for_good: bool = False
    """The disk of the one who asks has failed.  Else it is only full, and serves what it has."""


Voters = Callable[[IsrChange], Set[int]]
"""Who else has told that it cannot reach the leader (`unreachable.py`)."""


def alter(
    image: Image,
    broker_id: int,
    broker_epoch: int,
    changes: Sequence[IsrChange],
    voters: Voters = lambda _: frozenset(),
) -> tuple[list[PartitionChangeRecord], list[PartitionState | KafkaError]]:
    """Decide on the changes that a leader asks for; the outcomes are in the order of `changes`.

    Raises StaleBrokerEpoch for a leader that has been registered anew since it asked.
    """
    leader = image.brokers.get(broker_id)
    if leader is None or leader.epoch != broker_epoch:
        raise StaleBrokerEpoch(f"broker {broker_id} is not registered with epoch {broker_epoch}")
    records: list[PartitionChangeRecord] = []
    outcomes: list[PartitionState | KafkaError] = []
    for change in changes:
        try:
            record, state = _altered(image, broker_id, change, voters)
        except KafkaError as error:
            outcomes.append(error.kept())
            continue
        if record is not None:
            records.append(record)
        outcomes.append(state)
    return records, outcomes


def _altered(
    image: Image, broker_id: int, change: IsrChange, voters: Voters
) -> tuple[PartitionChangeRecord | None, PartitionState]:
    state = _state(image, change)
    if change.leader_epoch < state.leader_epoch:
        raise FencedLeaderEpoch
    if change.leader_epoch > state.leader_epoch or change.partition_epoch > state.partition_epoch:
        raise NotController("the leader knows more than this controller")
    leaves = _leaves(state, broker_id, change)
    votes = is_vote(state, broker_id, change)
    if state.leader != broker_id and not leaves and not votes:
        raise InvalidRequest(f"broker {broker_id} does not lead the partition")
    if change.isr and sorted(change.isr) == sorted(state.isr):
        return None, state  # asked again, because the first answer was lost
    if change.partition_epoch < state.partition_epoch:
        raise InvalidUpdateVersion
    if votes:
        return _deposed(image, state, change, voters(change))
    if leaves:
        return _left(image, state, broker_id, change)
    _check_members(image, state, broker_id, change)
    wanted = tuple(each for each in state.replicas if each in change.isr)
    record = PartitionChangeRecord(change.topic_id, change.index, isr=wanted)
    record = completed(replace(state, isr=wanted), record, image.live_brokers)
    return record, changed(state, record)


def is_vote(state: PartitionState, broker_id: int, change: IsrChange) -> bool:
    """Whether a follower in sync tells that it cannot reach the leader."""
    return (
        state.leader not in (broker_id, NO_LEADER)
        and broker_id in change.isr
        and set(change.isr) == set(state.isr) - {state.leader}
        and change.partition_epoch == state.partition_epoch
        and not change.for_good
    )


def _deposed(
    image: Image, state: PartitionState, change: IsrChange, voters: Set[int]
) -> tuple[PartitionChangeRecord, PartitionState]:
    """More than half of those in sync cannot reach the leader: they go on without it, if they are enough."""
    live = image.live_brokers
    wanted = tuple(
        each for each in state.isr if each in voters and each in live and each != state.leader
    )
    needed = image.needed_in_sync(change.topic_id, state)
    leader = best_leader(replace(state, isr=wanted), live)
    if 2 * len(wanted) <= len(state.isr) or len(wanted) < needed or leader == NO_LEADER:
        raise IneligibleReplica(f"only {list(wanted)} cannot reach the leader, {state.leader}")
    record = PartitionChangeRecord(change.topic_id, change.index, leader=leader, isr=wanted)
    return record, changed(state, record)


def _leaves(state: PartitionState, broker_id: int, change: IsrChange) -> bool:
    """Whether the one who asks wants to be in sync no longer; a leader may leave out others that it has not heard."""
    others = set(state.isr) - {broker_id}
    if broker_id not in state.isr or not change.isr:
        return False
    return set(change.isr) == others or (
        state.leader == broker_id and set(change.isr) < others and not change.for_good
    )


def _left(
    image: Image, state: PartitionState, broker_id: int, change: IsrChange
) -> tuple[PartitionChangeRecord, PartitionState]:
    """A replica whose disk refuses it leaves the ISR; if it led, another of those that are in it does."""
    wanted = tuple(each for each in state.isr if each in change.isr)
    live = image.live_brokers
    needed = image.needed_in_sync(change.topic_id, state)
    if not change.for_good and len(live.intersection(wanted)) < needed:
        # It has every committed record, and too few others have shown that they do.
        raise IneligibleReplica(
            f"of the other replicas in sync, {list(wanted)}, fewer than {needed} are live"
        )
    leader = state.leader
    if leader == broker_id:
        leader = best_leader(replace(state, isr=wanted), live)
    if leader not in live:
        raise IneligibleReplica("none of the other replicas in sync is live")
    record = PartitionChangeRecord(
        change.topic_id,
        change.index,
        leader=None if leader == state.leader else leader,
        isr=wanted,
        eligible=state.eligible if change.for_good else None,
    )
    if change.for_good:
        record = _marked(image, state, broker_id, record)
    return record, changed(state, record)


def _marked(
    image: Image, state: PartitionState, broker_id: int, record: PartitionChangeRecord
) -> PartitionChangeRecord:
    """The same for a replica whose disk failed: with the mark it may be eligible, and does not lead before the disk is back.

    Without the mark, which older brokers cannot read, it is not eligible: it would lead at once, and serve nothing.
    """
    offline = tuple(each for each in state.replicas if each in (*state.offline, broker_id))
    marked = replace(record, eligible=None, offline=offline)
    return marked if version_of([marked]) <= image.metadata_version else record


def _state(image: Image, change: IsrChange) -> PartitionState:
    if change.topic_id not in image.topic_names:
        raise UnknownTopicId
    state = image.maybe_partition(change.topic_id, change.index)
    if state is None:
        raise UnknownTopicOrPartition
    return state


def _check_members(image: Image, state: PartitionState, broker_id: int, change: IsrChange) -> None:
    isr = change.isr
    if broker_id not in isr or len(set(isr)) != len(isr) or not set(isr) <= set(state.replicas):
        raise InvalidRequest(
            f"{list(isr)} cannot be the in-sync replicas of a partition that is held by {list(state.replicas)}"
        )
    epochs = dict(zip(isr, change.broker_epochs, strict=False))
    for member in isr:
        broker = image.brokers.get(member)
        if broker is None or not broker.is_live:
            raise IneligibleReplica(f"broker {member} is fenced, stopping or not registered")
        if member in state.offline:
            raise IneligibleReplica(f"the log directory of broker {member} has failed")
        if epochs.get(member, -1) not in (-1, broker.epoch):
            raise IneligibleReplica(f"broker {member} has restarted since")
