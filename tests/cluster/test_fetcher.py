"""Following a leader that the test plays: what is asked, what is taken over, and what is not."""

import asyncio
import errno
import os
from random import Random
from uuid import UUID

import pytest

from tidelog.clock import SystemClock
from tidelog.cluster.fetcher import Fetchers, cut_offset
from tidelog.cluster.image import PartitionState
from tidelog.cluster.partition import Partition
from tidelog.cluster.replication_config import ReplicationConfig
from tidelog.cluster.surroundings import Surroundings
from tidelog.errors import (
    FetchSessionIdNotFound,
    NetworkException,
    NotLeaderOrFollower,
    OffsetOutOfRange,
)
from tidelog.kernel import stamp_batch
from tidelog.names import TopicPartition
from tidelog.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from tidelog.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tidelog.records.builder import build_batch
from tidelog.storage.config import LogConfig
from tidelog.storage.files import LocalFiles
from tidelog.storage.flusher import Flusher
from tidelog.storage.log import Log
from tidelog.testing.manual_clock import ManualClock

ID = UUID(int=9)


class Leader:
    """Peers, of whom one leads: hands each request to the test, which answers it."""

    def __init__(self) -> None:
        self.requests: asyncio.Queue = asyncio.Queue()
        self.offsets = {-2: 0, -1: 0}

    async def ask(self, broker_id, request, *, purpose="control", timeout_ms=0, at_most=0):
        if not isinstance(request, FetchRequest):
            asked = request.topics[0].partitions[0]
            found = ListOffsetsPartitionResponse(offset=self.offsets[asked.timestamp])
            return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(partitions=[found])])
        answer = asyncio.get_running_loop().create_future()
        await self.requests.put((request, purpose, answer))
        return await answer

    async def next(self):
        request, purpose, answer = await asyncio.wait_for(self.requests.get(), 5)
        self.purpose = purpose
        self.answer = answer
        return request

    def reply(self, *parts: PartitionData, session_id=77, error_code=0) -> None:
        topic = FetchableTopicResponse(topic_id=ID, partitions=list(parts))
        self.answer.set_result(
            FetchResponse(
                session_id=session_id,
                error_code=error_code,
                responses=[topic] if parts else [],
            )
        )


class Rig:
    def __init__(self, directory, **config) -> None:
        self.directory = directory
        self.clock = config.pop("clock", None) or SystemClock()
        self.leader = Leader()
        self.flusher = Flusher()
        self.cuts = []
        self.config = ReplicationConfig(fetch_backoff_ms=10)
        self.log_config = LogConfig(**config)
        self.fetchers = Fetchers(
            broker_id=1,
            broker_epoch=lambda: 5,
            peers=self.leader,
            clock=self.clock,
            random=Random(1),
            config=lambda: self.config,
            flusher=self.flusher,
        )
        self.surroundings = Surroundings(
            broker_id=1,
            now_ms=lambda: 0,
            max_lag_ms=lambda: 1000,
            eligible=lambda *_: True,
            propose=lambda _: None,
            truncated=lambda log, offset: self.cuts.append((log.topic_partition.partition, offset)),
        )

    def follow(self, index=0, *, epoch=3) -> Partition:
        log = Log.open(
            str(self.directory / f"t-{index}"),
            files=LocalFiles(),
            config=self.log_config,
            clock=SystemClock(),
            topic_partition=TopicPartition("t", index),
        )
        log.high_watermark = 0
        partition = Partition(
            "t", index, ID, log, flusher=self.flusher, surroundings=self.surroundings
        )
        partition.become_follower(PartitionState(2, epoch, 0, (1, 2), (1, 2)))
        self.fetchers.follow(partition)
        return partition


@pytest.fixture
async def rig(tmp_path):
    rig = Rig(tmp_path)
    yield rig
    await rig.fetchers.stop()


def records(offset, epoch=3, count=1) -> bytearray:
    batch = build_batch([(1_700_000_000_000, None, b"v", ())] * count)
    stamp_batch(batch, 0, offset, epoch)
    return batch


def data(index=0, high_watermark=0, batches=b"", error_code=0, log_start=0, **rest):
    return PartitionData(
        partition_index=index,
        error_code=error_code,
        high_watermark=high_watermark,
        log_start_offset=log_start,
        records=memoryview(bytes(batches)),
        **rest,
    )


def places(request):
    return {
        each.partition: (each.fetch_offset, each.last_fetched_epoch)
        for topic in request.topics
        for each in topic.partitions
    }


async def test_batches_are_taken_over_and_only_what_moved_is_asked_again(rig):
    first, second = rig.follow(0), rig.follow(1)
    request = await rig.leader.next()
    assert places(request) == {0: (0, -1), 1: (0, -1)}
    assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (1, 5)
    assert (request.session_id, request.session_epoch) == (0, 0)
    rig.leader.reply(data(0, 1, records(0) + records(1, 3, 2)), data(1))
    request = await rig.leader.next()
    assert (request.session_id, request.session_epoch) == (77, 1)
    assert places(request) == {0: (3, 3)}
    assert (first.log_end_offset, first.high_watermark) == (3, 1)
    rig.leader.reply(data(0, 3, log_start=2))
    request = await rig.leader.next()
    assert (first.high_watermark, first.log_start_offset) == (3, 2)
    assert second.log_end_offset == 0
    assert request.session_epoch == 2


