"""ListOffsets (2): the first and last offset of partitions, and offsets by time.

Versions: 2 has isolation levels; 4 checks leader epochs; 6 is flexible; 7 finds the largest timestamp; 8 the first local
offset; 9 the last tiered one; 10 has a timeout.  Absent: tiered storage, so local is all there is.  Version 0 with its lists
of offsets is gone, as in Kafka 4.

A follower is told the log's end.  A client is told to come again (5) while a new leader does not know yet what of the time
before it is committed: else the end of the partition would seem to go back (KIP-207).
"""

from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.permissions import DESCRIBE, by_item
from tidelog.broker.turns import Turns
from tidelog.cluster.partition import Partition
from tidelog.errors import (
    InvalidRequest,
    KafkaError,
    LeaderNotAvailable,
    OffsetNotAvailable,
    UnsupportedVersion,
)
from tidelog.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tidelog.security.acls import Resource

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5

_NOT_AVAILABLE_SINCE = 5
_SINCE = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}

Found = tuple[int, int, int]
"""Timestamp, offset, leader epoch; -1 for what is not told."""

_NOTHING: Found = (-1, -1, -1)

_LOG_END = -1
"""The isolation level of a replica."""


@handles(ListOffsetsRequest, "1-10", allow=by_item)
async def list_offsets(request: ListOffsetsRequest, ctx: Context) -> ListOffsetsResponse:
    turns = Turns()
    seen: dict[tuple[str, int], int] = {}
    for topic in request.topics:
        for each in topic.partitions:
            key = (topic.name, each.partition_index)
            seen[key] = seen.get(key, 0) + 1
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    _answer(
                        topic.name,
                        each,
                        _LOG_END if request.replica_id >= 0 else request.isolation_level,
                        ctx,
                        repeated=seen[topic.name, each.partition_index] > 1,
                    )
                    async for each in turns.over(topic.partitions)
                ],
            )
            async for topic in turns.over(request.topics)
        ]
    )


def _answer(
    topic: str, asked: ListOffsetsPartition, isolation: int, ctx: Context, *, repeated: bool
) -> ListOffsetsPartitionResponse:
    try:
        if repeated:
            raise InvalidRequest("a partition may be asked for only once")
        ctx.check(DESCRIBE, Resource.topic(topic))
        partition = ctx.broker.partitions.get(topic, asked.partition_index)
        partition.check_leader_epoch(asked.current_leader_epoch)
        if ctx.broker.lease.is_over:
            ctx.broker.lease.check(partition)
        timestamp, offset, epoch = _find(partition, asked.timestamp, isolation, ctx.api_version)
    except KafkaError as error:
        return ListOffsetsPartitionResponse(
            partition_index=asked.partition_index, error_code=error.code
        )
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index,
        timestamp=timestamp,
        offset=offset,
        leader_epoch=epoch,
    )


def _find(partition: Partition, target: int, isolation: int, version: int) -> Found:
    if version < _SINCE.get(target, 0) or target < LATEST_TIERED:
        raise UnsupportedVersion(f"the timestamp {target} has no meaning in version {version}")
    log = partition.log
    if target in (EARLIEST, EARLIEST_LOCAL):
        start = log.log_start_offset
        return -1, start, log.epochs.epoch_for(start)
    if target == LATEST_TIERED:
        return _NOTHING
    up_to = log.log_end_offset if isolation == _LOG_END else partition.readable_end(isolation)
    unsettled = isolation != _LOG_END and partition.epoch_start_offset > log.high_watermark
    if target == LATEST:
        if unsettled:
            raise _not_available(version)
        return -1, up_to, partition.leader_epoch
    if target == MAX_TIMESTAMP:
        found = log.max_timestamp(up_to=up_to)
    else:
        found = log.find_timestamp(target, up_to=up_to)
    if found is None and unsettled:
        raise _not_available(version)
    return found or _NOTHING


def _not_available(version: int) -> KafkaError:
    return OffsetNotAvailable() if version >= _NOT_AVAILABLE_SINCE else LeaderNotAvailable()
