"""Small Produce requests that came together are served together.

A producer that does not wait for its answers fills one read with many requests of a batch each.  One kernel call finds and
checks them, the batches of a partition are written with one call, and the answers are packed one after the other.  A client
sees what it would see otherwise: every partition gets its batches in their order, every request its own answer.

All or nothing: if any partition of the run wants something out of the ordinary (a compacted topic, a segment to
begin, a flush to wait for, a producer's batch that is repeated or missing) nothing is served here, and
`handlers/produce.py` takes the requests one by one.  Where there are other replicas, the answers to acks=all wait
together until the whole run is committed.  A run without acknowledgements is one by itself: if it fails, closing the
connection is how the producer hears of it.
"""

import asyncio
import logging
from functools import lru_cache, partial
from struct import Struct as Packer

from tidelog.broker.context import Services
from tidelog.broker.handlers.produce import failed
from tidelog.cluster.partition import Partition
from tidelog.errors import KafkaError, ProtocolError, RequestTimedOut, UnknownServerError
from tidelog.kernel import scan_produces
from tidelog.kernel.runs import SmallProduce
from tidelog.names import INTERNAL_TOPICS
from tidelog.network.answer import Deferred
from tidelog.network.flow import RUN_FRAME_BYTES
from tidelog.records.batch import parse_header
from tidelog.storage.gathering import Gathered

_log = logging.getLogger(__name__)

_INT32 = Packer(">i")


class _Group:
    """The requests of a run to one partition."""

    __slots__ = (
        "acks",
        "answers",
        "batches",
        "failure",
        "last_offset",
        "partition",
        "requests",
        "waits",
    )

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.requests: list[SmallProduce] = []
        self.batches = Gathered()
        self.acks = 1
        self.answers: list[bytes] = []
        self.waits = False
        """Whether the answers wait for the commit of `last_offset`."""
        self.last_offset = -1
        self.failure: KafkaError | None = None

    def fail(self, services: Services, error: KafkaError) -> None:
        self.failure = error
        self.answers = [failed(services, self.partition, each[1], error) for each in self.requests]


def produce_run(
    services: Services, buffer: memoryview, pos: int, end: int
) -> tuple[int, bytes | Deferred | None]:
    """Serve the run of small requests at `pos`: where it stops, and the answers; `pos` if there is none."""
    found, stop = scan_produces(buffer, pos, end, RUN_FRAME_BYTES)
    if not found:
        return pos, None
    silent = found[0][2] == 0
    refusals = services.refusals
    refusing = bool(refusals) and refusals.hold(services.clock.monotonic())
    groups: dict[bytes, _Group] = {}
    for request in found:
        place, _, acks, start, batch_end, records, max_timestamp, producer_id = request
        if (acks == 0) is not silent or (refusing and producer_id >= 0):
            return pos, None
        group = groups.get(place)
        if group is None:
            partition = services.partitions.by_place(place)
            if partition is None or partition.topic in INTERNAL_TOPICS:
                return pos, None
            group = groups[place] = _Group(partition)
        group.requests.append(request)
        batch = buffer[start:batch_end]
        header = parse_header(batch) if producer_id >= 0 else None
        group.batches.add(batch, records, max_timestamp, header)
        if acks < 1:
            group.acks = acks
    now_ms = services.clock.now_ms()
    for group in groups.values():
        if not group.partition.takes_gathered(group.batches, group.acks, now_ms):
            return pos, None
    written = list(groups.values())
    for group in written:
        _append(services, group)
    services.requests.produce.count += len(found)
    if silent:
        _check_written(written)
        return stop, None
    waiting = [each for each in written if each.waits]
    if not waiting:
        return stop, _joined(found, written)
    return stop, _Commits(services, found, written).begin(waiting, _timeout_ms(buffer, waiting))


def _joined(found: list[SmallProduce], groups: list[_Group]) -> bytes:
    """The answers in the order of the requests."""
    if len(groups) == 1:
        return b"".join(groups[0].answers)
    answers: dict[int, bytes] = {}
    for group in groups:
        starts = [each[3] for each in group.requests]
        answers.update(zip(starts, group.answers, strict=True))
    return b"".join([answers[each[3]] for each in found])


def _check_written(groups: list[_Group]) -> None:
    for group in groups:
        if group.failure is not None:
            where = group.partition.topic_partition
            raise ProtocolError(f"acks=0, and {where} failed: {group.failure}")


def _append(services: Services, group: _Group) -> None:
    """Append to one partition, and make the answer to each request."""
    partition, requests = group.partition, group.requests
    try:
        offset = partition.append_gathered(group.batches)
    except KafkaError as error:
        for position in group.batches.headers:
            batch = group.batches.batches[position][0]
            now = services.clock.monotonic()
            services.refusals.note(partition.topic, partition.index, batch, error, now)
        group.fail(services, error)
        return
    except Exception as error:  # noqa: BLE001  (the root of the append)
        _log.error("an append to %s failed", partition.topic_partition, exc_info=error)
        group.fail(services, UnknownServerError())
        return
    if not group.acks:
        return
    place, log_start_offset = requests[0][0], partition.log.log_start_offset
    packer = _packer(len(place))
    length, pack = packer.size - 4, packer.pack
    answers = group.answers
    for request in requests:
        answers.append(
            pack(length, request[1], b"\x00\x02", place, 0, offset, -1, log_start_offset, b"\x01")
        )
        offset += request[5]
    if group.acks < 0 and offset > partition.log.high_watermark:
        group.waits = True
        group.last_offset = offset - 1


class _Commits:
    """A run whose answers wait until all of it is committed."""

    def __init__(self, services: Services, found: list[SmallProduce], groups: list[_Group]) -> None:
        self._services = services
        self._found = found
        self._groups = groups
        self._deferred = Deferred(pipelined=True)

    def begin(self, waiting: list[_Group], timeout_ms: int) -> Deferred:
        self._left = len(waiting)
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(max(timeout_ms, 0) / 1000, self._time_over)
        for group in waiting:
            group.partition.when_committed(group.last_offset, partial(self._ended, group))
        return self._deferred

    def _ended(self, group: _Group, error: KafkaError | None) -> None:
        group.waits = False
        if error is not None:
            group.fail(self._services, error)
        self._left -= 1
        if not self._left:
            self._timer.cancel()
            self._resolve()

    def _time_over(self) -> None:
        for group in self._groups:
            if group.waits:
                group.fail(self._services, RequestTimedOut())
        self._resolve()

    def _resolve(self) -> None:
        if not self._deferred.done:
            self._deferred.resolve(_joined(self._found, self._groups))


def _timeout_ms(buffer: memoryview, groups: list[_Group]) -> int:
    """The shortest time that any request allows; those of one connection allow the same."""
    times = []
    for group in groups:
        place, _, _, start, stop = group.requests[0][:5]
        # | timeout | count of topics | place | length of the batch, one to three bytes | batch |
        length = stop - start + 1
        start -= 1 + (length > 127) + (length > 16_383) + len(place)
        times.append(_INT32.unpack_from(buffer, start - 5)[0])
    return int(min(times))


@lru_cache(maxsize=256)
def _packer(place_bytes: int) -> Packer:
    """The layout of `handlers/produce.py`, where `place` is all from the name of the topic to the index."""
    return Packer(f">ii2s{place_bytes}shqqq9s")