async def test_the_high_watermark_never_goes_back(rig):
    partition = rig.follow()
    await rig.leader.next()
    rig.leader.reply(data(0, 1, records(0)))
    await rig.leader.next()
    rig.leader.reply(data(0, 0))
    await rig.leader.next()
    assert partition.high_watermark == 1


async def test_an_answer_that_comes_after_an_election_is_dropped(rig):
    partition = rig.follow()
    await rig.leader.next()
    assert partition.become_follower(PartitionState(3, 4, 1, (1, 2, 3), (1, 2, 3)))
    rig.fetchers.follow(partition)
    rig.leader.reply(data(0, 1, records(0)))
    request = await rig.leader.next()
    assert places(request) == {0: (0, -1)}
    assert request.topics[0].partitions[0].current_leader_epoch == 4
    assert partition.log_end_offset == 0


async def test_one_that_leads_by_now_takes_nothing(rig):
    partition = rig.follow()
    await rig.leader.next()
    partition.become_leader(PartitionState(1, 4, 1, (1, 2), (1, 2)))
    rig.fetchers.leave(partition)
    rig.leader.reply(data(0, 1, records(0)))
    await asyncio.sleep(0)
    assert partition.log_end_offset == 0


async def test_a_new_partition_does_not_wait_for_a_fetch_that_waits(rig):
    rig.follow(0)
    await rig.leader.next()
    first_way = rig.leader.purpose
    rig.follow(1)
    request = await rig.leader.next()
    assert places(request) == {0: (0, -1), 1: (0, -1)}
    assert request.session_epoch == 0  # what the old session knows is not known
    assert rig.leader.purpose != first_way


async def test_what_is_left_when_nothing_else_is_followed_is_not_kept_by_the_session(rig):
    """It would be answered for at once, and for ever."""
    left = rig.follow(0)
    await rig.leader.next()
    rig.fetchers.leave(left)
    rig.leader.reply(data(0))
    for _ in range(10):
        await asyncio.sleep(0)
    assert rig.leader.requests.empty()  # there is nothing to ask for
    rig.follow(1)
    request = await rig.leader.next()
    assert places(request) == {1: (0, -1)}
    assert (request.session_id, request.session_epoch) == (77, 1)
    assert [each.partitions for each in request.forgotten_topics_data] == [[0]]


async def test_a_session_that_holds_what_was_not_asked_for_is_given_up(rig):
    rig.follow(0)
    await rig.leader.next()
    rig.leader.reply(data(0), data(5, error_code=NotLeaderOrFollower.code))
    request = await rig.leader.next()
    assert places(request) == {0: (0, -1)}
    assert request.session_epoch == 0


async def test_one_that_fails_rests_alone(tmp_path):
    rig = Rig(tmp_path, clock=ManualClock())
    failing, sound = rig.follow(0), rig.follow(1)
    await rig.leader.next()
    rig.leader.reply(data(0, error_code=NotLeaderOrFollower.code), data(1, 1, records(0)))
    request = await rig.leader.next()
    assert places(request) == {1: (1, 3)}
    assert [each.partitions for each in request.forgotten_topics_data] == [[0]]
    rig.clock.advance(1_000)
    while 0 not in places(request := await rig.leader.next()):
        pass
    assert places(request) == {0: (0, -1), 1: (1, 3)}
    assert (failing.log_end_offset, sound.log_end_offset) == (0, 1)
    await rig.fetchers.stop()


async def test_garbage_from_the_leader_is_not_taken_over(rig):
    partition = rig.follow()
    await rig.leader.next()
    broken = records(0)
    broken[-1] ^= 1
    rig.leader.reply(data(0, 1, broken))
    assert (await rig.leader.next()).session_epoch == 1  # the session still asks from offset 0
    assert partition.log_end_offset == 0
    rig.leader.reply(data(0, 1, records(0)))
    await rig.leader.next()
    assert partition.log_end_offset == 1


async def test_a_lost_connection_or_session_begins_anew(rig):
    rig.follow()
    await rig.leader.next()
    rig.leader.answer.set_exception(NetworkException())
    request = await rig.leader.next()
    assert (places(request), request.session_epoch) == ({0: (0, -1)}, 0)
    rig.leader.reply(data())
    await rig.leader.next()
    rig.leader.reply(error_code=FetchSessionIdNotFound.code, session_id=0)
    request = await rig.leader.next()
    assert (request.session_id, request.session_epoch) == (0, 0)
    assert places(request) == {0: (0, -1)}


