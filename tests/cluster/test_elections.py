"""What the controller decides about leaders, in-sync replicas and moves: properties that hold whatever happens.

A story is a list of events — brokers come, go, stop, restart uncleanly; leaders change their ISRs; partitions are moved —
that are decided on one after the other, as the controller does.
"""

from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.cluster import elections, isr, reassignment, registration
from tidelog.cluster.eligible import with_eligible
from tidelog.cluster.image import NO_LEADER, Image, PartitionState
from tidelog.cluster.isr import IsrChange
from tidelog.cluster.metadata import BrokerRecord, ConfigRecord, PartitionRecord, TopicRecord
from tidelog.cluster.reassignment import Move
from tidelog.errors import (
    BrokerIdNotRegistered,
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    FencedLeaderEpoch,
    IneligibleReplica,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidUpdateVersion,
    KafkaError,
    NoReassignmentInProgress,
    NotController,
    PreferredLeaderNotAvailable,
    StaleBrokerEpoch,
    UnknownTopicId,
    UnknownTopicOrPartition,
)

CLEAN, DIRTY = UUID(int=1), UUID(int=2)
BROKERS = range(5)


def unclean(image: Image) -> elections.Unclean:
    return lambda topic: bool(image.topic_config(topic))


def start() -> Image:
    """Five brokers; `clean` never elects who is not in sync, `dirty` would."""
    records = [BrokerRecord(each, (), None, f"life-{each}-0") for each in BROKERS]
    records += [TopicRecord("clean", CLEAN), TopicRecord("dirty", DIRTY)]
    for topic in (CLEAN, DIRTY):
        for index in range(4):
            replicas = tuple((index + each) % 5 for each in range(1 + index % 3))
            records.append(PartitionRecord(topic, index, replicas, replicas, replicas[0]))
    records.append(ConfigRecord("topic", "dirty", "unclean.leader.election.enable", "true"))
    return Image().apply(records, 1)[0]


class World:
    """The image, and which lives of the brokers are alive."""

    def __init__(self) -> None:
        self.image = start()
        self.lives = dict.fromkeys(BROKERS, 0)
        self.alive = {f"life-{each}-0" for each in BROKERS}

    def apply(self, records) -> None:
        if records:
            before = self.image
            self.image, _ = before.apply(records, before.number + 1)
            check_step(before, self.image)
        check(self.image)

    def reconcile(self) -> None:
        self.apply(registration.fence_gone(self.image, self.alive, unclean(self.image)))

    def kill(self, broker: int) -> None:
        self.alive.discard(self.image.brokers[broker].incarnation)
        self.reconcile()

    def kill_unseen(self, broker: int) -> None:
        """It comes back before the controller has looked."""
        self.alive.discard(self.image.brokers[broker].incarnation)

    def come_back(self, broker: int, clean: bool) -> None:
        if self.image.brokers[broker].incarnation in self.alive:
            return
        self.lives[broker] += 1
        life = f"life-{broker}-{self.lives[broker]}"
        self.alive.add(life)
        record = BrokerRecord(broker, (), None, life, fenced=True)
        records = registration.register(
            self.image, record, self.alive, clean=clean, unclean=unclean(self.image)
        )
        self.apply(records)
        again = registration.register(
            self.image, record, self.alive, clean=clean, unclean=unclean(self.image)
        )
        assert again == []

    def unfence(self, broker: int) -> None:
        found = self.image.brokers[broker]
        if found.incarnation in self.alive:
            self.apply(registration.unfence(self.image, found, unclean(self.image)))

    def shut_down(self, broker: int) -> None:
        found = self.image.brokers[broker]
        self.apply(registration.shut_down(self.image, found, unclean(self.image)))
        assert broker not in leaders(self.image)

    def change_isr(self, topic: UUID, index: int, members: frozenset[int]) -> None:
        state = self.image.maybe_partition(topic, index)
        if state.leader == NO_LEADER:
            return
        wanted = tuple(each for each in state.replicas if each in members | {state.leader})
        change = IsrChange(topic, index, state.leader_epoch, state.partition_epoch, wanted)
        epoch = self.image.brokers[state.leader].epoch
        records, (outcome,) = isr.alter(self.image, state.leader, epoch, [change])
        self.apply(records)
        after = self.image.maybe_partition(topic, index)
        if not isinstance(outcome, KafkaError):
            assert outcome == after

    def move(self, topic: str, index: int, replicas: tuple[int, ...] | None) -> None:
        records, _ = reassignment.reassign(self.image, [Move(topic, index, replicas)])
        self.apply(records)

    def prefer(self) -> None:
        self.apply(elections.prefer(self.image, self.image.live_brokers))


