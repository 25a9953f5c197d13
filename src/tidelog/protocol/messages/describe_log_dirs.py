"""DescribeLogDirs (35): log directories, and how much each partition takes there.

Versions: 1 throttles after the answer; 2 is flexible; 3 has an error for the whole answer; 4 tells total and
usable bytes of the volume (KIP-827); 5 tells whether a directory is closed to new replicas.
"""

from ..schema import Request, Response, Struct, boolean, field, int16, int32, int64, string


class DescribableLogDirTopic(Struct):
    topic: string = ""
    partitions: list[int32] = field(factory=list)


class DescribeLogDirsRequest(Request, api_key=35, versions="0-5", flexible="2+"):
    topics: list[DescribableLogDirTopic] | None = field(factory=list)


class DescribeLogDirsPartition(Struct):
    partition_index: int32 = 0
    partition_size: int64 = 0
    offset_lag: int64 = 0
    is_future_key: boolean = False


class DescribeLogDirsTopic(Struct):
    name: string = ""
    partitions: list[DescribeLogDirsPartition] = field(factory=list)


class DescribeLogDirsResult(Struct):
    error_code: int16 = 0
    log_dir: string = ""
    topics: list[DescribeLogDirsTopic] = field(factory=list)
    total_bytes: int64 = field("4+", default=-1)
    usable_bytes: int64 = field("4+", default=-1)
    is_cordoned: boolean = field("5+", default=False)


class DescribeLogDirsResponse(Response, to=DescribeLogDirsRequest):
    throttle_time_ms: int32 = 0
    error_code: int16 = field("3+", default=0)
    results: list[DescribeLogDirsResult] = field(factory=list)
