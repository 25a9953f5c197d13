"""Who leads: pure functions over the image.

`settle` is the one rule: whatever happened — brokers went, came, are about to stop, or a controller found half of its
predecessor's work — every partition gets the best leader it can have, and no ISR counts on a broker that is gone.
To settle what is settled changes nothing.
"""

from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import replace
from uuid import UUID

from tidelog.cluster.image import NO_LEADER, Image, PartitionState
from tidelog.cluster.metadata import PartitionChangeRecord
from tidelog.errors import (
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    KafkaError,
    PreferredLeaderNotAvailable,
    UnknownTopicOrPartition,
)

PREFERRED, UNCLEAN = 0, 1
"""Kinds of election that a client may ask for (KIP-460)."""

Unclean = Callable[[str], bool]
"""Whether a topic would rather lose records than have no leader."""


def settle(
    image: Image, live: frozenset[int] | set[int], unclean: Unclean
) -> list[PartitionChangeRecord]:
    """What must change so that the brokers of `live`, and only they, lead and are counted on."""
    changes = []
    for topic in image.topics.values():
        for index, state in enumerate(topic.partitions):
            if state.leader in live and live.issuperset(state.isr) and not state.offline:
                continue  # nearly always
            change = _settled(topic.id, index, state, live, unclean(topic.name))
            if change is not None:
                changes.append(change)
    return changes


def prefer(image: Image, live: Set[int]) -> list[PartitionChangeRecord]:
    """Give partitions back to their preferred leaders, where those are live and in sync."""
    return [
        PartitionChangeRecord(topic_id, index, leader=state.replicas[0])
        for topic_id, index, state in _not_preferred(image)
        if best_leader(state, live) == state.replicas[0]
    ]


def imbalance(image: Image) -> dict[int, float]:
    """For each broker, what share of the partitions that it should lead is led by others."""
    should: dict[int, int] = {}
    for topic in image.topics.values():
        for state in topic.partitions:
            should[state.replicas[0]] = should.get(state.replicas[0], 0) + 1
    strayed: dict[int, int] = {}
    for _, _, state in _not_preferred(image):
        strayed[state.replicas[0]] = strayed.get(state.replicas[0], 0) + 1
    return {broker: strayed.get(broker, 0) / count for broker, count in should.items()}


def elect(
    image: Image, live: Set[int], kind: int, wanted: Iterable[tuple[str, int]]
) -> tuple[list[PartitionChangeRecord], list[KafkaError | None]]:
    """Elections that somebody asked for; None for each partition that has got its leader."""
    changes: list[PartitionChangeRecord] = []
    outcomes: list[KafkaError | None] = []
    for name, index in wanted:
        try:
            changes.append(_elected(image, live, kind, name, index))
            outcomes.append(None)
        except KafkaError as error:
            outcomes.append(error.kept())
    return changes, outcomes


def all_partitions(image: Image) -> Iterator[tuple[str, int]]:
    for topic in image.topics.values():
        for index in range(len(topic.partitions)):
            yield topic.name, index


def best_leader(state: PartitionState, live: Set[int]) -> int:
    """The first replica that is live, has its disk and is in sync; NO_LEADER if there is none."""
    for replica in state.replicas:
        if replica in live and replica in state.isr and replica not in state.offline:
            return replica
    return NO_LEADER


def _settled(
    topic_id: UUID, index: int, state: PartitionState, live: Set[int], unclean: bool
) -> PartitionChangeRecord | None:
    if state.offline:
        live = live - set(state.offline)
    leader = state.leader if state.leader in live else best_leader(state, live)
    isr = tuple(each for each in state.isr if each in live)
    eligible = None
    if leader == NO_LEADER:
        leader = best_leader(replace(state, isr=state.eligible), live)
        isr = (leader,) if leader != NO_LEADER else ()
    if leader == NO_LEADER and unclean:
        # Not one that is being added: it may have nothing yet.
        old = (each for each in state.replicas if each in live and each not in state.adding)
        leader = next(old, NO_LEADER)
        isr = (leader,) if leader != NO_LEADER else ()
        # What it lacks is no longer part of the log.  To be told even if nobody was eligible: the old ISR would be, from now on.
        eligible = () if isr else None
    # The last members stay: they are the ones who have every committed record when they come back.
    isr = isr or state.isr
    if leader == state.leader and isr == state.isr:
        return None
    return PartitionChangeRecord(
        topic_id,
        index,
        leader=None if leader == state.leader else leader,
        isr=None if isr == state.isr else isr,
        eligible=eligible,
    )


def _not_preferred(image: Image) -> Iterator[tuple[UUID, int, PartitionState]]:
    for topic in image.topics.values():
        for index, state in enumerate(topic.partitions):
            if state.leader != state.replicas[0]:
                yield topic.id, index, state


def _elected(
    image: Image, live: Set[int], kind: int, name: str, index: int
) -> PartitionChangeRecord:
    topic = image.topics.get(name)
    if topic is None or not 0 <= index < len(topic.partitions):
        raise UnknownTopicOrPartition
    state = topic.partitions[index]
    if kind == PREFERRED:
        preferred = state.replicas[0]
        if state.leader == preferred:
            raise ElectionNotNeeded
        if best_leader(state, live) != preferred:
            raise PreferredLeaderNotAvailable
        return PartitionChangeRecord(topic.id, index, leader=preferred)
    if state.leader != NO_LEADER:
        raise ElectionNotNeeded
    change = _settled(topic.id, index, state, live, unclean=True)
    if change is None:
        change = _elected_in_spite_of_its_disk(topic.id, index, state, live)
    if change is None:
        raise EligibleLeadersNotAvailable
    return change


def _elected_in_spite_of_its_disk(
    topic_id: UUID, index: int, state: PartitionState, live: Set[int]
) -> PartitionChangeRecord | None:
    """Let one lead that waits for a better one (`offline.py`); it is marked again should its disk be away still."""
    waiting = live & {*state.eligible} & {*state.offline}
    offline = tuple(each for each in state.offline if each not in waiting)
    change = _settled(topic_id, index, replace(state, offline=offline), live, unclean=True)
    return None if change is None else replace(change, offline=offline)