def leaders(image: Image) -> set[int]:
    return {state.leader for topic in image.topics.values() for state in topic.partitions}


def check(image: Image) -> None:
    live = image.live_brokers
    for topic in image.topics.values():
        for state in topic.partitions:
            assert state.isr, "somebody has every committed record"
            assert set(state.isr) <= set(state.replicas)
            assert len(set(state.replicas)) == len(state.replicas)
            assert set(state.adding) | set(state.removing) <= set(state.replicas)
            if state.leader != NO_LEADER:
                assert state.leader in state.isr
                assert state.leader in live
                assert set(state.isr) <= live, "nobody is counted on who is gone"
            else:
                assert not set(state.isr) & live, "whoever could lead does"
                if topic.name == "dirty":
                    assert not (set(state.replicas) - set(state.adding)) & live


def check_step(before: Image, after: Image) -> None:
    for name, topic in after.topics.items():
        old_states = before.topics[name].partitions
        for old, new in zip(old_states, topic.partitions, strict=True):
            assert new.partition_epoch >= old.partition_epoch
            assert new.leader_epoch >= old.leader_epoch
            if new.leader != old.leader:
                assert new.leader_epoch > old.leader_epoch, "an epoch has one leader"
            if new != old:
                assert new.partition_epoch > old.partition_epoch
            if name == "clean" and new.leader not in (old.leader, NO_LEADER):
                # Or it was added by a move that brought it into sync in this very step.
                assert new.leader in old.isr or new.leader in old.adding
    assert elections.settle(after, after.live_brokers, unclean(after)) == []


broker = st.sampled_from(BROKERS)
topic_id = st.sampled_from([CLEAN, DIRTY])
partition = st.integers(0, 3)
some_brokers = st.lists(broker, min_size=1, max_size=4, unique=True).map(tuple)
event = st.one_of(
    st.tuples(st.just("kill"), broker),
    st.tuples(st.just("kill_unseen"), broker),
    st.tuples(st.just("come_back"), broker, st.booleans()),
    st.tuples(st.just("unfence"), broker),
    st.tuples(st.just("unfence"), broker),
    st.tuples(st.just("shut_down"), broker),
    st.tuples(st.just("change_isr"), topic_id, partition, st.frozensets(broker)),
    st.tuples(st.just("move"), st.sampled_from(["clean", "dirty"]), partition, some_brokers),
    st.tuples(st.just("move"), st.sampled_from(["clean", "dirty"]), partition, st.none()),
    st.tuples(st.just("prefer")),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(event, max_size=30))
def test_whatever_happens_the_rules_hold(story):
    world = World()
    for name, *arguments in story:
        getattr(world, name)(*arguments)
    # And when everybody is back, everything has a leader.
    world.reconcile()
    for each in BROKERS:
        world.come_back(each, clean=True)
        world.unfence(each)
    stopping = {each.id for each in world.image.brokers.values() if each.stopping}
    for topic in world.image.topics.values():
        for state in topic.partitions:
            assert state.leader != NO_LEADER or set(state.isr) <= stopping


def state_of(world: World, topic: str = "clean", index: int = 2) -> PartitionState:
    return world.image.topics[topic].partitions[index]


def test_the_next_in_order_leads():
    world = World()
    assert state_of(world).replicas == (2, 3, 4)
    world.kill(2)
    assert (state_of(world).leader, state_of(world).isr) == (3, (3, 4))
    world.kill(3)
    world.kill(4)
    assert (state_of(world).leader, state_of(world).isr) == (NO_LEADER, (4,))
    world.come_back(2, clean=True)
    world.unfence(2)
    assert state_of(world).leader == NO_LEADER, "it may lack what 4 has acknowledged"
    world.come_back(4, clean=True)
    world.unfence(4)
    assert state_of(world).leader == 4


