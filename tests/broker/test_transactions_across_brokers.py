"""A transaction whose coordinator, partitions and group live on three brokers, joined by a wire that tests can hold."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from transaction_rig import INTERNAL, TransactionRig

from tidelog.coordination.transactions.transaction import Identity
from tidelog.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    NetworkException,
    NotCoordinator,
    NotEnoughReplicas,
    TransactionAbortable,
)
from tidelog.names import CONSUMER_OFFSETS, TRANSACTION_STATE
from tidelog.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from tidelog.protocol.messages.find_coordinator import FindCoordinatorRequest
from tidelog.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tidelog.protocol.messages.write_txn_markers import WriteTxnMarkersRequest

COORDINATOR, EVENTS, OFFSETS = 1, 2, 3
LEADERS = {TRANSACTION_STATE: COORDINATOR, "events": EVENTS, CONSUMER_OFFSETS: OFFSETS}
VERSIONS = {AddPartitionsToTxnRequest: 5, WriteTxnMarkersRequest: 1}


class Wire:
    """How the brokers reach each other."""

    def __init__(self) -> None:
        self.rigs: dict[int, TransactionRig] = {}
        self.asked: list[tuple[int, Any]] = []
        self.cut = False
        self.before_answer: Any = None
        """Awaited when the other broker has decided, and before the one that asks hears of it."""

    async def ask(self, broker_id: int, request: Any, **_: Any) -> Any:
        self.asked.append((broker_id, request))
        if self.cut:
            raise NetworkException("cut")
        await asyncio.sleep(0)
        answer = await self.rigs[broker_id].ask(request, VERSIONS[type(request)])
        if self.before_answer is not None and isinstance(request, AddPartitionsToTxnRequest):
            held, self.before_answer = self.before_answer, None
            await held()
        return answer

    def count(self, kind: type) -> int:
        return sum(isinstance(request, kind) for _, request in self.asked)


class Cluster:
    def __init__(self, directory: Path) -> None:
        self.wire = Wire()
        for broker_id in (COORDINATOR, EVENTS, OFFSETS):
            self.wire.rigs[broker_id] = TransactionRig(
                directory / str(broker_id), broker_id=broker_id, leaders=LEADERS, peers=self.wire
            )
        for rig in self.wire.rigs.values():
            for name in (CONSUMER_OFFSETS, TRANSACTION_STATE):
                rig._open(name)
            rig.start()
        self.coordinator = self.wire.rigs[COORDINATOR]
        self.events = self.wire.rigs[EVENTS]
        self.offsets = self.wire.rigs[OFFSETS]

    async def settle(self) -> None:
        for _ in range(3):
            for rig in self.wire.rigs.values():
                await rig.settle()

    async def stop(self) -> None:
        for rig in self.wire.rigs.values():
            await rig.stop()


@pytest.fixture
async def cluster(tmp_path) -> AsyncIterator[Cluster]:
    made = Cluster(tmp_path)
    await made.settle()
    yield made
    await made.stop()


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("version", [11, 12])
async def test_a_whole_transaction(cluster, version, commit):
    joins = version == 12
    producer = await cluster.coordinator.init()
    if not joins:
        assert await cluster.coordinator.add_partitions(producer, 0, 1) == 0
        assert await cluster.coordinator.add_offsets(producer) == 0
    for index in (0, 1):
        assert await cluster.events.produce(producer, index, b"v", version=version) == 0
    assert await cluster.offsets.commit_offset(producer, 7, version=5 if joins else 3) == 0
    assert await cluster.events.read() == [[], []]
    ended = await cluster.coordinator.end(producer, commit, version=5 if joins else 4)
    assert ended.error_code == 0
    await cluster.settle()
    assert await cluster.events.read() == ([[b"v"], [b"v"]] if commit else [[], []])
    assert await cluster.offsets.offset(require_stable=True) == (7 if commit else -1, 0)
    # The next one begins at once.
    if joins:
        producer = Identity(ended.producer_id, ended.producer_epoch)
    else:
        assert await cluster.coordinator.add_partitions(producer, 0) == 0
    sequence = 0 if joins else 1
    assert await cluster.events.produce(producer, 0, b"w", sequence=sequence, version=version) == 0


async def test_the_coordinator_is_asked_once_a_transaction(cluster):
    producer = await cluster.coordinator.init()
    for sequence in range(5):
        code = await cluster.events.produce(producer, 0, b"v", sequence=sequence, version=12)
        assert code == 0
    assert cluster.wire.count(AddPartitionsToTxnRequest) == 1


async def test_pipelined_batches_keep_their_order_while_the_first_is_let_in(cluster):
    producer = await cluster.coordinator.init()
    codes = await asyncio.gather(
        *(
            cluster.events.produce(producer, 0, b"%d" % each, sequence=each, version=12)
            for each in range(5)
        )
    )
    assert codes == [0] * 5
    await cluster.coordinator.end(producer, version=5)
    await cluster.settle()
    assert (await cluster.events.read())[0] == [b"0", b"1", b"2", b"3", b"4"]


async def test_a_batch_outside_of_a_transaction_is_refused(cluster):
    producer = await cluster.coordinator.init()
    code = await cluster.events.produce(producer, 0, b"v", version=11)
    assert code == TransactionAbortable.code
    assert await cluster.events.produce(producer, 0, b"v", version=10) == InvalidTxnState.code
    assert cluster.events.partition(0).log_end_offset == 0


async def test_a_fenced_producer_is_refused(cluster):
    zombie = await cluster.coordinator.init()
    await cluster.coordinator.init()
    code = await cluster.events.produce(zombie, 0, b"v", version=12)
    assert code == InvalidProducerEpoch.code


async def test_a_coordinator_that_is_away_makes_the_producer_come_again(cluster):
    producer = await cluster.coordinator.init()
    cluster.wire.cut = True
    code = await cluster.events.produce(producer, 0, b"v", version=12)
    assert code == NotEnoughReplicas.code
    cluster.wire.cut = False
    assert await cluster.events.produce(producer, 0, b"v", version=12) == 0


async def test_markers_reach_a_broker_when_it_is_back(cluster):
    producer = await cluster.coordinator.init()
    assert await cluster.events.produce(producer, 0, b"v", version=12) == 0
    cluster.wire.cut = True
    assert (await cluster.coordinator.end(producer, version=5)).error_code == 0
    await cluster.settle()
    assert (await cluster.events.read())[0] == []
    cluster.wire.cut = False
    await cluster.coordinator.timers.advance(1_000)
    await cluster.settle()
    assert (await cluster.events.read())[0] == [b"v"]


async def test_a_marker_that_overtakes_the_permission_voids_it(cluster):
    """The batch would open a transaction that nobody ends."""
    producer = await cluster.coordinator.init()
    assert await cluster.coordinator.add_partitions(producer, 0) == 0

    async def abort() -> None:
        await cluster.coordinator.end(producer, commit=False)
        await cluster.settle()

    cluster.wire.before_answer = abort
    code = await cluster.events.produce(producer, 0, b"late", version=11)
    assert code == TransactionAbortable.code  # asked again, and told so
    partition = cluster.events.partition(0)
    assert partition.log.last_stable_offset == partition.high_watermark


async def test_a_permission_of_an_older_leader_epoch_is_void(cluster):
    producer = await cluster.coordinator.init()
    assert await cluster.coordinator.add_partitions(producer, 0) == 0
    transactions = cluster.events.services.transactions
    await transactions.entered("x", producer, ("events", 0), joins=False)
    transactions.check("x", producer, ("events", 0))
    cluster.events.partition(0).leader_epoch += 1
    with pytest.raises(NotCoordinator):
        transactions.check("x", producer, ("events", 0))


async def test_offsets_of_a_transaction_that_ended_meanwhile_are_refused(cluster):
    producer = await cluster.coordinator.init()
    assert await cluster.coordinator.add_offsets(producer) == 0

    async def abort() -> None:
        await cluster.coordinator.end(producer, commit=False)
        await cluster.settle()

    cluster.wire.before_answer = abort
    assert await cluster.offsets.commit_offset(producer, 7) == InvalidTxnState.code
    assert await cluster.offsets.offset(require_stable=True) == (-1, 0)


async def test_every_broker_knows_the_coordinators(cluster):
    for rig in cluster.wire.rigs.values():
        for kind, leader in ((0, OFFSETS), (1, COORDINATOR)):
            request = FindCoordinatorRequest(key_type=kind, coordinator_keys=["x"])
            (found,) = (await rig.ask(request, 4)).coordinators
            assert (found.error_code, found.node_id, found.port) == (0, leader, 9091 + leader)


async def test_who_is_no_coordinator_says_so(cluster):
    assert (await cluster.events.end(Identity(1, 0))).error_code == NotCoordinator.code
    asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
    assert (await cluster.events.ask(asked, 8)).groups[0].error_code == NotCoordinator.code


async def test_a_coordinator_that_takes_over_finishes_what_was_decided(cluster):
    producer = await cluster.coordinator.init()
    assert await cluster.events.produce(producer, 0, b"v", version=12) == 0
    cluster.wire.cut = True
    assert (await cluster.coordinator.end(producer, version=5)).error_code == 0
    await cluster.settle()
    old = cluster.coordinator
    # Its partitions move to another broker, with everything in them.
    _move(cluster, TRANSACTION_STATE, OFFSETS)
    for index in (0, 1):
        name = f"{TRANSACTION_STATE}-{index}"
        old.services.partitions.remove(TRANSACTION_STATE, index, NotCoordinator())
        shutil.copytree(old.directory / name, cluster.offsets.directory / name)
        cluster.offsets.add(TRANSACTION_STATE, index, INTERNAL[TRANSACTION_STATE], 1)
    for rig in cluster.wire.rigs.values():
        rig.start()
    cluster.wire.cut = False
    await cluster.settle()
    assert (await cluster.events.read())[0] == [b"v"]
    assert (await old.end(producer)).error_code == NotCoordinator.code
    await cluster.offsets.init()


def _move(cluster: Cluster, topic: str, leader: int) -> None:
    for rig in cluster.wire.rigs.values():
        moved = rig.image.topics[topic]
        states = tuple(
            replace(each, leader=leader, leader_epoch=each.leader_epoch + 1)
            for each in moved.partitions
        )
        topics = {**rig.image.topics, topic: replace(moved, partitions=states)}
        rig.image = replace(rig.image, number=rig.image.number + 1, topics=topics)
