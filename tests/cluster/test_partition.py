"""Appending, committing and finding partitions."""

import asyncio
from uuid import UUID

import pytest

from tidelog.cluster.partition import Partition
from tidelog.cluster.partitions import Partitions
from tidelog.errors import (
    KafkaStorageError,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from tidelog.names import TopicPartition
from tidelog.records.batch import parse_header
from tidelog.records.builder import build_batch
from tidelog.storage.config import LogConfig
from tidelog.storage.files import LocalFiles
from tidelog.storage.flusher import Flusher
from tidelog.storage.log import Log
from tidelog.testing.manual_clock import ManualClock

ID = UUID(int=77)


class GatedFlusher(Flusher):
    """Flushes when the test lets it, and counts."""

    def __init__(self):
        super().__init__()
        self.gate = asyncio.Event()
        self.flushes = 0
        self.error = None

    async def flush(self, log, up_to):
        self.flushes += 1
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        await super().flush(log, up_to)


def partition_of(directory, flusher, index=0, **config) -> Partition:
    log = Log.open(
        str(directory / f"t-{index}"),
        files=LocalFiles(),
        config=LogConfig(**config),
        clock=ManualClock(),
        topic_partition=TopicPartition("t", index),
    )
    return Partition("t", index, ID, log, 0, flusher=flusher)


def append(partition: Partition, value: bytes = b"v"):
    batch = build_batch([(1_700_000_000_000, None, value, ())])
    return partition.append(batch, parse_header(batch))


async def test_without_a_flush_policy_an_append_is_committed_at_once(tmp_path):
    partition = partition_of(tmp_path, Flusher())
    appended = append(partition)
    assert partition.committed(appended.last_offset) is None
    assert partition.flushed(appended.last_offset) is None
    assert partition.high_watermark == partition.log.last_stable_offset == 1


async def test_many_commits_share_a_flush(tmp_path):
    flusher = GatedFlusher()
    partition = partition_of(tmp_path, flusher, flush_messages=1)
    waits = [partition.committed(append(partition).last_offset) for _ in range(10)]
    await asyncio.sleep(0)
    assert partition.high_watermark == 0
    late = [partition.committed(append(partition).last_offset) for _ in range(10)]
    flusher.gate.set()
    await asyncio.gather(*waits, *late)
    assert flusher.flushes <= 2
    assert partition.high_watermark == partition.log.recovery_point == 20


async def test_an_append_behind_a_flush_waits_for_it(tmp_path):
    flusher = GatedFlusher()
    partition = partition_of(tmp_path, flusher, flush_messages=3)
    assert [partition.committed(append(partition).last_offset) for _ in range(2)] == [None, None]
    third = partition.committed(append(partition).last_offset)
    fourth = partition.committed(append(partition).last_offset)
    assert third is not None
    assert fourth is not None
    assert partition.high_watermark == 2
    flusher.gate.set()
    await asyncio.gather(third, fourth)
    assert partition.high_watermark == 4
    assert partition.committed(append(partition).last_offset) is None


async def test_a_flush_that_fails_fails_who_waits(tmp_path):
    flusher = GatedFlusher()
    flusher.error = KafkaStorageError("the disk is gone")
    flusher.gate.set()
    partition = partition_of(tmp_path, flusher, flush_messages=1)
    waiting = partition.committed(append(partition).last_offset)
    with pytest.raises(KafkaStorageError):
        await waiting
    assert partition.high_watermark == 0


async def test_stopping_fails_who_waits_and_who_comes(tmp_path):
    flusher = GatedFlusher()
    partition = partition_of(tmp_path, flusher, flush_messages=1)
    waiting = partition.committed(append(partition).last_offset)
    partition.stop(UnknownTopicOrPartition())
    with pytest.raises(UnknownTopicOrPartition):
        await waiting
    with pytest.raises(UnknownTopicOrPartition):
        append(partition)
    with pytest.raises(UnknownTopicOrPartition):
        partition.read(0, 100)
    flusher.gate.set()
    await asyncio.sleep(0)


async def test_rules_follow_the_settings(tmp_path):
    partition = partition_of(tmp_path, Flusher())
    assert not partition.rules.compacted
    assert partition.rules is partition.rules
    partition.log.set_config(partition.log.config.over({"cleanup.policy": "compact"}))
    assert partition.rules.compacted


def test_partitions_by_name_and_by_id(tmp_path):
    partitions = Partitions()
    one, two = (partition_of(tmp_path, Flusher(), index) for index in (0, 1))
    partitions.add(one)
    partitions.add(two)
    assert partitions.get("t", 1) is two
    assert partitions.get_by_id(ID, 0) is one
    assert partitions.get_by_id(ID.bytes, 1) is two
    assert len(partitions) == len(list(partitions)) == 2
    with pytest.raises(UnknownTopicOrPartition):
        partitions.get("t", 2)
    with pytest.raises(UnknownTopicOrPartition):
        partitions.get_by_id(ID, 2)
    with pytest.raises(UnknownTopicId):
        partitions.get_by_id(UUID(int=1), 0)
    assert partitions.maybe_get("other", 0) is None


def test_a_failed_disk_takes_its_partitions_offline(tmp_path):
    partitions = Partitions()
    partitions.add(partition_of(tmp_path, Flusher()))
    partitions.set_offline("t", 0)
    with pytest.raises(KafkaStorageError):
        partitions.get("t", 0)
    partitions.remove("t", 0)
    with pytest.raises(UnknownTopicOrPartition):
        partitions.get("t", 0)