async def test_where_the_logs_part_ours_is_cut_and_compared_again(rig):
    partition = rig.follow()
    await rig.leader.next()
    rig.leader.reply(data(0, 2, records(0, 1, 2) + records(2, 2, 2) + records(4, 3)))
    assert places(await rig.leader.next()) == {0: (5, 3)}
    rig.leader.reply(data(0, 2, diverging_epoch=EpochEndOffset(epoch=2, end_offset=3)))
    assert places(await rig.leader.next()) == {0: (3, 2)} or partition.log_end_offset <= 3
    assert partition.high_watermark == 2
    assert rig.cuts


async def test_an_end_before_the_leaders_start_begins_anew_there(rig):
    partition = rig.follow()
    await rig.leader.next()
    rig.leader.reply(data(0, 1, records(0)))
    await rig.leader.next()
    rig.leader.offsets = {-2: 40, -1: 50}
    rig.leader.reply(data(0, error_code=OffsetOutOfRange.code))
    assert places(await rig.leader.next()) == {0: (40, -1)}
    assert (partition.log_start_offset, partition.high_watermark) == (40, 40)
    rig.leader.reply(data(0, 41, records(40), log_start=40))
    await rig.leader.next()
    assert partition.log_end_offset == 41


async def test_the_flush_policy_holds_for_followers(tmp_path):
    rig = Rig(tmp_path, flush_messages=1)
    partition = rig.follow()
    await rig.leader.next()
    rig.leader.reply(data(0, 1, records(0)))
    await rig.leader.next()
    assert partition.log.recovery_point == 1
    await rig.fetchers.stop()


async def test_a_partition_without_a_leader_is_fetched_from_nobody(rig):
    partition = rig.follow()
    await rig.leader.next()
    partition.become_follower(PartitionState(-1, 4, 1, (1, 2), (1, 2)))
    rig.fetchers.follow(partition)
    rig.leader.reply(data(0, 1, records(0)))
    await asyncio.sleep(0)
    assert partition.log_end_offset == 0
    assert rig.leader.requests.empty()


@pytest.mark.parametrize(
    ("epoch", "end_offset", "cut"),
    [(5, 12, 12), (5, 25, 20), (4, 11, 10), (3, 99, 10), (1, 0, 0), (2, 3, 0)],
)
def test_where_a_log_is_cut(tmp_path, epoch, end_offset, cut):
    log = Log.open(
        str(tmp_path),
        files=LocalFiles(),
        config=LogConfig(),
        clock=SystemClock(),
        topic_partition=TopicPartition("t", 0),
    )
    log.append_as_follower(records(0, 3, 10) + records(10, 5, 10))
    assert cut_offset(log, epoch, end_offset) == cut


async def test_a_follower_that_catches_up_obeys_its_own_limit(tmp_path):
    rig = Rig(tmp_path, clock=ManualClock(), follower_throttled_replicas=("0:1",))
    rig.config = ReplicationConfig(follower_throttled_rate=1)
    throttled, free = rig.follow(0), rig.follow(1)
    assert places(await rig.leader.next()) == {0: (0, -1), 1: (0, -1)}
    rig.leader.reply(data(0, 9, records(0)), data(1, 9, records(0)))
    request = await rig.leader.next()
    assert places(request) == {1: (1, 3)}
    assert [each.partitions for each in request.forgotten_topics_data] == [[0]]
    assert throttled.log_end_offset == free.log_end_offset == 1
    rig.clock.advance(1_000_000)
    while 0 not in places(await rig.leader.next()):
        pass
    await rig.fetchers.stop()


async def test_interruptions_leave_no_trace(rig):
    for index in range(5):
        rig.follow(index)
        rig.follow(index)
        request = await rig.leader.next()
        assert len(places(request)) == index + 1
    rig.leader.reply(data(0, 1, records(0)))
    assert places(await rig.leader.next()) == {0: (1, 3)}
    (fetcher,) = rig.fetchers._fetchers.values()
    assert fetcher.task.cancelling() == 0
    await rig.fetchers.stop()
    assert fetcher.task.cancelled()


async def test_a_fetcher_that_ends_is_started_again(rig):
    rig.follow()
    await rig.leader.next()
    (fetcher,) = rig.fetchers._fetchers.values()
    fetcher.task.cancel()
    assert places(await rig.leader.next()) == {}  # the session goes on, or begins anew
    rig.leader.reply(error_code=FetchSessionIdNotFound.code, session_id=0)
    assert places(await rig.leader.next()) == {0: (0, -1)}


@pytest.mark.parametrize(("code", "is_offline"), [(errno.EMFILE, False), (errno.EIO, True)])
async def test_a_disk_that_refuses_for_a_while_is_not_given_up(rig, monkeypatch, code, is_offline):
    partition = rig.follow()
    await rig.leader.next()

    def refuse(_):
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patched:
        patched.setattr(partition.log, "append_as_follower", refuse)
        rig.leader.reply(data(0, 1, records(0)))
        await rig.leader.next()
    assert (partition.log.failure is not None) is is_offline
