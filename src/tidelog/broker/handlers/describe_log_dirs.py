"""DescribeLogDirs (35): the log directories, what is on them and how much room is left.

Versions: 3 an error for the whole answer; 4 total and usable bytes (KIP-827).  Absent: moves between directories, so no
log is a future one.
"""

import shutil
from collections.abc import Mapping

from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.permissions import DESCRIBE, cluster
from tidelog.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from tidelog.storage.directory import LogDirectory

_UNKNOWN = -1


@handles(DescribeLogDirsRequest, "1-4", allow=cluster(DESCRIBE))
async def describe_log_dirs(
    request: DescribeLogDirsRequest, ctx: Context
) -> DescribeLogDirsResponse:
    wanted = None
    if request.topics is not None:
        wanted = {each.topic: set(each.partitions) for each in request.topics}
    return DescribeLogDirsResponse(
        results=[_result(each, wanted) for each in ctx.broker.logs.directories]
    )


def _result(
    directory: LogDirectory, wanted: Mapping[str, set[int]] | None
) -> DescribeLogDirsResult:
    if directory.failure is not None:
        return DescribeLogDirsResult(error_code=directory.failure.code, log_dir=directory.path)
    topics: dict[str, DescribeLogDirsTopic] = {}
    for (topic, index), log in directory.logs.items():
        if wanted is None or index in wanted.get(topic, ()):
            of_topic = topics.setdefault(topic, DescribeLogDirsTopic(name=topic))
            of_topic.partitions.append(
                DescribeLogDirsPartition(partition_index=index, partition_size=log.size_bytes)
            )
    total, usable = _room(directory.path)
    return DescribeLogDirsResult(
        log_dir=directory.path,
        topics=list(topics.values()),
        total_bytes=total,
        usable_bytes=usable,
    )


def _room(path: str) -> tuple[int, int]:
    try:
        usage = shutil.disk_usage(path)
    except OSError:
        return _UNKNOWN, _UNKNOWN
    return usage.total, usage.free
