"""Fetch (1): read record batches, waiting until there are enough of them.

Versions: 1 throttles; 3 bounds the whole answer (KIP-74); 4 has isolation levels; 5 the log start offset;
7 sessions (KIP-227); 8 throttles after the answer; 9 checks leader epochs (KIP-320); 10 allows zstd; 11 knows
racks (KIP-392); 12 is flexible and detects diverging logs; 13 has topic ids in place of names (KIP-516); 14 may
answer that data is in tiered storage; 15 moves the follower's id into a tagged struct (KIP-903); 16 tells of new
leaders (KIP-951); 17 names the follower's directory (KIP-853); 18 its high watermark (KIP-1166).
"""

from ..schema import (
    ZERO_UUID,
    Request,
    Response,
    Struct,
    batches,
    field,
    int8,
    int16,
    int32,
    int64,
    string,
    uuid,
)


class ReplicaState(Struct):
    replica_id: int32 = field("15+", default=-1)
    replica_epoch: int64 = field("15+", default=-1)


class FetchPartition(Struct):
    partition: int32 = 0
    current_leader_epoch: int32 = field("9+", default=-1)
    fetch_offset: int64 = 0
    last_fetched_epoch: int32 = field("12+", default=-1)
    log_start_offset: int64 = field("5+", default=-1)
    partition_max_bytes: int32 = 0
    replica_directory_id: uuid = field("17+", tag=0, default=ZERO_UUID)
    high_watermark: int64 = field("18+", tag=1, default=0x7FFF_FFFF_FFFF_FFFF)


class FetchTopic(Struct):
    topic: string = field("0-12", default="")
    topic_id: uuid = field("13+", default=ZERO_UUID)
    partitions: list[FetchPartition] = field(factory=list)


class ForgottenTopic(Struct):
    topic: string = field("7-12", default="")
    topic_id: uuid = field("13+", default=ZERO_UUID)
    partitions: list[int32] = field("7+", factory=list)


class FetchRequest(Request, api_key=1, versions="0-18", flexible="12+", most=40_000):
    cluster_id: string | None = field("12+", tag=0, default=None)
    replica_id: int32 = field("0-14", default=-1)
    replica_state: ReplicaState = field("15+", tag=1, factory=ReplicaState)
    max_wait_ms: int32 = 0
    min_bytes: int32 = 0
    max_bytes: int32 = field("3+", default=0x7FFF_FFFF)
    isolation_level: int8 = field("4+", default=0)
    session_id: int32 = field("7+", default=0)
    session_epoch: int32 = field("7+", default=-1)
    topics: list[FetchTopic] = field(factory=list)
    forgotten_topics_data: list[ForgottenTopic] = field("7+", factory=list)
    rack_id: string = field("11+", default="")


class EpochEndOffset(Struct):
    epoch: int32 = field("12+", default=-1)
    end_offset: int64 = field("12+", default=-1)


class LeaderIdAndEpoch(Struct):
    leader_id: int32 = field("12+", default=-1)
    leader_epoch: int32 = field("12+", default=-1)


class SnapshotId(Struct):
    end_offset: int64 = -1
    epoch: int32 = -1


class AbortedTransaction(Struct):
    producer_id: int64 = field("4+", default=0)
    first_offset: int64 = field("4+", default=0)


class PartitionData(Struct):
    partition_index: int32 = 0
    error_code: int16 = 0
    high_watermark: int64 = 0
    last_stable_offset: int64 = field("4+", default=-1)
    log_start_offset: int64 = field("5+", default=-1)
    diverging_epoch: EpochEndOffset = field("12+", tag=0, factory=EpochEndOffset)
    current_leader: LeaderIdAndEpoch = field("12+", tag=1, factory=LeaderIdAndEpoch)
    snapshot_id: SnapshotId = field("12+", tag=2, factory=SnapshotId)
    aborted_transactions: list[AbortedTransaction] | None = field("4+", factory=list)
    preferred_read_replica: int32 = field("11+", default=-1)
    records: batches | None = None


class FetchableTopicResponse(Struct):
    topic: string = field("0-12", default="")
    topic_id: uuid = field("13+", default=ZERO_UUID)
    partitions: list[PartitionData] = field(factory=list)


class NodeEndpoint(Struct):
    node_id: int32 = field("16+", default=0)
    host: string = field("16+", default="")
    port: int32 = field("16+", default=0)
    rack: string | None = field("16+", default=None)


class FetchResponse(Response, to=FetchRequest):
    throttle_time_ms: int32 = field("1+", default=0)
    error_code: int16 = field("7+", default=0)
    session_id: int32 = field("7+", default=0)
    responses: list[FetchableTopicResponse] = field(factory=list)
    node_endpoints: list[NodeEndpoint] = field("16+", tag=0, factory=list)
