"""Who may lead though it is not in sync: those that have every committed record (KIP-966)."""

from uuid import UUID

from tidelog.cluster import elections, registration
from tidelog.cluster.eligible import with_eligible
from tidelog.cluster.image import NO_LEADER, Image, PartitionState
from tidelog.cluster.metadata import (
    BrokerChangeRecord,
    BrokerRecord,
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    Record,
    TopicRecord,
)

ID = UUID(int=1)


class World:
    """One partition on three brokers, two of which must be in sync."""

    def __init__(self) -> None:
        records: list[Record] = [BrokerRecord(each, (), None, f"life-{each}") for each in (1, 2, 3)]
        records += [TopicRecord("t", ID), PartitionRecord(ID, 0, (1, 2, 3), (1, 2, 3), 1)]
        records += [ConfigRecord("cluster", "", "min.insync.replicas", "2")]
        self.image = Image().apply(records, 1)[0]

    def do(self, *records: Record) -> PartitionState:
        told = with_eligible(self.image, records)
        self.image = self.image.apply(told, self.image.number + 1)[0]
        return self.image.topics["t"].partitions[0]

    def leave(self, broker: int) -> PartitionState:
        """A broker goes in good order."""
        known = self.image.brokers[broker]
        return self.do(*registration.shut_down(self.image, known, lambda _: False))

    def come(self, broker: int, *, clean: bool) -> PartitionState:
        record = BrokerRecord(broker, (), None, f"another life of {broker}")
        return self.do(
            *registration.register(
                self.image, record, frozenset(), clean=clean, unclean=lambda _: False
            )
        )


def test_who_leaves_while_enough_stay_is_not_eligible():
    assert World().leave(3).eligible == ()


def test_who_leaves_below_the_minimum_is_eligible():
    world = World()
    world.leave(3)
    state = world.leave(2)
    assert (state.leader, state.isr, state.eligible) == (1, (1,), (2,))


def test_eligible_replicas_lead_when_the_last_in_sync_has_lost_records():
    world = World()
    world.leave(3)
    world.leave(2)
    state = world.come(1, clean=False)
    assert (state.leader, state.isr, state.eligible) == (NO_LEADER, (2,), ())
    state = world.come(2, clean=True)
    assert (state.leader, state.isr) == (2, (2,))


def test_eligible_replicas_lead_when_nobody_in_sync_is_there():
    world = World()
    world.leave(3)
    world.leave(2)
    world.leave(1)
    state = world.come(2, clean=True)
    assert (state.leader, state.isr, state.eligible) == (2, (2,), (1,))


def test_who_lost_records_is_not_eligible_any_more():
    world = World()
    world.leave(3)
    world.leave(2)
    assert world.come(2, clean=False).eligible == ()


def test_nobody_is_eligible_once_enough_are_in_sync_again():
    world = World()
    world.leave(3)
    world.leave(2)
    assert world.do(PartitionChangeRecord(ID, 0, isr=(1, 3))).eligible == ()


def test_nobody_is_eligible_when_fewer_are_asked_for():
    world = World()
    world.leave(3)
    world.leave(2)
    assert world.do(ConfigRecord("topic", "t", "min.insync.replicas", "1")).eligible == ()


def test_an_unclean_election_ends_it():
    world = World()
    world.leave(3)
    world.leave(2)
    world.leave(1)
    changes, _ = elections.elect(world.image, {3}, elections.UNCLEAN, [("t", 0)])
    state = world.do(*changes)
    assert (state.leader, state.isr, state.eligible) == (3, (3,), ())


def test_after_an_unclean_election_the_old_in_sync_replicas_are_not_eligible():
    """What they have and the new leader lacks is no longer part of the log."""
    world = World()
    world.do(PartitionChangeRecord(ID, 0, isr=(1, 2)))
    gone = [BrokerChangeRecord(each, fenced=True) for each in (1, 2)]
    state = world.do(*gone, *elections.settle(world.image, {3}, lambda _: True))
    assert (state.leader, state.isr, state.eligible) == (3, (3,), ())
    state = world.do(*elections.settle(world.image, {1, 2}, lambda _: False))
    assert state.leader == NO_LEADER


def test_a_snapshot_has_it():
    world = World()
    world.leave(3)
    world.leave(2)
    again, _ = Image().apply(world.image.records(), world.image.number)
    assert again == world.image