def test_a_topic_may_prefer_to_lose_records():
    world = World()
    for each in (2, 3, 4):
        world.kill(each)
    assert state_of(world, "dirty").leader == NO_LEADER
    world.come_back(2, clean=True)
    world.unfence(2)
    assert (state_of(world, "dirty").leader, state_of(world, "dirty").isr) == (2, (2,))


def test_all_gone_at_once_leave_the_isr_as_it_was():
    world = World()
    for each in (2, 3, 4):
        world.kill_unseen(each)
    world.reconcile()
    assert (state_of(world).leader, state_of(world).isr) == (NO_LEADER, (2, 3, 4))


def test_after_an_unclean_stop_a_broker_leads_only_what_nobody_else_has():
    world = World()
    alone = state_of(world, index=0)
    assert alone.replicas == (0,)
    world.kill_unseen(0)
    world.kill_unseen(2)
    world.come_back(2, clean=False)
    world.come_back(0, clean=False)
    world.unfence(0)
    world.unfence(2)
    assert 2 not in state_of(world).isr
    assert state_of(world).leader == 3
    assert state_of(world, index=0).leader == 0
    assert state_of(world, index=0).leader_epoch > alone.leader_epoch


def test_a_clean_restart_keeps_its_place_where_nobody_noticed_and_it_is_alone():
    image, _ = Image().apply(
        [
            BrokerRecord(0, (), None, "old"),
            TopicRecord("t", CLEAN),
            PartitionRecord(CLEAN, 0, (0,), (0,), 0),
        ],
        1,
    )
    record = BrokerRecord(0, (), None, "new")
    records = registration.register(image, record, {"new"}, clean=True, unclean=lambda _: False)
    assert records == [record]
    records = registration.register(image, record, {"new"}, clean=False, unclean=lambda _: False)
    after, _ = image.apply(records, 2)
    assert after.topics["t"].partitions[0].leader_epoch == 1


def elect_one(world: World, kind: int, topic: str, index: int) -> KafkaError | None:
    image = world.image
    changes, (outcome,) = elections.elect(image, image.live_brokers, kind, [(topic, index)])
    if changes:
        world.image, _ = image.apply(changes, image.number + 1)
        check(world.image)
    return outcome


def test_elections_by_hand():
    world = World()
    preferred = elections.PREFERRED
    assert isinstance(elect_one(world, preferred, "clean", 2), ElectionNotNeeded)
    assert isinstance(elect_one(world, preferred, "clean", 9), UnknownTopicOrPartition)
    assert isinstance(elect_one(world, preferred, "none", 0), UnknownTopicOrPartition)
    world.kill(2)
    assert isinstance(elect_one(world, preferred, "clean", 2), PreferredLeaderNotAvailable)
    world.come_back(2, clean=True)
    world.unfence(2)
    assert isinstance(elect_one(world, preferred, "clean", 2), PreferredLeaderNotAvailable)
    world.change_isr(CLEAN, 2, frozenset({2, 3, 4}))
    assert elections.imbalance(world.image)[2] == 1.0
    assert elect_one(world, preferred, "clean", 2) is None
    assert state_of(world).leader == 2


def test_an_unclean_election_by_hand():
    world = World()
    assert isinstance(elect_one(world, elections.UNCLEAN, "clean", 2), ElectionNotNeeded)
    for each in (2, 3, 4):
        world.kill(each)
    assert isinstance(elect_one(world, elections.UNCLEAN, "clean", 2), EligibleLeadersNotAvailable)
    world.come_back(3, clean=True)
    world.unfence(3)
    assert elect_one(world, elections.UNCLEAN, "clean", 2) is None
    assert (state_of(world).leader, state_of(world).isr) == (3, (3,))


def change(world: World, **facts) -> IsrChange:
    state = state_of(world)
    made = IsrChange(CLEAN, 2, state.leader_epoch, state.partition_epoch, (2, 3))
    return replace(made, **facts)


