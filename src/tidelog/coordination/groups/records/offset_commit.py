"""Types 0 and 1: a committed offset of a group."""

from tidelog.coordination.groups.records.record_type import RecordType
from tidelog.protocol.schema import Message, field, int32, int64, string


class OffsetCommitKey(Message, versions="0-1"):
    group: string = ""
    topic: string = ""
    partition: int32 = 0


class OffsetCommitValue(Message, versions="0-4", flexible="4+"):
    offset: int64 = 0
    leader_epoch: int32 = field("3+", default=-1)
    metadata: string = ""
    commit_timestamp: int64 = 0
    expire_timestamp: int64 = field("1", default=-1)


# Only version 1 has room for an expiry of its own, which OffsetCommit v2-4 may ask for.
OFFSET_COMMIT = RecordType(
    OffsetCommitKey, OffsetCommitValue, lambda value: 3 if value.expire_timestamp == -1 else 1
)
