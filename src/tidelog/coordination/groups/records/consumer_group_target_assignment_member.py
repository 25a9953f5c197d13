"""Type 7: the partitions that a member of a KIP-848 group shall own in the end."""

from tidelog.coordination.groups.records.record_type import RecordType
from tidelog.protocol.schema import ZERO_UUID, Message, Struct, field, int32, string, uuid


class ConsumerGroupTargetAssignmentMemberKey(Message, versions="7"):
    group_id: string = ""
    member_id: string = ""


class TargetTopicPartition(Struct):
    topic_id: uuid = ZERO_UUID
    partitions: list[int32] = field(factory=list)


class ConsumerGroupTargetAssignmentMemberValue(Message, versions="0", flexible="0+"):
    topic_partitions: list[TargetTopicPartition] = field(factory=list)


CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER = RecordType(
    ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue
)
