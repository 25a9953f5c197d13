"""ConsumerGroupHeartbeat (68): the one request of a member in the new group protocol (KIP-848).

A null field has not changed since the last heartbeat.  Versions: 1 subscribes by a pattern, and wants the member
to choose its own id (KIP-1082).
"""

from ..schema import ZERO_UUID, Request, Response, Struct, field, int16, int32, string, uuid


class TopicPartitions(Struct):
    topic_id: uuid = ZERO_UUID
    partitions: list[int32] = field(factory=list)


class ConsumerGroupHeartbeatRequest(Request, api_key=68, versions="0-1", flexible="0+"):
    group_id: string = ""
    member_id: string = ""
    member_epoch: int32 = 0
    instance_id: string | None = None
    rack_id: string | None = None
    rebalance_timeout_ms: int32 = -1
    subscribed_topic_names: list[string] | None = None
    subscribed_topic_regex: string | None = field("1+", default=None)
    server_assignor: string | None = None
    topic_partitions: list[TopicPartitions] | None = None


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = field(factory=list)


class ConsumerGroupHeartbeatResponse(Response, to=ConsumerGroupHeartbeatRequest):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = None
    member_id: string | None = None
    member_epoch: int32 = 0
    heartbeat_interval_ms: int32 = 0
    assignment: Assignment | None = None
