"""Who leads the cluster, who finds out, and how everybody reaches the controller."""

import asyncio
from uuid import UUID, uuid4

import pytest

from tidelog.cluster.control import Control
from tidelog.cluster.controller import Controller
from tidelog.cluster.image import NO_LEADER
from tidelog.cluster.isr import IsrChange
from tidelog.cluster.membership import Membership
from tidelog.cluster.metadata import BrokerRecord
from tidelog.cluster.tail import Tail
from tidelog.cluster.topics import NewTopic, Rules
from tidelog.errors import (
    InvalidTopicException,
    NetworkException,
    NotController,
    RequestTimedOut,
)
from tidelog.metastore.contract import MemberTaken, MetastoreError
from tidelog.metastore.memory import MemoryMetastore, MemoryStore
from tidelog.protocol.messages.allocate_producer_ids import AllocateProducerIdsResponse
from tidelog.testing.manual_clock import ManualClock

TIMEOUT_MS = 9_000


class NobodyElse:
    """Peers of a broker that can reach nobody."""

    async def ask(self, broker_id, request, **_):
        raise NetworkException(f"{broker_id} is not there")


class Node:
    """A broker without partitions: session, tail, membership, control."""

    def __init__(self, store: MemoryStore, clock: ManualClock, member: int) -> None:
        self.metastore = MemoryMetastore(store, clock)
        self.tail = Tail(self.metastore)
        self.id = member
        self.members = Membership(
            self.metastore,
            member,
            timeout_ms=TIMEOUT_MS,
            elected=lambda epoch: Controller(self.metastore, self.tail, epoch, _rules),
            clock=clock,
        )
        self.control = Control(
            self.members, self.tail, NobodyElse(), "c", lambda name: NewTopic(name=name)
        )

    def record(self, **facts) -> BrokerRecord:
        return BrokerRecord(
            self.id, (("PLAINTEXT", "", 9092),), None, self.members.incarnation, **facts
        )

    async def look(self) -> None:
        """One round of `Membership.watch`."""
        await self.members._look()
        await self.members._watch_over(await self.metastore.tick())
        await self.tail.catch_up()


def _rules() -> Rules:
    return Rules(partitions=1, replication_factor=1, check_config=lambda _: None, new_id=uuid4)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
async def nodes(store: MemoryStore, clock: ManualClock) -> list[Node]:
    """Three brokers, all registered and unfenced; the first is the controller."""
    made = [Node(store, clock, member) for member in range(3)]
    for node in made:
        await node.members.join()
    for node in made:
        await made[0].control.local.register(node.record(fenced=True), -1)
        epoch = made[0].control.local.image.brokers[node.id].epoch
        standing = await made[0].control.local.heartbeat(node.id, epoch, metadata_offset=epoch)
        assert not standing.is_fenced
    await made[0].look()
    for node in made:
        await node.tail.catch_up()
    return made


async def topic(nodes: list[Node], **facts) -> UUID:
    wanted = NewTopic(name="orders", **(facts or {"partitions": 3, "replication_factor": 3}))
    (made,) = await nodes[0].control.create_topics([wanted])
    return made.topic_id


def leaders(node: Node) -> list[int]:
    return [state.leader for state in node.tail.image.topics["orders"].partitions]


async def test_one_is_the_controller_and_all_know(nodes: list[Node]):
    assert [node.control.is_active for node in nodes] == [True, False, False]
    assert [node.control.controller_id for node in nodes] == [0, 0, 0]
    with pytest.raises(NotController):
        await nodes[1].control.create_topics([NewTopic(name="a")])


async def test_two_with_one_id_are_refused(nodes: list[Node], store, clock):
    with pytest.raises(MemberTaken):
        await Node(store, clock, 1).members.join()


async def test_a_broker_that_goes_is_fenced_and_its_partitions_move(nodes: list[Node], clock):
    await topic(nodes)
    assert sorted(leaders(nodes[0])) == [0, 1, 2]
    await nodes[2].members.leave()
    await nodes[0].look()
    image = nodes[0].tail.image
    assert image.brokers[2].fenced
    assert 2 not in leaders(nodes[0])
    assert all(set(state.isr) == {0, 1} for state in image.topics["orders"].partitions)
    await nodes[0].look()
    assert nodes[0].tail.image is image  # and nothing more happens


async def test_the_next_controller_finishes_what_the_last_one_left(nodes: list[Node], clock):
    await topic(nodes)
    await nodes[0].members.leave()
    assert not nodes[0].control.is_active
    await nodes[1].look()
    assert nodes[1].control.is_active
    assert nodes[1].members.active.epoch == 2
    assert 0 not in leaders(nodes[1])
    await nodes[2].look()
    assert nodes[2].control.controller_id == 1


