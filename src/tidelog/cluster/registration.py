"""Brokers come and go: what the controller decides about them, as pure functions over the image.

A broker registers in the name of its session with the metastore; the session's *incarnation* tells this life
of the broker from an earlier one.  Registered, it is fenced until it has caught up with the metadata log.  Whoever is
registered without a live session is fenced again.
"""

from collections.abc import Iterable, Set
from dataclasses import replace
from uuid import NAMESPACE_OID, UUID, uuid5

from tidelog.cluster import versions
from tidelog.cluster.elections import Unclean, best_leader, settle
from tidelog.cluster.image import Broker, Image, PartitionState
from tidelog.cluster.metadata import (
    BrokerChangeRecord,
    BrokerRecord,
    PartitionChangeRecord,
    Record,
    RemoveBrokerRecord,
)
from tidelog.errors import (
    BrokerIdNotRegistered,
    DuplicateBrokerRegistration,
    InvalidRequest,
    StaleBrokerEpoch,
)


def incarnation_of(member: int, token: str) -> UUID:
    """Names a session on the wire and in the metadata log."""
    return uuid5(NAMESPACE_OID, f"{member}:{token}")


def incarnations(sessions: Iterable[tuple[int, str]]) -> frozenset[str]:
    """Of all live sessions, as the image has them."""
    return frozenset(str(incarnation_of(member, token)) for member, token in sessions)


def register(
    image: Image,
    record: BrokerRecord,
    alive: Set[str],
    *,
    clean: bool,
    unclean: Unclean,
    version: int = 1,
) -> list[Record]:
    """Make a broker known that can read this metadata version.  Nothing, if it is: it asks again because an answer was lost.

    One whose last stop was not `clean` may have lost records, so it leaves every ISR that has another member, and where
    it is the last one others that are eligible take its place; if there are none the partition has a new leader epoch,
    by which readers notice (KIP-320).  A replica that is marked offline stays eligible: the mark says already that it may lack
    something, and whoever takes it back decides (`offline.py`).
    """
    known = image.brokers.get(record.broker_id)
    told = versions.noted(image, record.broker_id, record.incarnation, version)
    if known is not None and known.incarnation == record.incarnation:
        return told  # an older controller registered it, and passed over its version
    if known is not None and known.incarnation in alive:
        raise DuplicateBrokerRegistration(
            f"broker id {record.broker_id} is in use by another live broker"
        )
    live = set(image.live_brokers)
    (live.discard if record.fenced else live.add)(record.broker_id)
    records: list[Record] = [record, *told]
    if clean:
        return records + settle(image, live, unclean)
    lost = _after_unclean_stop(image, record.broker_id, live)
    image, _ = image.apply(lost, image.number)
    return [*records, *lost, *settle(image, live, unclean)]


def fence_gone(image: Image, alive: Set[str], unclean: Unclean) -> list[Record]:
    """Fence the brokers whose sessions are over, and elect leaders for what they led: one batch."""
    gone = [
        each.id
        for each in image.brokers.values()
        if not each.fenced and each.incarnation not in alive
    ]
    records: list[Record] = [BrokerChangeRecord(each, fenced=True) for each in gone]
    return records + settle(image, image.live_brokers.difference(gone), unclean)


def unfence(image: Image, broker: Broker, unclean: Unclean) -> list[Record]:
    """Let a broker that has caught up take part: partitions that waited for it get their leader."""
    if not broker.fenced:
        return []
    live = image.live_brokers | {broker.id} if not broker.stopping else image.live_brokers
    records: list[Record] = [BrokerChangeRecord(broker.id, fenced=False)]
    return records + settle(image, live, unclean)


def shut_down(image: Image, broker: Broker, unclean: Unclean) -> list[Record]:
    """Move what a broker leads to others, before it stops."""
    if broker.stopping or broker.fenced:
        return []
    records: list[Record] = [BrokerChangeRecord(broker.id, stopping=True)]
    return records + settle(image, image.live_brokers - {broker.id}, unclean)


def unregister(image: Image, broker_id: int) -> list[Record]:
    """Forget a broker that will not come back; one that is there, or that holds replicas, is refused."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise BrokerIdNotRegistered(f"there is no broker {broker_id}")
    if not broker.fenced:
        raise InvalidRequest(f"broker {broker_id} is running; stop it first")
    held = sum(
        broker_id in state.replicas for topic in image.topics.values() for state in topic.partitions
    )
    if held:
        raise InvalidRequest(
            f"broker {broker_id} still holds {held} replica(s); reassign them first"
        )
    return [RemoveBrokerRecord(broker_id), *versions.forgotten(image, broker_id)]


def registered(image: Image, broker_id: int, broker_epoch: int) -> Broker:
    """The broker, if this is still the registration that it speaks of."""
    broker = image.brokers.get(broker_id)
    if broker is None or broker.epoch != broker_epoch:
        raise StaleBrokerEpoch(f"broker {broker_id} is not registered with epoch {broker_epoch}")
    return broker


def _after_unclean_stop(
    image: Image, broker_id: int, live: Set[int]
) -> list[PartitionChangeRecord]:
    changes = []
    for topic in image.topics.values():
        for index, state in enumerate(topic.partitions):
            change = _without(topic.id, index, state, broker_id, live)
            if change is not None:
                changes.append(change)
    return changes


def _without(
    topic_id: UUID, index: int, state: PartitionState, broker_id: int, live: Set[int]
) -> PartitionChangeRecord | None:
    if broker_id not in (*state.isr, *state.eligible):
        return None
    is_offline = broker_id in state.offline
    if is_offline and broker_id not in state.isr:
        return None
    eligible = tuple(each for each in state.eligible if each != broker_id)
    others = tuple(each for each in state.isr if each != broker_id)
    if not others and eligible:
        others, eligible = eligible, ()  # they have every committed record, and it may not
    if not others:
        leads = state.leader == broker_id
        return PartitionChangeRecord(topic_id, index, leader=broker_id) if leads else None
    leader = best_leader(replace(state, isr=others), live) if state.leader == broker_id else None
    return PartitionChangeRecord(
        topic_id,
        index,
        leader=leader,
        isr=None if others == state.isr else others,
        eligible=None if is_offline else eligible,
    )
