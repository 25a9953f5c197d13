"""ConsumerProtocolAssignment: what a classic consumer is assigned.

Carried in the assignments of SyncGroup, after a version number of two bytes.  All versions are alike.
"""

from ..schema import Message, Struct, field, int32, octets, string


class TopicPartition(Struct):
    topic: string = ""
    partitions: list[int32] = field(factory=list)


class ConsumerProtocolAssignment(Message, versions="0-3", flexible="none"):
    assigned_partitions: list[TopicPartition] = field(factory=list)
    user_data: octets | None = None