async def test_a_paused_controller_finds_out_and_resigns(nodes: list[Node], clock):
    await topic(nodes)
    stale = nodes[0].control.local
    clock.advance(TIMEOUT_MS - 1)
    for node in nodes[1:]:
        await node.members.heartbeat()
    clock.advance(2)  # the controller has given no sign of life
    await nodes[1].look()
    assert nodes[1].control.is_active
    with pytest.raises(NotController):
        await stale.create_topics([NewTopic(name="late")])
    assert stale.resigned
    assert not nodes[0].control.is_active
    await nodes[0].members.heartbeat()  # finds the session lost, and opens another
    await nodes[0].look()
    assert nodes[0].control.controller_id == 1
    assert "late" not in (await nodes[1].tail.catch_up()).topics


async def test_who_lost_the_session_is_another_incarnation(nodes: list[Node], clock):
    before = nodes[1].members.incarnation
    heard = []
    nodes[1].members.subscribe(lambda: heard.append(1))
    clock.advance(TIMEOUT_MS - 1)
    await nodes[0].members.heartbeat()
    await nodes[2].members.heartbeat()
    clock.advance(2)
    await nodes[1].members.heartbeat()
    assert nodes[1].members.incarnation != before
    assert heard
    await nodes[0].look()
    image = nodes[0].tail.image
    assert image.brokers[1].fenced
    # An old request to unfence comes late: that registration has no session any more.
    late = image.brokers[1]
    await nodes[0].control.local.heartbeat(1, late.epoch, metadata_offset=image.number)
    assert nodes[0].control.local.image.brokers[1].fenced
    epoch = await nodes[0].control.local.register(nodes[1].record(fenced=True), late.epoch)
    assert epoch > late.epoch
    standing = await nodes[0].control.local.heartbeat(1, epoch, metadata_offset=epoch)
    assert not standing.is_fenced


async def test_registration_asked_twice_is_one(nodes: list[Node]):
    local = nodes[0].control.local
    number = nodes[0].tail.image.number
    epoch = nodes[0].tail.image.brokers[1].epoch
    assert await local.register(nodes[1].record(fenced=True), -1) == epoch
    assert nodes[0].tail.image.number == number


async def test_who_was_unfenced_while_it_died_is_fenced_by_the_next_look(nodes: list[Node]):
    await nodes[1].members.leave()
    await nodes[0].look()
    other = nodes[1]
    await other.members.join()
    local = nodes[0].control.local
    epoch = await local.register(other.record(fenced=True), -1)
    await local.heartbeat(1, epoch, metadata_offset=epoch)
    assert not local.image.brokers[1].fenced
    await other.members.leave()  # and the sessions are the same as when the controller last looked
    await nodes[0].look()
    assert nodes[0].tail.image.brokers[1].fenced


async def test_a_topic_is_made_once_by_all_who_need_it(nodes: list[Node]):
    made = await asyncio.gather(*(nodes[0].control.ensure_topic("orders") for _ in range(10)))
    assert {each.id for each in made} == {nodes[0].tail.image.topics["orders"].id}
    with pytest.raises(InvalidTopicException):
        await nodes[0].control.ensure_topic("a/b")


async def test_nobody_waits_for_ever_for_a_controller(nodes: list[Node]):
    with pytest.raises(NetworkException):
        await nodes[1].control.anywhere(lambda each: each.allocate_producer_ids(), timeout_ms=1)


async def test_a_broker_that_stops_hands_over(nodes: list[Node]):
    await topic(nodes)
    standing = await nodes[0].control.heartbeat(want_shut_down=True)
    assert standing.should_shut_down
    assert 0 not in leaders(nodes[0])
    assert all(0 not in state.isr for state in nodes[0].tail.image.topics["orders"].partitions)
    again = await nodes[0].control.heartbeat(want_shut_down=True)
    assert again.should_shut_down


async def test_the_last_in_sync_keeps_its_partition(nodes: list[Node]):
    await topic(nodes, assignments={0: (2,)})
    await nodes[2].members.leave()
    await nodes[0].look()
    (state,) = nodes[0].tail.image.topics["orders"].partitions
    assert (state.leader, state.isr) == (NO_LEADER, (2,))
    await nodes[2].members.join()
    local = nodes[0].control.local
    epoch = await local.register(nodes[2].record(fenced=True), -1)
    await local.heartbeat(2, epoch, metadata_offset=epoch)
    (after,) = local.image.topics["orders"].partitions
    assert after.leader == 2
    assert after.leader_epoch > state.leader_epoch


