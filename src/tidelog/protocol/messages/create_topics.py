"""CreateTopics (19): create topics, or only check that it could be done.

Versions: 1 adds messages and validate_only; 2 throttles; 3 throttles after the answer; 4 has defaults for
partitions and replicas (KIP-464); 5 is flexible and answers with the topic's settings (KIP-525); 6 may refuse by
quota (KIP-599); 7 answers with the topic id.
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


class CreatableReplicaAssignment(Struct):
    partition_index: int32 = 0
    broker_ids: list[int32] = field(factory=list)


class CreatableTopicConfig(Struct):
    name: string = ""
    value: string | None = ""


class CreatableTopic(Struct):
    name: string = ""
    num_partitions: int32 = 0
    replication_factor: int16 = 0
    assignments: list[CreatableReplicaAssignment] = field(factory=list)
    configs: list[CreatableTopicConfig] = field(factory=list)


class CreateTopicsRequest(Request, api_key=19, versions="0-7", flexible="5+", most=30_000):
    topics: list[CreatableTopic] = field(factory=list)
    timeout_ms: int32 = 60000
    validate_only: boolean = field("1+", default=False)


class CreatableTopicConfigs(Struct):
    name: string = field("5+", default="")
    value: string | None = field("5+", default="")
    read_only: boolean = field("5+", default=False)
    config_source: int8 = field("5+", default=-1)
    is_sensitive: boolean = field("5+", default=False)


class CreatableTopicResult(Struct):
    name: string = ""
    topic_id: uuid = field("7+", default=ZERO_UUID)
    error_code: int16 = 0
    error_message: string | None = field("1+", default="")
    topic_config_error_code: int16 = field("5+", tag=0, default=0)
    num_partitions: int32 = field("5+", default=-1)
    replication_factor: int16 = field("5+", default=-1)
    configs: list[CreatableTopicConfigs] | None = field("5+", factory=list)


class CreateTopicsResponse(Response, to=CreateTopicsRequest):
    throttle_time_ms: int32 = field("2+", default=0)
    topics: list[CreatableTopicResult] = field(factory=list)