@pytest.mark.parametrize(
    ("facts", "error"),
    [
        ({"topic_id": UUID(int=9)}, UnknownTopicId),
        ({"index": 4}, UnknownTopicOrPartition),
        ({"index": -1}, UnknownTopicOrPartition),
        ({"leader_epoch": 0}, FencedLeaderEpoch),
        ({"leader_epoch": 9}, NotController),
        ({"partition_epoch": 0}, InvalidUpdateVersion),
        ({"partition_epoch": 9}, NotController),
        ({"isr": ()}, InvalidRequest),
        ({"isr": (0, 3)}, InvalidRequest),
        ({"isr": (2, 2)}, InvalidRequest),
        ({"isr": (2, 0)}, InvalidRequest),
        ({"broker_epochs": (1, 7)}, IneligibleReplica),
    ],
)
def test_isr_changes_that_are_refused(facts, error):
    world = World()
    world.kill(2)
    world.come_back(2, clean=True)
    world.unfence(2)
    world.change_isr(CLEAN, 2, frozenset({2, 3, 4}))
    world.prefer()
    epoch = world.image.brokers[2].epoch
    records, (outcome,) = isr.alter(world.image, 2, epoch, [change(world, **facts)])
    assert isinstance(outcome, error)
    assert records == []


def test_a_leader_that_leaves_the_isr_leads_no_longer():
    world = World()
    before = state_of(world)
    assert (before.leader, before.isr) == (2, (2, 3, 4))
    epoch = world.image.brokers[2].epoch
    [record], (after,) = isr.alter(world.image, 2, epoch, [change(world, isr=(3, 4))])
    assert (after.leader, after.isr, after.leader_epoch) == (3, (3, 4), before.leader_epoch + 1)
    assert (record.leader, record.isr) == (3, (3, 4))


def with_min_in_sync(world: World, least: int) -> None:
    world.apply([ConfigRecord("cluster", "", "min.insync.replicas", str(least))])


@pytest.mark.parametrize("leaver", [2, 3], ids=["leader", "follower"])
def test_a_full_disk_is_not_left_where_too_few_would_remain(leaver):
    """What it has may be the last whole copy."""
    world = World()
    with_min_in_sync(world, 3)
    epoch = world.image.brokers[leaver].epoch
    rest = tuple(each for each in (2, 3, 4) if each != leaver)
    records, (outcome,) = isr.alter(world.image, leaver, epoch, [change(world, isr=rest)])
    assert isinstance(outcome, IneligibleReplica)
    assert records == []


@pytest.mark.parametrize("leaver", [2, 3], ids=["leader", "follower"])
def test_a_disk_that_is_gone_is_left_however_few_remain_and_is_not_counted_on(leaver):
    world = World()
    with_min_in_sync(world, 3)
    epoch = world.image.brokers[leaver].epoch
    rest = tuple(each for each in (2, 3, 4) if each != leaver)
    wanted = change(world, isr=rest, for_good=True)
    records, (after,) = isr.alter(world.image, leaver, epoch, [wanted])
    assert after.isr == rest
    assert after.leader == rest[0]
    [record] = with_eligible(world.image, records)
    assert record.eligible == ()


def test_a_leader_leaves_those_out_whom_it_has_not_heard():
    world = World()
    epoch = world.image.brokers[2].epoch
    _, (after,) = isr.alter(world.image, 2, epoch, [change(world, isr=(4,))])
    assert (after.leader, after.isr) == (4, (4,))
    with_min_in_sync(world, 2)
    _, (outcome,) = isr.alter(world.image, 2, epoch, [change(world, isr=(4,))])
    assert isinstance(outcome, IneligibleReplica)


def test_a_follower_may_leave_the_isr_and_nothing_else():
    world = World()
    before = state_of(world)
    epoch = world.image.brokers[3].epoch
    _, (after,) = isr.alter(world.image, 3, epoch, [change(world, isr=(2, 4))])
    assert (after.leader, after.isr, after.leader_epoch) == (2, (2, 4), before.leader_epoch)
    for wanted in ((2,), (2, 3), (), (4,)):
        _, (outcome,) = isr.alter(world.image, 3, epoch, [change(world, isr=wanted)])
        assert isinstance(outcome, InvalidRequest), wanted


