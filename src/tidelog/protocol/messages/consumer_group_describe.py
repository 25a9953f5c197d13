"""ConsumerGroupDescribe (69): state and members of groups of the new protocol (KIP-848).

Versions: 1 tells which protocol a member speaks (KIP-1099).
"""

from ..schema import (
    ZERO_UUID,
    Request,
    Response,
    Struct,
    boolean,
    field,
    int8,
    int16,
    int32,
    string,
    uuid,
)


class ConsumerGroupDescribeRequest(Request, api_key=69, versions="0-1", flexible="0+"):
    group_ids: list[string] = field(factory=list)
    include_authorized_operations: boolean = False


class TopicPartitions(Struct):
    topic_id: uuid = ZERO_UUID
    topic_name: string = ""
    partitions: list[int32] = field(factory=list)


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = field(factory=list)


class Member(Struct):
    member_id: string = ""
    instance_id: string | None = None
    rack_id: string | None = None
    member_epoch: int32 = 0
    client_id: string = ""
    client_host: string = ""
    subscribed_topic_names: list[string] = field(factory=list)
    subscribed_topic_regex: string | None = None
    assignment: Assignment = field(factory=Assignment)
    target_assignment: Assignment = field(factory=Assignment)
    member_type: int8 = field("1+", default=-1)


class DescribedGroup(Struct):
    error_code: int16 = 0
    error_message: string | None = None
    group_id: string = ""
    group_state: string = ""
    group_epoch: int32 = 0
    assignment_epoch: int32 = 0
    assignor_name: string = ""
    members: list[Member] = field(factory=list)
    authorized_operations: int32 = -2147483648


class ConsumerGroupDescribeResponse(Response, to=ConsumerGroupDescribeRequest):
    throttle_time_ms: int32 = 0
    groups: list[DescribedGroup] = field(factory=list)
