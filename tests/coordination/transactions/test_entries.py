"""Questions of partition leaders to the coordinators of other brokers, and what may happen while they are under way."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tidelog.coordination.transactions.entries import Entries
from tidelog.coordination.transactions.transaction import Identity, Place
from tidelog.errors import ProducerFenced
from tidelog.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)

PLACE: Place = ("events", 0)
PRODUCER = Identity(7, 3)


class Coordinator:
    """Another broker, which answers when the test lets it."""

    def __init__(self) -> None:
        self.asked: list[AddPartitionsToTxnRequest] = []
        self.may_answer = asyncio.Event()
        self.codes: dict[int, int] = {}
        """By producer epoch: what it is told, if not success."""

    async def ask(self, broker_id: int, request: Any, **_: Any) -> AddPartitionsToTxnResponse:
        self.asked.append(request)
        await self.may_answer.wait()
        (transaction,) = request.transactions
        code = self.codes.get(transaction.producer_epoch, 0)
        return AddPartitionsToTxnResponse(
            results_by_transaction=[
                AddPartitionsToTxnResult(
                    transactional_id=transaction.transactional_id,
                    topic_results=[
                        AddPartitionsToTxnTopicResult(
                            name=topic.name,
                            results_by_partition=[
                                AddPartitionsToTxnPartitionResult(
                                    partition_index=index, partition_error_code=code
                                )
                                for index in topic.partitions
                            ],
                        )
                        for topic in transaction.topics
                    ],
                )
            ]
        )


class Rig:
    def __init__(self) -> None:
        self.coordinator = Coordinator()
        log = SimpleNamespace(producers=SimpleNamespace(by_id={}))
        partition = SimpleNamespace(leader_epoch=5, log=log)
        self.entries = Entries(cast(Any, self.coordinator), lambda place: cast(Any, partition))

    def enter(self, *places: Place, producer: Identity = PRODUCER) -> "asyncio.Future[None] | None":
        return self.entries.enter(1, "x", producer, places or (PLACE,), joins=True)


@pytest.fixture
def rig() -> Rig:
    return Rig()


async def test_an_answer_lets_its_producer_in(rig):
    waiting = rig.enter()
    assert rig.enter() is waiting  # one question is enough
    rig.coordinator.may_answer.set()
    await waiting
    assert rig.enter() is None
    assert len(rig.coordinator.asked) == 1


@pytest.mark.parametrize("turns", range(4))
async def test_a_marker_at_any_moment_makes_another_question(rig, turns):
    """Also before the first has left this broker: it must not stay behind as one that is answered for ever."""
    waiting = rig.enter(PLACE, ("events", 1))
    for _ in range(turns):
        await asyncio.sleep(0)
    rig.entries.ended(PLACE, PRODUCER.producer_id)
    rig.coordinator.may_answer.set()
    await waiting
    again = rig.enter(PLACE, ("events", 1))
    assert again is not None
    assert not again.done()
    await again
    assert rig.enter(PLACE, ("events", 1)) is None
    assert [len(each.transactions[0].topics[0].partitions) for each in rig.coordinator.asked] == [
        2,
        1,
    ]


async def test_what_another_epoch_is_told_is_not_told_to_this_one(rig):
    """A zombie is fenced; its successor, whose batch comes while the zombie's is looked at, is not."""
    zombie = Identity(PRODUCER.producer_id, PRODUCER.producer_epoch - 1)
    rig.coordinator.codes[zombie.producer_epoch] = ProducerFenced.code
    refused = rig.enter(producer=zombie)
    waiting = rig.enter()
    rig.coordinator.may_answer.set()
    with pytest.raises(ProducerFenced):
        await refused
    await waiting
    assert rig.enter() is None


async def test_a_question_that_was_given_up_before_it_began_is_forgotten(rig):
    waiting = rig.enter()
    await rig.entries.stop()
    assert waiting.cancelled()
    again = rig.enter()
    assert again is not waiting
    rig.coordinator.may_answer.set()
    await again
