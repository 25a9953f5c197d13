"""The talk with the controller about in-sync replicas: batched, repeated, and settled once."""

import asyncio
from random import Random
from uuid import UUID

import pytest

from tidelog.clock import SystemClock
from tidelog.cluster.image import PartitionState
from tidelog.cluster.in_sync import InSync
from tidelog.cluster.partition import Partition
from tidelog.cluster.partitions import Partitions
from tidelog.cluster.surroundings import Surroundings
from tidelog.errors import (
    FencedLeaderEpoch,
    IneligibleReplica,
    InvalidUpdateVersion,
    NotController,
    StaleBrokerEpoch,
)
from tidelog.names import TopicPartition
from tidelog.storage.config import LogConfig
from tidelog.storage.files import LocalFiles
from tidelog.storage.flusher import Flusher
from tidelog.storage.log import Log

ID = UUID(int=3)


def state(partition_epoch, isr, epoch=1, leader=1) -> PartitionState:
    return PartitionState(leader, epoch, partition_epoch, (1, 2, 3), isr)


class Rig:
    def __init__(self, directory) -> None:
        self.directory = directory
        self.asked: asyncio.Queue = asyncio.Queue()
        self.partitions = Partitions()
        self.now_ms = 0
        self.max_lag_ms = 1_000_000
        self.in_sync = InSync(
            self.partitions, self.alter, SystemClock(), Random(1), lambda: self.max_lag_ms
        )

    async def alter(self, changes):
        answer = asyncio.get_running_loop().create_future()
        await self.asked.put((changes, answer))
        return await answer

    async def next(self):
        return await asyncio.wait_for(self.asked.get(), 5)

    def lead(self, index=0, isr=(1,)) -> Partition:
        log = Log.open(
            str(self.directory / f"t-{index}"),
            files=LocalFiles(),
            config=LogConfig(),
            clock=SystemClock(),
            topic_partition=TopicPartition("t", index),
        )
        partition = Partition(
            "t", index, ID, log, flusher=Flusher(),
            surroundings=Surroundings(
                broker_id=1,
                now_ms=lambda: self.now_ms,
                max_lag_ms=lambda: self.max_lag_ms,
                eligible=lambda *_: True,
                propose=self.in_sync.propose,
                truncated=lambda *_: None,
            ),
        )  # fmt: skip
        partition.become_leader(state(0, isr))
        self.partitions.add(partition)
        return partition


@pytest.fixture
async def rig(tmp_path):
    rig = Rig(tmp_path)
    task = asyncio.create_task(rig.in_sync.run())
    yield rig
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def settled(partition: Partition) -> None:
    while partition.followers is not None and partition.followers.proposal is not None:  # noqa: ASYNC110
        await asyncio.sleep(0)


async def test_what_comes_up_together_is_asked_together(rig):
    both = [rig.lead(0), rig.lead(1)]
    for partition in both:
        partition.fetched_by(2, 22, 0, 0, 0)
    changes, answer = await rig.next()
    assert [each.index for each in changes] == [0, 1]
    assert {each.isr for each in changes} == {(1, 2)}
    assert {each.broker_epochs for each in changes} == {(-1, 22)}
    both[0].fetched_by(3, 33, 0, 0, 0)  # one at a time for each partition
    answer.set_result([state(1, (1, 2)), state(1, (1, 2))])
    for partition in both:
        await settled(partition)
        assert partition.followers.isr == (1, 2)
    both[0].fetched_by(3, 33, 0, 0, 0)
    changes, _ = await rig.next()
    assert [(each.isr, each.partition_epoch) for each in changes] == [((1, 2, 3), 1)]


@pytest.mark.parametrize(
    "trouble", [NotController(), StaleBrokerEpoch(), [NotController()], RuntimeError("a fault")]
)
async def test_no_answer_means_asking_again(rig, trouble):
    partition = rig.lead()
    partition.fetched_by(2, 22, 0, 0, 0)
    first, answer = await rig.next()
    if isinstance(trouble, list):
        answer.set_result(trouble)
    else:
        answer.set_exception(trouble)
    again, answer = await rig.next()
    assert again == first
    assert partition.followers.maximal_isr == {1, 2}  # it may have been carried out
    answer.set_result([state(1, (1, 2))])
    await settled(partition)


async def test_a_refusal_takes_the_proposal_back(rig):
    partition = rig.lead()
    partition.fetched_by(2, 22, 0, 0, 0)
    _, answer = await rig.next()
    answer.set_result([IneligibleReplica()])
    await settled(partition)
    assert partition.followers.maximal_isr == {1}


@pytest.mark.parametrize("error", [FencedLeaderEpoch(), InvalidUpdateVersion()])
async def test_who_is_outdated_waits_for_the_image(rig, error):
    partition = rig.lead()
    partition.fetched_by(2, 22, 0, 0, 0)
    _, answer = await rig.next()
    answer.set_result([error])
    for _ in range(5):
        await asyncio.sleep(0)
    assert partition.followers.proposal is not None
    partition.become_leader(state(1, (1, 2)))
    assert partition.followers.proposal is None


async def test_an_answer_that_the_image_has_overtaken_changes_nothing(rig):
    partition = rig.lead()
    partition.fetched_by(2, 22, 0, 0, 0)
    _, answer = await rig.next()
    partition.become_follower(state(2, (2,), epoch=2, leader=2))
    answer.set_result([state(1, (1, 2))])
    for _ in range(5):
        await asyncio.sleep(0)
    assert partition.followers is None
    assert partition.partition_epoch == 2


async def test_those_that_lag_are_looked_for(tmp_path):
    rig = Rig(tmp_path)
    rig.max_lag_ms = 20
    partition = rig.lead(isr=(1, 2, 3))
    partition.fetched_by(2, 22, 0, 0, 0)
    rig.now_ms = 1_000_000
    task = asyncio.create_task(rig.in_sync.run())
    changes, _ = await rig.next()
    assert [each.isr for each in changes] == [(1, 2)]  # the other one has all that there is
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
