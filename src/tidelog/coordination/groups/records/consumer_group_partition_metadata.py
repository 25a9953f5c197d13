"""Type 4: the topics that a KIP-848 group is subscribed to, as they were when its epoch was last raised."""

from tidelog.coordination.groups.records.record_type import RecordType
from tidelog.protocol.schema import ZERO_UUID, Message, Struct, field, int32, string, uuid


class ConsumerGroupPartitionMetadataKey(Message, versions="4"):
    group_id: string = ""


class PartitionMetadata(Struct):
    partition: int32 = 0
    racks: list[string] = field(factory=list)


class TopicMetadata(Struct):
    topic_id: uuid = ZERO_UUID
    topic_name: string = ""
    num_partitions: int32 = 0
    partition_metadata: list[PartitionMetadata] = field(factory=list)


class ConsumerGroupPartitionMetadataValue(Message, versions="0", flexible="0+"):
    topics: list[TopicMetadata] = field(factory=list)


CONSUMER_GROUP_PARTITION_METADATA = RecordType(
    ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue
)
