"""Many logs made at once: beside the loop, spread over the directories, whatever the disks do."""

import asyncio
import threading
from uuid import uuid4

import pytest

from tidelog.errors import KafkaStorageError
from tidelog.names import TopicPartition
from tidelog.storage.checkpoints import read_topic_id
from tidelog.storage.config import LogConfig
from tidelog.storage.files import LocalFiles
from tidelog.storage.manager import LogManager
from tidelog.testing.faulty_files import Fault, FaultyFiles

TOPIC_ID = uuid4()


@pytest.fixture
def start(tmp_path, clock):
    made = []

    def make(*names, files=None):
        logs = LogManager(
            [str(tmp_path / name) for name in names or ("data",)],
            files=files or LocalFiles(),
            clock=clock,
            config=LogConfig(),
        )
        logs.start(broker_id=0, cluster_id="c")
        made.append(logs)
        return logs

    yield make
    for logs in made:
        logs.release()


def wanted(count):
    return [(TopicPartition("t", index), TOPIC_ID, LogConfig()) for index in range(count)]


async def test_logs_are_made_once_and_spread(start, bench):
    logs = start("one", "two")
    bench.append(logs.get_or_create(TopicPartition("t", 3), TOPIC_ID), [b"kept"])
    await logs.create_many(wanted(100))
    assert len(logs) == 100
    assert [len(each.logs) for each in logs.directories] == [50, 50]
    assert logs.get(TopicPartition("t", 3)).log_end_offset == 1
    assert logs.get(TopicPartition("t", 99)).topic_id == TOPIC_ID


async def test_they_survive_a_power_cut(start, tmp_path):
    files = FaultyFiles(str(tmp_path))
    logs = start(files=files)
    await logs.create_many(wanted(40))
    again = start(files=files.cut_power())
    assert len(again) == 40
    assert all(log.log_end_offset == 0 for log in again)


async def test_a_disk_that_fails_takes_its_own_and_the_rest_go_elsewhere(start, tmp_path):
    files = FaultyFiles(str(tmp_path))
    logs = start("one", "two", files=files)
    files.plan = lambda point: Fault.IO_ERROR if "/one/t-6" in point.path else None
    await logs.create_many(wanted(100))
    assert logs.directories[0].failure is not None
    offline = 0
    for partition, topic_id, config in wanted(100):
        try:
            logs.get_or_create(partition, topic_id, config)
        except KafkaStorageError:
            offline += 1
            assert logs.home_of(partition) is logs.directories[0]
    assert 0 < offline < 50
    files.plan = None
    logs.release()
    # No log may be on both disks when the broken one is back.
    assert len(start("one", "two", files=files)) == 100


async def test_a_stop_ends_the_making(start, tmp_path, monkeypatch):
    logs = start()
    make = logs._make

    def stop_then_make(*arguments):
        logs._closed = True
        return make(*arguments)

    monkeypatch.setattr(logs, "_make", stop_then_make)
    await logs.create_many(wanted(100))
    assert len(logs) == 0


async def test_a_clean_stop_syncs_nothing_of_logs_without_records(start, tmp_path, bench):
    files = FaultyFiles(str(tmp_path))
    logs = start(files=files)
    await logs.create_many(wanted(20))
    bench.append(logs.get(TopicPartition("t", 7)), [b"x"])
    before = len(files.points)
    logs.close()
    touched = {
        name
        for point in files.points[before:]
        for name in point.path.split("/")
        if name.startswith("t-")
    }
    assert touched == {"t-7"}
    again = start(files=files.cut_power())
    assert again.directories[0].clean
    assert again.get(TopicPartition("t", 7)).log_end_offset == 1
    assert len(again) == 20


async def test_a_log_that_a_thread_makes_is_not_made_by_somebody_else(start, bench):
    """As when a partition that could not be opened is tried again while the image brings a change of it."""
    first = TopicPartition("t", 0)
    refused = []

    class Meanwhile(LocalFiles):
        def make_directory(self, path: str) -> None:
            super().make_directory(path)
            if path.endswith("t-0") and not refused:
                refused.append(path)
                with pytest.raises(KafkaStorageError, match="is being made"):
                    logs.get_or_create(first, TOPIC_ID)

    logs = start(files=Meanwhile())
    await logs.create_many(wanted(2))
    assert refused
    assert logs.get_or_create(first, TOPIC_ID) is logs.get(first)


async def test_whoever_asks_may_go_away_while_a_thread_makes_logs(start, tmp_path):
    """As a client does that creates a topic and hangs up: the next look at the metadata asks for the same logs."""
    entered, go_on = threading.Event(), threading.Event()

    class Slow(LocalFiles):
        def rename(self, source: str, target: str) -> None:
            if target.endswith("t-0/partition.metadata") and not entered.is_set():
                entered.set()
                assert go_on.wait(10)
            super().rename(source, target)

    logs = start(files=Slow())
    first = asyncio.create_task(logs.create_many(wanted(3)))
    await asyncio.to_thread(entered.wait, 10)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    second = asyncio.create_task(logs.create_many(wanted(3)))
    await asyncio.wait({second}, timeout=0.2)  # time to make them a second time
    go_on.set()
    await second
    await asyncio.get_running_loop().shutdown_default_executor()
    assert logs.directories[0].failure is None
    assert len(logs) == 3
    for partition, topic_id, _ in wanted(3):
        assert read_topic_id(LocalFiles(), logs.get(partition).directory) == topic_id
