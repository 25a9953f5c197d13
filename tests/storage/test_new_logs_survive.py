"""A power cut right after the first batch of a new log was synced, and so acknowledged: log and batch are there."""

import asyncio
from uuid import uuid4

import pytest

from tidelog.names import TopicPartition
from tidelog.storage.config import LogConfig
from tidelog.storage.files import Files, LocalFiles
from tidelog.storage.flusher import Flusher
from tidelog.storage.manager import LogManager
from tidelog.testing.faulty_files import FaultyFiles

A, B = TopicPartition("a", 0), TopicPartition("a", 1)


def manager(bench, files: Files) -> LogManager:
    # The data directory and the one above it are new, too.
    path = f"{bench.root}/var/data"
    logs = LogManager([path], files=files, clock=bench.clock, config=LogConfig(), flusher=Flusher())
    logs.start(broker_id=0, cluster_id="c")
    return logs


@pytest.mark.parametrize("seed", [None, *range(8)])
@pytest.mark.parametrize("many", [False, True])
async def test_the_first_batch_of_a_new_log(bench, seed, many):
    files = FaultyFiles(bench.root)
    logs = manager(bench, files)
    topic_id = uuid4()
    if many:
        await logs.create_many([(each, topic_id, LogConfig()) for each in (A, B)])
    for each in (A, B):
        log = logs.get_or_create(each, topic_id)
        bench.append(log, [b"first"], epoch=1)
        await asyncio.wait_for(Flusher().flush(log, 1), 10)
    logs.release()
    files.cut_power(seed)

    logs = manager(bench, LocalFiles())
    for each in (A, B):
        log = logs.get(each)
        assert log is not None
        assert bench.values(log) == [b"first"]
        assert log.topic_id == topic_id
        assert log.epochs.latest == 1
    logs.release()
