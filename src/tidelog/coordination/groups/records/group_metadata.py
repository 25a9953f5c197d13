"""Type 2: a generation of a classic group, with its members and their assignments."""

from tidelog.coordination.groups.records.record_type import RecordType
from tidelog.protocol.schema import Message, Struct, field, int32, int64, octets, string


class GroupMetadataKey(Message, versions="2"):
    group: string = ""


class MemberMetadata(Struct):
    member_id: string = ""
    group_instance_id: string | None = field("3+", default=None)
    client_id: string = ""
    client_host: string = ""
    rebalance_timeout: int32 = field("1+", default=-1)
    session_timeout: int32 = 0
    subscription: octets = b""
    assignment: octets = b""


class GroupMetadataValue(Message, versions="0-4", flexible="4+"):
    protocol_type: string = ""
    generation: int32 = 0
    protocol: string | None = None
    leader: string | None = None
    current_state_timestamp: int64 = field("2+", default=-1)
    members: list[MemberMetadata] = field(factory=list)


GROUP_METADATA = RecordType(GroupMetadataKey, GroupMetadataValue, lambda value: 3)
