"""How far the groups that this broker coordinates are behind: in messages, in seconds, and whether retention overtakes them.

A coordinator knows what was committed; where a partition ends, and how old its first unread message is, is known where the
partition is.  For partitions of which this broker has a replica nobody has to be asked; for others their leader is: once for all
that end there, and for the age of a message one by one, few at a time.

The age is that of the batch's header, found through the index; records are not decoded.  What is found is kept for some
seconds, and so is a timestamp for as long as the group does not move: a scrape costs little, however often it comes.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from typing import NamedTuple, cast

from tidelog.clock import Clock
from tidelog.cluster.image import Image
from tidelog.cluster.partition import Partition
from tidelog.cluster.partitions import Partitions
from tidelog.cluster.peers import Peers
from tidelog.errors import KafkaError, ProtocolError
from tidelog.lag import Evidence, Moment, Verdict, judge
from tidelog.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from tidelog.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tidelog.records.batch import HEADER, HEADER_BYTES, BatchHeader
from tidelog.storage.config import LogConfig

_log = logging.getLogger(__name__)

FRESH_S = 5.0
"""What was found is shown for so long before it is looked for again."""
_WINDOW_MS = 300_000
_BETWEEN_MOMENTS_MS = 15_000
_AT_A_TIME = 200
_MOST = 20_000
"""Places, that is partitions of groups, that are looked at; more are not reported."""
_MOST_ASKED = 50
"""Messages of which another broker is asked at a time how old they are."""
_ASK_MS = 3_000
_EARLIEST, _LATEST = -2, -1
_FETCH_VERSION_BY_NAME = 12

Place = tuple[str, int]
Committed = Callable[[], Iterable[tuple[str, Place, int]]]
"""(group, place, offset) of all that is committed here."""


class End(NamedTuple):
    """Where a partition begins and ends, for consumers."""

    start: int
    end: int


class GroupLag(NamedTuple):
    """How a group stands in a partition."""

    group: str
    place: Place
    committed: int
    verdict: Verdict


class GroupLags:
    """See the module's docstring."""

    def __init__(
        self,
        committed: Committed,
        partitions: Partitions,
        image: Callable[[], Image],
        peers: Peers,
        clock: Clock,
        config_of: Callable[[str], LogConfig],
    ) -> None:
        """`config_of` gives the settings of a topic that is elsewhere."""
        self._committed = committed
        self._partitions = partitions
        self._image = image
        self._peers = peers
        self._clock = clock
        self._config_of = config_of
        self._refreshed_at: float | None = None
        self._since: dict[tuple[Place, int], int | None] = {}
        """The timestamp of the message at an offset, of those that were wanted last time."""
        self._history: dict[tuple[str, Place], deque[Moment]] = {}
        self.found: list[GroupLag] = []
        self.left_out = 0
        """Places that were too many to look at."""

    async def refresh(self) -> None:
        """Look again, unless that was done just now."""
        now = self._clock.monotonic()
        if self._refreshed_at is not None and now - self._refreshed_at < FRESH_S:
            return
        self._refreshed_at = now
        wanted = list(self._committed())
        self.left_out = max(len(wanted) - _MOST, 0)
        wanted = wanted[:_MOST]
        ends = await self._ends({place for _, place, _ in wanted})
        behind = {
            (place, max(offset, ends[place].start))
            for _, place, offset in wanted
            if place in ends and offset < ends[place].end
        }
        self._since = await self._timestamps(behind)
        history: dict[tuple[str, Place], deque[Moment]] = {}
        found = []
        async for number in _in_slices(len(wanted)):
            group, place, offset = wanted[number]
            if place in ends:
                key = group, place
                moments = history[key] = self._history.get(key) or deque()
                verdict = self._judge(place, offset, ends[place], moments)
                found.append(GroupLag(group, place, offset, verdict))
        self._history, self.found = history, found

    def _judge(self, place: Place, offset: int, end: End, moments: deque[Moment]) -> Verdict:
        now_ms = self._clock.now_ms()
        now = Moment(now_ms, offset, end.end, self._since.get((place, max(offset, end.start))))
        while moments and moments[0].at_ms < now_ms - _WINDOW_MS:
            moments.popleft()
        then = moments[0] if moments else None
        if not moments or now_ms - moments[-1].at_ms >= _BETWEEN_MOMENTS_MS:
            moments.append(now)
        partition = self._partitions.maybe_hosted(*place)
        config = partition.log.config if partition is not None else self._config_of(place[0])
        if "delete" not in config.cleanup_policy:
            return judge(Evidence(now, then, None, end.start))
        retained = None
        if partition is not None and config.retention_bytes >= 0 and partition.log.size_bytes:
            there = end.end - end.start
            retained = config.retention_bytes * there // partition.log.size_bytes
        return judge(Evidence(now, then, None, end.start, config.retention_ms, retained))

    # ------------------------------------------------------------------ where partitions end

    async def _ends(self, places: set[Place]) -> dict[Place, End]:
        found: dict[Place, End] = {}
        elsewhere: dict[int, list[Place]] = {}
        topics = self._image().topics
        for place in places:
            partition = self._partitions.maybe_hosted(*place)
            if partition is not None:
                found[place] = End(partition.log_start_offset, partition.high_watermark)
                continue
            topic = topics.get(place[0])
            if topic is not None and place[1] < len(topic.partitions):
                leader = topic.partitions[place[1]].leader
                if leader >= 0:
                    elsewhere.setdefault(leader, []).append(place)
        for leader, there in elsewhere.items():
            try:
                starts = await self._offsets(leader, there, _EARLIEST)
                ends = await self._offsets(leader, there, _LATEST)
            except (KafkaError, ProtocolError) as error:
                _log.debug("broker %d does not tell where its partitions end: %s", leader, error)
                continue
            for place in starts.keys() & ends.keys():
                found[place] = End(starts[place], ends[place])
        return found

    async def _offsets(self, leader: int, places: list[Place], which: int) -> dict[Place, int]:
        topics: dict[str, ListOffsetsTopic] = {}
        for name, index in places:
            topic = topics.setdefault(name, ListOffsetsTopic(name=name, partitions=[]))
            topic.partitions.append(ListOffsetsPartition(partition_index=index, timestamp=which))
        request = ListOffsetsRequest(replica_id=-1, topics=list(topics.values()))
        told = await self._peers.ask(leader, request, purpose="metrics", timeout_ms=_ASK_MS)
        return {
            (topic.name, each.partition_index): each.offset
            for topic in cast(ListOffsetsResponse, told).topics
            for each in topic.partitions
            if not each.error_code
        }

    # ------------------------------------------------------------------ how old messages are

    async def _timestamps(
        self, wanted: set[tuple[Place, int]]
    ) -> dict[tuple[Place, int], int | None]:
        found = {key: self._since[key] for key in wanted if self._since.get(key) is not None}
        missing = [key for key in wanted if key not in found]
        asked = 0
        async for number in _in_slices(len(missing)):
            place, offset = missing[number]
            partition = self._partitions.maybe_hosted(*place)
            if partition is not None:
                found[place, offset] = timestamp_at(partition, offset)
            elif asked < _MOST_ASKED:
                asked += 1
                found[place, offset] = await self._ask_timestamp(place, offset)
        return found

    async def _ask_timestamp(self, place: Place, offset: int) -> int | None:
        topic = self._image().topics.get(place[0])
        if topic is None or place[1] >= len(topic.partitions):
            return None
        asked = FetchPartition(partition=place[1], fetch_offset=offset, partition_max_bytes=1)
        request = FetchRequest(
            cluster_id=None,
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1,
            session_epoch=-1,
            topics=[FetchTopic(topic=place[0], partitions=[asked])],
        )
        leader = topic.partitions[place[1]].leader
        try:
            told = await self._peers.ask(
                leader,
                request,
                purpose="metrics",
                timeout_ms=_ASK_MS,
                at_most=_FETCH_VERSION_BY_NAME,
            )
        except (KafkaError, ProtocolError) as error:
            _log.debug("broker %d does not tell how old %s is: %s", leader, place, error)
            return None
        parts = [each for topic in cast(FetchResponse, told).responses for each in topic.partitions]
        return _timestamp_in(bytes(parts[0].records or b""), offset) if parts else None


def timestamp_at(partition: Partition, offset: int) -> int | None:
    """When the message at `offset` was made, by the header of its batch; None if it is gone."""
    try:
        region = partition.read(offset, 1)
    except KafkaError:
        return None
    if region is None:
        return None
    return _timestamp_in(region.file.pread(HEADER_BYTES, region.position), offset)


def _timestamp_in(batch: bytes, offset: int) -> int | None:
    if len(batch) < HEADER_BYTES:
        return None
    header = BatchHeader(*HEADER.unpack_from(batch))
    first, last = header.base_timestamp, header.max_timestamp
    if header.attributes & 8:  # the log's own time: all have the same
        return last
    if first < 0:
        return None
    # Within a batch messages are taken to be evenly spread: they lie close together.
    share = (offset - header.base_offset) / max(header.last_offset_delta, 1)
    return first + int((last - first) * min(max(share, 0.0), 1.0))


async def _in_slices(count: int) -> AsyncIterator[int]:
    for number in range(count):
        if number % _AT_A_TIME == _AT_A_TIME - 1:
            await asyncio.sleep(0)
        yield number
