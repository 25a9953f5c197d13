"""Type 5: what a member of a KIP-848 group said of itself."""

from tidelog.coordination.groups.records.record_type import RecordType
from tidelog.protocol.schema import Message, Struct, field, int32, octets, string


class ConsumerGroupMemberMetadataKey(Message, versions="5"):
    group_id: string = ""
    member_id: string = ""


class ClassicProtocol(Struct):
    name: string = ""
    metadata: octets = b""


class ClassicMemberMetadata(Struct):
    session_timeout_ms: int32 = 0
    supported_protocols: list[ClassicProtocol] = field(factory=list)


class ConsumerGroupMemberMetadataValue(Message, versions="0", flexible="0+"):
    instance_id: string | None = None
    rack_id: string | None = None
    client_id: string = ""
    client_host: string = ""
    subscribed_topic_names: list[string] = field(factory=list)
    subscribed_topic_regex: string | None = None
    rebalance_timeout_ms: int32 = -1
    server_assignor: string | None = None
    classic_member_metadata: ClassicMemberMetadata | None = field("0+", tag=0, default=None)


CONSUMER_GROUP_MEMBER_METADATA = RecordType(
    ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue
)