def test_a_leader_stays_where_nobody_else_in_sync_lives():
    world = World()
    epoch = world.image.brokers[2].epoch
    dead = replace(world.image, brokers={2: world.image.brokers[2]})
    records, (outcome,) = isr.alter(dead, 2, epoch, [change(world, isr=(3, 4))])
    assert isinstance(outcome, IneligibleReplica)
    assert records == []


def test_isr_changes_of_those_who_may_not():
    world = World()
    with pytest.raises(StaleBrokerEpoch):
        isr.alter(world.image, 2, 7, [change(world)])
    _, (outcome,) = isr.alter(world.image, 3, 1, [change(world)])
    assert isinstance(outcome, InvalidRequest), "3 does not lead it"
    world.kill(3)
    _, (outcome,) = isr.alter(world.image, 2, 1, [change(world)])
    assert isinstance(outcome, IneligibleReplica)


def test_a_move_is_over_when_what_it_adds_is_in_sync():
    world = World()
    world.move("clean", 2, (0, 1, 3))
    state = state_of(world)
    assert state.replicas == (0, 1, 3, 2, 4)
    assert (state.adding, state.removing) == ((0, 1), (2, 4))
    assert state.target == (0, 1, 3)
    world.change_isr(CLEAN, 2, frozenset({0, 2, 3, 4}))
    assert state_of(world).adding, "1 is still missing"
    world.change_isr(CLEAN, 2, frozenset({0, 1, 2, 3, 4}))
    state = state_of(world)
    assert (state.replicas, state.isr) == ((0, 1, 3), (0, 1, 3))
    assert (state.adding, state.removing) == ((), ())
    assert state.leader == 0


def test_a_move_can_be_called_off_and_replaced():
    world = World()
    with_nothing = reassignment.reassign(world.image, [Move("clean", 2, None)])[1]
    assert isinstance(with_nothing[0], NoReassignmentInProgress)
    world.move("clean", 2, (0, 1, 3))
    assert [(each.topic, each.index) for each in reassignment.under_way(world.image)] == [
        ("clean", 2)
    ]
    world.move("clean", 2, (1, 3))
    assert state_of(world).adding == (1,)
    assert state_of(world).removing == (2, 4)
    world.move("clean", 2, None)
    assert state_of(world).replicas == (3, 2, 4)
    assert reassignment.under_way(world.image) == []


def test_fewer_replicas_and_another_order_take_effect_at_once():
    world = World()
    world.move("clean", 2, (4, 2))
    state = state_of(world)
    assert (state.replicas, state.isr, state.removing, state.leader) == ((4, 2), (4, 2), (), 2)
    world.move("clean", 2, (4,))
    assert state_of(world).leader == 4


@pytest.mark.parametrize(
    ("move", "error"),
    [
        (Move("clean", 2, ()), InvalidReplicaAssignment),
        (Move("clean", 2, (1, 1)), InvalidReplicaAssignment),
        (Move("clean", 2, (1, 9)), InvalidReplicaAssignment),
        (Move("clean", 2, (1,)), InvalidReplicationFactor),
        (Move("none", 2, (1,)), UnknownTopicOrPartition),
        (Move("clean", 4, (1,)), UnknownTopicOrPartition),
    ],
)
def test_moves_that_are_refused(move, error):
    records, (outcome,) = reassignment.reassign(start(), [move], allow_factor_change=False)
    assert isinstance(outcome, error)
    assert records == []


def test_a_broker_is_forgotten_only_when_it_is_gone_and_empty():
    world = World()
    with pytest.raises(InvalidRequest, match="running"):
        registration.unregister(world.image, 0)
    world.kill(0)
    with pytest.raises(InvalidRequest, match="replica"):
        registration.unregister(world.image, 0)
    world.come_back(0, clean=True)
    world.unfence(0)
    for topic in world.image.topics.values():
        for index, state in enumerate(topic.partitions):
            if 0 in state.replicas:
                world.move(topic.name, index, tuple({*state.replicas, 4} - {0}))
                world.change_isr(topic.id, index, frozenset(BROKERS))
    world.kill(0)
    world.apply(registration.unregister(world.image, 0))
    assert 0 not in world.image.brokers
    with pytest.raises(BrokerIdNotRegistered):
        registration.unregister(world.image, 0)
