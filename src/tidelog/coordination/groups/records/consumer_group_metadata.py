"""Type 3: the epoch of a KIP-848 group."""

from tidelog.coordination.groups.records.record_type import RecordType
from tidelog.protocol.schema import Message, int32, string


class ConsumerGroupMetadataKey(Message, versions="3"):
    group_id: string = ""


class ConsumerGroupMetadataValue(Message, versions="0", flexible="0+"):
    epoch: int32 = 0


CONSUMER_GROUP_METADATA = RecordType(ConsumerGroupMetadataKey, ConsumerGroupMetadataValue)
