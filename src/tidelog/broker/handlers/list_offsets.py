"""ListOffsets (2): the first and last offset of partitions, and offsets by time.

Versions: 2 has isolation levels; 4 checks leader epochs; 6 is flexible; 7 finds the largest timestamp; 8 the first local
offset; 9 the last tiered one; 10 has a timeout.  Absent: tiered storage, so local is all there is.  Version 0 with its lists
of offsets is gone, as in Kafka 4.
"""

from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.cluster.partition import Partition
from tidelog.errors import InvalidRequest, KafkaError, UnsupportedVersion
from tidelog.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5

_SINCE = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}

Found = tuple[int, int, int]
"""Timestamp, offset, leader epoch; -1 for what is not told."""

_NOTHING: Found = (-1, -1, -1)


@handles(ListOffsetsRequest, "1-10")
def list_offsets(request: ListOffsetsRequest, ctx: Context) -> ListOffsetsResponse:
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
                        request.isolation_level,
                        ctx,
                        repeated=seen[topic.name, each.partition_index] > 1,
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _answer(
    topic: str, asked: ListOffsetsPartition, isolation: int, ctx: Context, *, repeated: bool
) -> ListOffsetsPartitionResponse:
    try:
        if repeated:
            raise InvalidRequest("a partition may be asked for only once")
        partition = ctx.broker.partitions.get(topic, asked.partition_index)
        partition.check_leader_epoch(asked.current_leader_epoch)
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
    if target == LATEST:
        return -1, partition.readable_end(isolation), partition.leader_epoch
    if target in (EARLIEST, EARLIEST_LOCAL):
        start = log.log_start_offset
        return -1, start, log.epochs.epoch_for(start)
    if target == LATEST_TIERED:
        return _NOTHING
    up_to = partition.readable_end(isolation)
    if target == MAX_TIMESTAMP:
        return log.max_timestamp(up_to=up_to) or _NOTHING
    return log.find_timestamp(target, up_to=up_to) or _NOTHING