async def test_a_lost_answer_to_an_isr_change_does_no_harm(nodes: list[Node]):
    topic_id = await topic(nodes, assignments={0: (0, 1, 2)})
    change = IsrChange(topic_id, 0, 0, 0, (0, 1))
    for _ in range(2):
        (state,) = await nodes[0].control.alter_partition([change])
        assert state.isr == (0, 1)
    assert nodes[0].tail.image.topics["orders"].partitions[0].partition_epoch == 1


async def test_a_metastore_that_is_away_is_an_error_that_passes(nodes: list[Node], monkeypatch):
    async def away(*_):
        raise MetastoreError("cut off")

    with monkeypatch.context() as cut:
        cut.setattr(nodes[0].metastore, "append", away)
        with pytest.raises(RequestTimedOut, match="cut off"):
            await nodes[0].control.create_topics([NewTopic(name="a")])
        cut.setattr(nodes[0].metastore, "heartbeat", away)
        await nodes[0].members.heartbeat()
    assert nodes[0].control.is_active
    await nodes[0].control.create_topics([NewTopic(name="a")])


async def test_logs_that_take_long_to_make_do_not_keep_the_controller_from_deciding(
    nodes: list[Node],
):
    await topic(nodes)
    made = asyncio.Event()

    async def slow(image, delta):
        if delta.created:
            await made.wait()

    nodes[0].tail.prepare(slow)
    creating = asyncio.create_task(nodes[0].control.create_topics([NewTopic(name="large")]))
    await nodes[2].members.leave()
    while not nodes[0].control.local.image.brokers[2].fenced:
        await nodes[0].members._watch_over(await nodes[0].metastore.tick())
        await asyncio.sleep(0)
    assert all(
        2 not in each.isr for each in nodes[0].control.local.image.topics["orders"].partitions
    )
    assert not creating.done()
    made.set()
    await creating
    assert "large" in nodes[0].tail.image.topics


async def test_nobody_waits_for_a_controller_that_was_replaced(nodes: list[Node], clock):
    asked = []

    class Silent(NobodyElse):
        async def ask(self, broker_id, request, **_):
            asked.append(broker_id)
            if broker_id == 0:  # paused: it takes requests and answers none
                await asyncio.Event().wait()
            return AllocateProducerIdsResponse(producer_id_start=7, producer_id_len=3)

    nodes[2].control._peers = Silent()
    waiting = asyncio.create_task(nodes[2].control.allocate_producer_ids())
    while not asked:  # noqa: ASYNC110
        await asyncio.sleep(0)
    await nodes[0].members.leave()
    await nodes[1].look()
    await nodes[2].look()
    assert await waiting == range(7, 10)
    assert asked == [0, 1]


async def test_preferred_leaders_get_back_what_others_lead(nodes: list[Node]):
    topic_id = await topic(nodes)
    local = nodes[0].control.local
    assert await local.rebalance(10) == 0
    await nodes[2].members.leave()
    await nodes[0].look()
    await nodes[2].members.join()
    epoch = await local.register(nodes[2].record(fenced=True), -1)
    await local.heartbeat(2, epoch, metadata_offset=epoch)
    for index, state in enumerate(local.image.topics["orders"].partitions):
        change = IsrChange(topic_id, index, state.leader_epoch, state.partition_epoch, (0, 1, 2))
        leader = local.image.brokers[state.leader]
        (outcome,) = await local.alter_partition(leader.id, leader.epoch, [change])
        assert len(outcome.isr) == 3
    assert 2 not in {state.leader for state in local.image.topics["orders"].partitions}
    assert await local.rebalance(100) == 0, "one of its one is not more than a hundred percent"
    assert await local.rebalance(10) == 1
    assert sorted(leaders(nodes[0])) == [0, 1, 2]


async def test_a_broker_that_the_store_has_not_heard_of_says_so_once(
    nodes: list[Node], clock, monkeypatch, caplog
):
    async def away(session):
        raise MetastoreError("nobody answers")

    monkeypatch.setattr(nodes[0].metastore, "heartbeat", away)
    for passed_ms, told in ((TIMEOUT_MS // 2, 0), (TIMEOUT_MS // 2, 1), (TIMEOUT_MS, 1)):
        clock.advance(passed_ms)
        await nodes[0].members.heartbeat()
        assert sum("no sign of life from" in each for each in caplog.messages) == told
