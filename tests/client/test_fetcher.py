"""The fetcher against brokers that are played: leaders that change, lag, lie, and have lost records (KIP-320, 227, 392)."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID, uuid4

import pytest

from tidelog.client.cluster import Cluster
from tidelog.client.decoding import decode_chunk
from tidelog.client.fetcher import Fetcher
from tidelog.client.metrics import ConsumerMetrics
from tidelog.client.offsets import LogTruncated
from tidelog.client.settings import ConsumerSettings, load
from tidelog.errors import (
    FencedLeaderEpoch,
    FetchSessionIdNotFound,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    UnknownLeaderEpoch,
)
from tidelog.names import TopicPartition
from tidelog.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from tidelog.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tidelog.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tidelog.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from tidelog.protocol.schema import Request, Response
from tidelog.records import build_batch

TP = TopicPartition("t", 0)

Log = list[int]
"""The leader epoch of each record; its value is `<epoch>.<offset>`."""


class Broker:
    """One replica of the one partition there is: its log, and whether it believes to lead."""

    def __init__(self, log: Sequence[int], epoch: int, *, leads: bool = True) -> None:
        self.log: Log = list(log)
        self.epoch = epoch
        self.leads = leads
        self.start = 0
        self.preferred = -1
        self.requests: list[FetchRequest] = []
        self.session: dict[int, Any] | None = None

    def fetch(self, request: FetchRequest, topic_id: UUID) -> FetchResponse:
        self.requests.append(request)
        if request.session_epoch == 0:
            self.session = {}
        elif self.session is None:
            return FetchResponse(error_code=FetchSessionIdNotFound.code)
        assert self.session is not None
        for topic in request.topics:
            for each in topic.partitions:
                self.session[each.partition] = each
        for topic in request.forgotten_topics_data:
            for index in topic.partitions:
                self.session.pop(index, None)
        parts = [self._read(each, request.rack_id) for each in self.session.values()]
        topic_answer = FetchableTopicResponse(topic="t", topic_id=topic_id, partitions=parts)
        return FetchResponse(session_id=7, responses=[topic_answer])

    def _read(self, wanted: Any, rack: str) -> PartitionData:
        at = wanted.fetch_offset
        error = self.error(wanted.current_leader_epoch, follower_may=bool(rack))
        if not error and not self.start <= at <= len(self.log):
            error = OffsetOutOfRange.code
        if error:
            return PartitionData(partition_index=0, error_code=error, high_watermark=-1)
        if self.leads and self.preferred >= 0 and rack:
            return PartitionData(
                partition_index=0,
                high_watermark=len(self.log),
                preferred_read_replica=self.preferred,
            )
        # One record a batch, one batch an answer.
        records = b""
        if at < len(self.log):
            epoch = self.log[at]
            rows = [(1, None, b"%d.%d" % (epoch, at), ())]
            records = bytes(build_batch(rows, base_offset=at, leader_epoch=epoch))
        return PartitionData(
            partition_index=0, high_watermark=len(self.log), records=memoryview(records)
        )

    def error(self, epoch: int, *, follower_may: bool = False) -> int:
        if not self.leads and not follower_may:
            return NotLeaderOrFollower.code
        if 0 <= epoch < self.epoch:
            return FencedLeaderEpoch.code
        return UnknownLeaderEpoch.code if epoch > self.epoch else 0

    def end_of(self, epoch: int) -> tuple[int, int]:
        if epoch >= self.epoch:
            return self.epoch, len(self.log)
        there = [each for each in self.log if each <= epoch]
        return (there[-1], len(there)) if there else (-1, -1)


class PlayedCluster(Cluster):
    """Metadata are what `told` says, one answer after the other; the last one stays."""

    def __init__(self, settings: ConsumerSettings, brokers: dict[int, Broker]) -> None:
        super().__init__(settings)
        self.brokers = brokers
        self.id = uuid4()
        self.told: list[tuple[int, int]] = []
        """Leader and epoch."""
        self.asked: list[str] = []

    async def ask_any(self, request: Request) -> Response:
        assert isinstance(request, MetadataRequest)
        self.asked.append("Metadata")
        leader, epoch = self.told[0] if len(self.told) == 1 else self.told.pop(0)
        part = MetadataResponsePartition(partition_index=0, leader_id=leader, leader_epoch=epoch)
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=node, host="h", port=node) for node in self.brokers
            ],
            topics=[MetadataResponseTopic(name="t", topic_id=self.id, partitions=[part])],
        )

    async def ask(
        self,
        node: int,
        request: Request,
        *,
        purpose: str = "",
        timeout_s: float | None = None,
        at_most: int = 32767,
    ) -> Response:
        await asyncio.sleep(0)
        broker = self.brokers[node]
        if isinstance(request, FetchRequest):
            answer = broker.fetch(request, self.id)
            if not any(part.records for t in answer.responses for part in t.partitions):
                await asyncio.sleep(0.002)
            return answer
        self.asked.append(type(request).__name__)
        if isinstance(request, OffsetForLeaderEpochRequest):
            (wanted,) = request.topics[0].partitions
            error = broker.error(wanted.current_leader_epoch)
            epoch, end = broker.end_of(wanted.leader_epoch)
            found = EpochEndOffset(
                partition=0, error_code=error, leader_epoch=epoch, end_offset=end
            )
            return OffsetForLeaderEpochResponse(
                topics=[OffsetForLeaderTopicResult(topic="t", partitions=[found])]
            )
        assert isinstance(request, ListOffsetsRequest)
        (place,) = request.topics[0].partitions
        part = ListOffsetsPartitionResponse(
            partition_index=0,
            error_code=broker.error(place.current_leader_epoch),
            offset=broker.start if place.timestamp == -2 else len(broker.log),
        )
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[part])])


class Play:
    """A fetcher, the brokers it sees, and what it was given."""

    def __init__(self, cluster: PlayedCluster, fetcher: Fetcher) -> None:
        self.cluster = cluster
        self.fetcher = fetcher
        self.assignment = fetcher.assignment

    async def start(self, leader: int, epoch: int, offset: int) -> None:
        self.cluster.told = [(leader, epoch)]
        await self.cluster.refresh(["t"])
        self.assignment.replace([TP])
        self.assignment.seek(TP, offset=offset)

    async def read(self, count: int) -> list[str]:
        found: list[str] = []
        async with asyncio.timeout(20):
            while len(found) < count:
                self.assignment.check()
                state = self.assignment.states[TP]
                chunk = self.assignment.next_chunk(state)
                if chunk is None:
                    await asyncio.sleep(0.001)
                    continue
                found += [each.value.decode() for each in decode_chunk(chunk)]
                state.position = state.settled = state.messages_end
        return found

    async def until(self, done: Callable[[], object]) -> None:
        async with asyncio.timeout(20):
            while not done():  # noqa: ASYNC110 - what is waited for happens on this loop, without an event
                await asyncio.sleep(0.001)


@asynccontextmanager
async def playing(brokers: dict[int, Broker], **options: Any) -> AsyncIterator[Play]:
    given = {"bootstrap_servers": "nowhere:1", "retry_backoff_ms": 1, **options}
    settings = load(ConsumerSettings, None, given)
    cluster = PlayedCluster(settings, brokers)
    fetcher = Fetcher(cluster, settings, ConsumerMetrics())
    try:
        yield Play(cluster, fetcher)
    finally:
        await fetcher.close()


# Leaders that were deposed.


@pytest.mark.parametrize("reset", ["earliest", "latest", "none"])
async def test_a_deposed_leader_does_not_reset_the_reader(reset: str) -> None:
    """It is behind, does not know that it was deposed, and tells old metadata as well."""
    old, new = Broker([1, 1], epoch=1), Broker([1, 1, 2, 2, 2], epoch=2)
    async with playing({1: old, 2: new}, auto_offset_reset=reset) as play:
        await play.start(2, 2, 0)
        assert await play.read(5) == ["1.0", "1.1", "2.2", "2.3", "2.4"]
        new.leads = False  # for a moment nobody does who knows it
        play.cluster.told = [(1, 1)]
        await play.until(lambda: play.cluster.asked.count("Metadata") > 5)
        assert not old.requests
        new.leads = True
        new.log.append(2)
        assert await play.read(1) == ["2.5"]
        assert play.cluster.topics["t"].partitions[0].epoch == 2


async def test_metadata_older_than_what_the_group_has_committed_are_not_used() -> None:
    old, new = Broker([1, 1], epoch=1), Broker([1, 1, 2, 2, 2], epoch=2)
    async with playing({1: old, 2: new}, auto_offset_reset="earliest") as play:
        play.cluster.told = [(1, 1), (1, 1), (1, 1), (2, 2)]
        await play.cluster.refresh(["t"])
        play.assignment.replace([TP])
        ((state, _, epoch),) = play.assignment.unplaced()
        play.assignment.place(state, epoch, 4, leader_epoch=2)
        play.fetcher.wake()
        assert await play.read(1) == ["2.4"]
        assert not old.requests


async def test_an_offset_out_of_range_is_believed_when_the_leader_is_confirmed() -> None:
    """The first time the metadata are asked, and tell of another leader; the second time they do not."""
    old, new = Broker([1, 1], epoch=1), Broker([1, 1, 1, 1], epoch=1)
    async with playing({1: old, 2: new}, auto_offset_reset="earliest") as play:
        await play.start(1, 1, 3)
        play.cluster.told = [(2, 2)]
        new.epoch = 2
        assert await play.read(1) == ["1.3"]
        new.start = 2
        play.assignment.seek(TP, offset=0)
        assert await play.read(1) == ["1.2"]


async def test_every_request_tells_the_epoch_that_is_known() -> None:
    broker = Broker([3, 3], epoch=3)
    async with playing({1: broker}) as play:
        await play.start(1, 3, 0)
        await play.read(2)
        sent = [p for r in broker.requests for t in r.topics for p in t.partitions]
        assert {each.current_leader_epoch for each in sent} == {3}


# Logs that were cut.


@pytest.mark.parametrize("reset", ["earliest", "none"])
async def test_a_log_that_was_cut_below_what_was_read_is_told(
    reset: str, caplog: pytest.LogCaptureFixture
) -> None:
    """An unclean election: the new leader has other records at offsets that were read."""
    first, second = Broker([1] * 6, epoch=1), Broker([1, 1, 1, 2, 2, 2, 2, 2], epoch=2)
    async with playing({1: first, 2: second}, auto_offset_reset=reset) as play:
        await play.start(1, 1, 0)
        await play.read(6)
        first.leads = False
        play.cluster.told = [(2, 2)]
        if reset == "none":
            with pytest.raises(LogTruncated, match=r"read up to offset 6.*diverges at offset 3"):
                await play.read(1)
            play.assignment.seek(TP, offset=3)
        assert await play.read(5) == ["2.3", "2.4", "2.5", "2.6", "2.7"]
        if reset == "earliest":
            assert "read up to offset 6" in caplog.text
            assert "diverges at offset 3" in caplog.text


async def test_records_that_were_fetched_but_not_read_are_given_up_silently_when_they_are_cut() -> (
    None
):
    first, second = Broker([1] * 6, epoch=1), Broker([1, 1, 1, 2], epoch=2)
    async with playing({1: first, 2: second}, auto_offset_reset="none") as play:
        await play.start(1, 1, 0)
        assert await play.read(2) == ["1.0", "1.1"]
        await play.until(lambda: play.assignment.states[TP].fetch_offset == 6)
        first.leads = False
        play.cluster.told = [(2, 2)]
        await play.until(lambda: play.assignment.states[TP].checked_epoch == 2)
        assert await play.read(2) == ["1.2", "2.3"]


async def test_a_log_that_holds_what_was_read_goes_on() -> None:
    first, second = Broker([1, 1, 1], epoch=1), Broker([1, 1, 1, 2, 2], epoch=2)
    async with playing({1: first, 2: second}, auto_offset_reset="none") as play:
        await play.start(1, 1, 0)
        await play.read(3)
        first.leads = False
        play.cluster.told = [(2, 2)]
        assert await play.read(2) == ["2.3", "2.4"]
        assert play.cluster.asked.count("OffsetForLeaderEpochRequest") == 1
        committed = play.assignment.commitable()[TP]
        assert (committed.offset, committed.leader_epoch) == (5, 2)


# Sessions.


async def test_a_session_names_only_what_has_changed() -> None:
    broker = Broker([1], epoch=1)
    async with playing({1: broker}) as play:
        await play.start(1, 1, 0)
        await play.read(1)
        await play.until(lambda: len(broker.requests) > 5)
        assert broker.requests[0].session_epoch == 0
        assert [each.session_epoch for each in broker.requests[1:5]] == [1, 2, 3, 4]
        assert [len(each.topics) for each in broker.requests[2:5]] == [0, 0, 0]
        play.assignment.pause([TP], True)
        broker.session = None  # it was evicted
        play.assignment.pause([TP], False)
        broker.log.append(1)
        assert await play.read(1) == ["1.1"]
        assert 0 in [each.session_epoch for each in broker.requests[5:]]


async def test_what_is_not_wanted_is_forgotten() -> None:
    broker = Broker([1], epoch=1)
    async with playing({1: broker}) as play:
        await play.start(1, 1, 0)
        await play.read(1)
        play.assignment.replace([])
        other = TopicPartition("t", 0)
        play.assignment.replace([other])
        play.assignment.seek(other, offset=0)
        assert await play.read(1) == ["1.0"]


# The nearest replica.


async def test_a_reader_with_a_rack_goes_where_it_is_sent_and_comes_back() -> None:
    leader, near = Broker([1] * 4, epoch=1), Broker([1] * 4, epoch=1, leads=False)
    leader.preferred = 2
    async with playing({1: leader, 2: near}, client_rack="a") as play:
        await play.start(1, 1, 0)
        assert await play.read(4) == ["1.0", "1.1", "1.2", "1.3"]
        assert near.requests[0].rack_id == "a"
        assert len(leader.requests) == 1
        # It is behind, or was thrown out: the leader knows.
        near.log = near.log[:2]
        leader.preferred = -1
        leader.log.append(1)
        assert await play.read(1) == ["1.4"]
