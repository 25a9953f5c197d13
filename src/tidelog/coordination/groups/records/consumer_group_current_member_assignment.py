"""Type 8: the partitions that a member of a KIP-848 group owns now, and its epoch."""

from tidelog.coordination.groups.records.record_type import RecordType
from tidelog.protocol.schema import ZERO_UUID, Message, Struct, field, int8, int32, string, uuid


class ConsumerGroupCurrentMemberAssignmentKey(Message, versions="8"):
    group_id: string = ""
    member_id: string = ""


class CurrentTopicPartitions(Struct):
    topic_id: uuid = ZERO_UUID
    partitions: list[int32] = field(factory=list)


class ConsumerGroupCurrentMemberAssignmentValue(Message, versions="0", flexible="0+"):
    member_epoch: int32 = 0
    previous_member_epoch: int32 = 0
    state: int8 = 0
    assigned_partitions: list[CurrentTopicPartitions] = field(factory=list)
    partitions_pending_revocation: list[CurrentTopicPartitions] = field(factory=list)


CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT = RecordType(
    ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue
)
