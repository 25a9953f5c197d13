"""AlterPartition (56): a leader asks the controller to change its in-sync replicas (KIP-497).

Versions: 1 has the recovery state after an unclean election (KIP-704); 2 topic ids in place of names (KIP-841);
3 the broker epoch of each replica (KIP-903).
"""

from ..schema import (
    ZERO_UUID,
    Request,
    Response,
    Struct,
    field,
    int8,
    int16,
    int32,
    int64,
    string,
    uuid,
)


class BrokerState(Struct):
    broker_id: int32 = field("3+", default=0)
    broker_epoch: int64 = field("3+", default=-1)


class PartitionData(Struct):
    partition_index: int32 = 0
    leader_epoch: int32 = 0
    new_isr: list[int32] = field("0-2", factory=list)
    new_isr_with_epochs: list[BrokerState] = field("3+", factory=list)
    leader_recovery_state: int8 = field("1+", default=0)
    partition_epoch: int32 = 0


class TopicData(Struct):
    topic_name: string = field("0-1", default="")
    topic_id: uuid = field("2+", default=ZERO_UUID)
    partitions: list[PartitionData] = field(factory=list)


class AlterPartitionRequest(Request, api_key=56, versions="0-3", flexible="0+"):
    broker_id: int32 = 0
    broker_epoch: int64 = -1
    topics: list[TopicData] = field(factory=list)


class AlterPartitionResponsePartitionData(Struct):
    partition_index: int32 = 0
    error_code: int16 = 0
    leader_id: int32 = 0
    leader_epoch: int32 = 0
    isr: list[int32] = field(factory=list)
    leader_recovery_state: int8 = field("1+", default=0)
    partition_epoch: int32 = 0


class AlterPartitionResponseTopicData(Struct):
    topic_name: string = field("0-1", default="")
    topic_id: uuid = field("2+", default=ZERO_UUID)
    partitions: list[AlterPartitionResponsePartitionData] = field(factory=list)


class AlterPartitionResponse(Response, to=AlterPartitionRequest):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    topics: list[AlterPartitionResponseTopicData] = field(factory=list)
