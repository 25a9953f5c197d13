"""A log directory that fails: its replicas are offline until it is back, whatever the cluster does meanwhile."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from test_cluster import Cluster

from tidelog import aio
from tidelog.broker.broker import Broker
from tidelog.errors import KafkaStorageError, NotLeaderOrFollower
from tidelog.names import TopicPartition
from tidelog.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tidelog.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from tidelog.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tidelog.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

RECORDS = 10


class Disks(Cluster):
    """Every broker has two log directories, `one` and `two`."""

    def make(self, number: int, **more: str) -> Broker:
        log_dirs = ",".join(str(self.disk(number, each)) for each in ("one", "two"))
        return super().make(number, **{"log.dirs": log_dirs, **more})

    def disk(self, number: int, which: str) -> Path:
        return self._directory / str(number) / which

    def break_disk(self, number: int, which: str = "two") -> None:
        disk = self.disk(number, which)
        disk.rename(disk.with_name("away"))
        disk.write_text("not a directory")

    def mend_disk(self, number: int, which: str = "two") -> None:
        disk = self.disk(number, which)
        disk.unlink()
        disk.with_name("away").rename(disk)

    def on_disk(self, number: int, topic: str, which: str = "two") -> list[int]:
        """The partitions of the topic that lie on a disk of a broker."""
        found = self.disk(number, which).glob(f"{topic}-*")
        return sorted(int(each.name.rpartition("-")[2]) for each in found if "." not in each.name)

    async def create_on(self, replicas: list[int], topic: str, partitions: int) -> None:
        assigned = [
            CreatableReplicaAssignment(partition_index=index, broker_ids=replicas)
            for index in range(partitions)
        ]
        wanted = CreatableTopic(
            name=topic, num_partitions=-1, replication_factor=-1, assignments=assigned
        )
        answer = await self.ask(replicas[0], CreateTopicsRequest(topics=[wanted]))
        assert answer.topics[0].error_code == 0, answer

    async def reassign(self, topic: str, index: int, replicas: list[int]) -> None:
        partition = ReassignablePartition(partition_index=index, replicas=replicas)
        moved = [ReassignableTopic(name=topic, partitions=[partition])]
        answer = await self.ask(self.controller, AlterPartitionReassignmentsRequest(topics=moved))
        assert answer.responses[0].partitions[0].error_code == 0, answer

    async def delete(self, topic: str) -> None:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)])
        answer = await self.ask(self.controller, request)
        assert answer.responses[0].error_code == 0

    async def fill(self, topic: str, partitions: int) -> None:
        where = ",".join(f"{b.addresses[0][0]}:{b.addresses[0][1]}" for b in self.brokers.values())
        async with aio.Producer(bootstrap_servers=where, acks="all") as producer:
            for number in range(RECORDS * partitions):
                await producer.send(topic, b"%d" % number, partition=number % partitions)
            await producer.flush()

    async def ends(self, number: int, topic: str, partitions: int) -> list[int]:
        """By partition the end that a broker tells, or its error, negative."""
        asked = [ListOffsetsPartition(partition_index=i, timestamp=-1) for i in range(partitions)]
        request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=topic, partitions=asked)])
        (answer,) = (await self.ask(number, request)).topics
        return [-each.error_code or each.offset for each in answer.partitions]

    def log_end(self, number: int, topic: str, index: int) -> int:
        logs = self.brokers[number]._logs
        assert logs is not None
        found = logs.get(TopicPartition(topic, index))
        assert found is not None
        return found.log_end_offset

    async def leader(self, number: int, topic: str, index: int) -> int:
        return (await self.partitions(number, topic))[index].leader_id


@pytest.fixture
async def disks(tmp_path: Path) -> AsyncIterator[Disks]:
    made = Disks(tmp_path)
    yield made
    await made.stop(*made.brokers)


async def test_a_restart_without_a_disk_does_not_begin_its_logs_anew(disks: Disks):
    """Two brokers, factor 1: the image changes with the unfencing, and nothing is made on the disk that is left."""
    await disks.start(0, 1)
    await disks.create_on([1], "orders", 4)
    await disks.fill("orders", 4)
    lost = disks.on_disk(1, "orders")
    assert len(lost) == 2
    await disks.stop(1)
    disks.break_disk(1)
    await disks.start(1)
    await disks.create_on([1], "later", 2)  # the image goes on

    expected = [-KafkaStorageError.code if i in lost else RECORDS for i in range(4)]
    assert await disks.ends(1, "orders", 4) == expected
    for index in lost:
        assert await disks.leader(0, "orders", index) == -1
        told = (await disks.partitions(0, "orders"))[index]
        assert (told.isr_nodes, told.offline_replicas) == ([1], [1])
    assert disks.on_disk(1, "orders", "one") == [i for i in range(4) if i not in lost]
    await disks.fill("later", 2)
    assert await disks.ends(1, "later", 2) == [RECORDS] * 2

    await disks.stop(1)
    disks.mend_disk(1)
    await disks.start(1)
    assert await disks.ends(1, "orders", 4) == [RECORDS] * 4
    assert await disks.ends(1, "later", 2) == [RECORDS] * 2


async def test_no_replica_is_cut_back_to_the_log_of_a_failed_disk(disks: Disks):
    """Three brokers, factor 2, acks=all: the last in-sync replica comes back without its disk."""
    await disks.start(0, 1, 2)
    await disks.create_on([1, 2], "orders", 2)
    await disks.fill("orders", 2)
    [lost] = disks.on_disk(1, "orders")
    await disks.stop(2)
    await disks.stop(1)
    disks.break_disk(1)
    await disks.start(1)
    await disks.start(2)
    await disks.create_on([1, 2], "later", 2)

    assert await disks.leader(0, "orders", lost) == -1
    assert disks.log_end(2, "orders", lost) == RECORDS
    assert (await disks.ends(1, "orders", 2))[lost] == -KafkaStorageError.code
    assert (await disks.ends(2, "orders", 2))[lost] == -NotLeaderOrFollower.code

    await disks.stop(1)
    disks.mend_disk(1)
    await disks.start(1)

    async def whole() -> bool:
        found = (await disks.partitions(0, "orders"))[lost]
        return sorted(found.isr_nodes) == [1, 2]

    await disks.until(whole)
    assert (disks.log_end(1, "orders", lost), disks.log_end(2, "orders", lost)) == (10, 10)
    leader = await disks.leader(0, "orders", lost)
    assert (await disks.ends(leader, "orders", 2))[lost] == RECORDS


async def test_a_replica_without_its_disk_hands_on_what_others_have(disks: Disks):
    await disks.start(0, 1, 2)
    await disks.create_on([1, 2], "orders", 2)
    await disks.fill("orders", 2)
    [lost] = disks.on_disk(1, "orders")
    await disks.stop(1)
    disks.break_disk(1)
    await disks.start(1)

    async def settled() -> bool:
        found = (await disks.partitions(0, "orders"))[lost]
        return (found.leader_id, found.isr_nodes, found.offline_replicas) == (2, [2], [1])

    await disks.until(settled)
    await disks.fill("orders", 2)
    await disks.stop(1)
    disks.mend_disk(1)
    await disks.start(1)

    async def whole() -> bool:
        found = (await disks.partitions(0, "orders"))[lost]
        return sorted(found.isr_nodes) == [1, 2]

    await disks.until(whole)
    assert disks.log_end(1, "orders", lost) == 2 * RECORDS


@pytest.mark.parametrize("how", ["moved", "deleted"])
async def test_the_disk_of_a_replica_that_went_and_came_again(disks: Disks, how: str):
    """While the disk is away its partition is moved away and back, or deleted and made anew: the old log is set aside."""
    await disks.start(0, 1)
    await disks.create_on([0, 1], "orders", 2)
    await disks.fill("orders", 2)
    [lost] = disks.on_disk(1, "orders")
    await disks.stop(1)
    disks.break_disk(1)
    await disks.start(1)
    if how == "moved":
        for replicas in ([0], [0, 1]):
            await disks.reassign("orders", lost, replicas)

            async def moved(replicas: list[int] = replicas) -> bool:
                found = (await disks.partitions(0, "orders"))[lost]
                return sorted(found.replica_nodes) == sorted(found.isr_nodes) == replicas

            await disks.until(moved)
    else:
        await disks.delete("orders")
        await disks.create_on([0, 1], "orders", 2)
        await disks.fill("orders", 2)
    assert lost in disks.on_disk(1, "orders", "one")

    await disks.stop(1)
    disks.mend_disk(1)
    await disks.start(1)
    async with asyncio.timeout(30):
        await disks.until(lambda: _in_sync(disks, "orders"))
    assert [disks.log_end(1, "orders", index) for index in range(2)] == [RECORDS] * 2
    assert [each.name for each in disks.disk(1, "two").glob(f"orders-{lost}.*-stray")]


async def _in_sync(disks: Disks, topic: str) -> Any:
    return all(len(each.isr_nodes) == 2 for each in await disks.partitions(0, topic))
