"""Small Produce requests that came together are served together.

A producer that does not wait for its answers fills one read with many requests of a batch each.  One kernel call finds and
checks them, the batches of a partition are written with one call, and the answers are packed one after the other.  A client
sees what it would see otherwise: every partition gets its batches in their order, every request its own answer.

All or nothing: if any partition of the run wants something out of the ordinary (a compacted topic, a segment to
begin, a flush to wait for) nothing is served here, and `handlers/produce.py` takes the requests one by one.
"""

import logging
from struct import Struct as Packer

from tidelog.broker.context import Services
from tidelog.broker.handlers.produce import failed
from tidelog.cluster.partition import Partition
from tidelog.errors import KafkaError, UnknownServerError
from tidelog.kernel import scan_produces
from tidelog.kernel.runs import SmallProduce
from tidelog.names import INTERNAL_TOPICS
from tidelog.network.flow import RUN_FRAME_BYTES
from tidelog.storage.gathering import Small

_LEAST = 2

_log = logging.getLogger(__name__)

Group = tuple[Partition, list[SmallProduce], list[Small]]


def produce_run(services: Services, buffer: memoryview, pos: int, end: int) -> tuple[int, bytes]:
    """Serve the run of small requests at `pos`: where it stops, and the answers; `pos` if there is none."""
    found, stop = scan_produces(buffer, pos, end, RUN_FRAME_BYTES)
    if len(found) < _LEAST:
        return pos, b""
    by_place: dict[bytes, list[SmallProduce]] = {}
    for each in found:
        by_place.setdefault(each[0], []).append(each)
    groups = []
    now_ms = services.clock.now_ms()
    for place, requests in by_place.items():
        partition = services.partitions.by_place(place)
        if partition is None or partition.topic in INTERNAL_TOPICS:
            return pos, b""
        batches = [(buffer[each[3] : each[4]], each[5], each[6]) for each in requests]
        acks = min(each[2] for each in requests)
        if not partition.takes_gathered(batches, acks, now_ms):
            return pos, b""
        groups.append((partition, requests, batches))
    return stop, _written(services, found, groups)


def _written(services: Services, found: list[SmallProduce], groups: list[Group]) -> bytes:
    """Append the groups; the answers in the order of the requests."""
    if len(groups) == 1:
        return b"".join(_append(services, *groups[0]))
    answers: dict[int, bytes] = {}
    for group in groups:
        starts = (each[3] for each in group[1])
        answers.update(zip(starts, _append(services, *group), strict=True))
    return b"".join([answers[each[3]] for each in found])


def _append(
    services: Services, partition: Partition, requests: list[SmallProduce], batches: list[Small]
) -> list[bytes]:
    """Append to one partition; the answer to each request."""
    try:
        offset = partition.append_gathered(batches)
    except KafkaError as error:
        return _failed(services, partition, requests, error)
    except Exception as error:  # noqa: BLE001  (the root of the append)
        _log.error("an append to %s failed", partition.topic_partition, exc_info=error)
        return _failed(services, partition, requests, UnknownServerError())
    return _answers(requests, offset, partition.log_start_offset)


def _answers(requests: list[SmallProduce], offset: int, log_start_offset: int) -> list[bytes]:
    # As in handlers/produce.py; `place` is everything from the name of the topic to the index.
    place = requests[0][0]
    packer = Packer(f">ii2s{len(place)}shqqq9s")
    length, pack = packer.size - 4, packer.pack
    answers = []
    for _, correlation_id, _, _, _, count, _ in requests:
        answers.append(
            pack(
                length, correlation_id, b"\x00\x02", place, 0, offset, -1, log_start_offset, b"\x01"
            )
        )
        offset += count
    return answers


def _failed(
    services: Services, partition: Partition, requests: list[SmallProduce], error: KafkaError
) -> list[bytes]:
    return [failed(services, partition, each[1], error) for each in requests]
