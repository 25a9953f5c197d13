"""Small Produce requests that came together are served together.

A producer that does not wait for its answers fills one read with many requests of a batch each.  One kernel call finds and
checks them, the batches of a partition are written with one call, and the answers are packed one after the other.  A client
sees what it would see otherwise: every partition gets its batches in their order, every request its own answer.

All or nothing: if any partition of the run wants something out of the ordinary (a compacted topic, a segment to
begin, a flush to wait for) nothing is served here, and `handlers/produce.py` takes the requests one by one.
"""

import logging
from functools import lru_cache
from struct import Struct as Packer

from tidelog.broker.context import Services
from tidelog.broker.handlers.produce import failed
from tidelog.cluster.partition import Partition
from tidelog.errors import KafkaError, UnknownServerError
from tidelog.kernel import scan_produces
from tidelog.kernel.runs import SmallProduce
from tidelog.names import INTERNAL_TOPICS
from tidelog.network.flow import RUN_FRAME_BYTES
from tidelog.storage.gathering import Gathered

_log = logging.getLogger(__name__)


class _Group:
    """The requests of a run to one partition."""

    __slots__ = ("acks", "batches", "partition", "requests")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.requests: list[SmallProduce] = []
        self.batches = Gathered()
        self.acks = 1


def produce_run(services: Services, buffer: memoryview, pos: int, end: int) -> tuple[int, bytes]:
    """Serve the run of small requests at `pos`: where it stops, and the answers; `pos` if there is none."""
    found, stop = scan_produces(buffer, pos, end, RUN_FRAME_BYTES)
    if not found:
        return pos, b""
    groups: dict[bytes, _Group] = {}
    for request in found:
        place, _, acks, start, batch_end, records, max_timestamp = request
        group = groups.get(place)
        if group is None:
            partition = services.partitions.by_place(place)
            if partition is None or partition.topic in INTERNAL_TOPICS:
                return pos, b""
            group = groups[place] = _Group(partition)
        group.requests.append(request)
        group.batches.add(buffer[start:batch_end], records, max_timestamp)
        if acks < 0:
            group.acks = acks
    now_ms = services.clock.now_ms()
    for group in groups.values():
        if not group.partition.takes_gathered(group.batches, group.acks, now_ms):
            return pos, b""
    return stop, _written(services, found, list(groups.values()))


def _written(services: Services, found: list[SmallProduce], groups: list[_Group]) -> bytes:
    """Append the groups; the answers in the order of the requests."""
    if len(groups) == 1:
        return b"".join(_append(services, groups[0]))
    answers: dict[int, bytes] = {}
    for group in groups:
        starts = [each[3] for each in group.requests]
        answers.update(zip(starts, _append(services, group), strict=True))
    return b"".join([answers[each[3]] for each in found])


def _append(services: Services, group: _Group) -> list[bytes]:
    """Append to one partition; the answer to each request."""
    partition, requests = group.partition, group.requests
    try:
        offset = partition.append_gathered(group.batches)
    except KafkaError as error:
        return [failed(services, partition, each[1], error) for each in requests]
    except Exception as error:  # noqa: BLE001  (the root of the append)
        _log.error("an append to %s failed", partition.topic_partition, exc_info=error)
        return [failed(services, partition, each[1], UnknownServerError()) for each in requests]
    place, log_start_offset = requests[0][0], partition.log.log_start_offset
    packer = _packer(len(place))
    length, pack = packer.size - 4, packer.pack
    answers = []
    for request in requests:
        answers.append(
            pack(length, request[1], b"\x00\x02", place, 0, offset, -1, log_start_offset, b"\x01")
        )
        offset += request[5]
    return answers


@lru_cache(maxsize=256)
def _packer(place_bytes: int) -> Packer:
    """The layout of `handlers/produce.py`, where `place` is all from the name of the topic to the index."""
    return Packer(f">ii2s{place_bytes}shqqq9s")
