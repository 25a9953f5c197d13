"""Type 6: the group epoch for which the target assignment was computed."""

from tidelog.coordination.groups.records.record_type import RecordType
from tidelog.protocol.schema import Message, int32, string


class ConsumerGroupTargetAssignmentMetadataKey(Message, versions="6"):
    group_id: string = ""


class ConsumerGroupTargetAssignmentMetadataValue(Message, versions="0", flexible="0+"):
    assignment_epoch: int32 = 0


CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA = RecordType(
    ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue
)
