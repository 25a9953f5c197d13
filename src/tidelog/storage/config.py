"""How a partition's log is cut, kept, flushed and cleaned: the settings a topic may override."""

import re

from tidelog.dataclass import dataclass
from tidelog.settings import Section, at_least, between, one_of, setting

_HOUR_MS = 3_600_000
_MINUTE_MS = 60_000
_FOREVER = (1 << 63) - 1
_INT_MAX = (1 << 31) - 1  # Kafka's int; positions in an index have no more room either


def _are_replicas(value: tuple[str, ...]) -> bool:
    """a list of partition:broker, or *"""
    return all(each == "*" or re.fullmatch(r"\d+:\d+", each) for each in value)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig(Section):
    """Log settings: the broker's value is the default of every topic."""

    segment_bytes: int = setting(
        "log.segment.bytes",
        1 << 30,
        "Size at which a segment file is closed and a new one begun.",
        check=between(14, _INT_MAX),
        topic="segment.bytes",
        dynamic=True,
    )
    segment_ms: int = setting(
        "log.roll.ms",
        168 * _HOUR_MS,
        "Age at which a segment is closed even if it is not full.",
        check=at_least(1),
        topic="segment.ms",
        dynamic=True,
        also={"log.roll.hours": _HOUR_MS},
    )
    segment_jitter_ms: int = setting(
        "log.roll.jitter.ms",
        0,
        "Random time taken off segment.ms, so that not all segments are rolled at once.",
        check=at_least(0),
        topic="segment.jitter.ms",
        dynamic=True,
        also={"log.roll.jitter.hours": _HOUR_MS},
    )
    segment_index_bytes: int = setting(
        "log.index.size.max.bytes",
        10 * 1024 * 1024,
        "Size of an index file; when it is full the segment is rolled.",
        check=between(4, _INT_MAX),
        topic="segment.index.bytes",
        dynamic=True,
    )
    index_interval_bytes: int = setting(
        "log.index.interval.bytes",
        4096,
        "One index entry is written for about this many bytes of log.",
        check=between(0, _INT_MAX),
        topic="index.interval.bytes",
        dynamic=True,
    )
    retention_ms: int = setting(
        "log.retention.ms",
        168 * _HOUR_MS,
        "How long a closed segment is kept; -1 keeps it for ever.",
        check=at_least(-1),
        topic="retention.ms",
        dynamic=True,
        also={"log.retention.minutes": _MINUTE_MS, "log.retention.hours": _HOUR_MS},
    )
    retention_bytes: int = setting(
        "log.retention.bytes",
        -1,
        "Size of a partition above which its oldest segments are deleted; -1 for no limit.",
        check=at_least(-1),
        topic="retention.bytes",
        dynamic=True,
    )
    file_delete_delay_ms: int = setting(
        "log.segment.delete.delay.ms",
        60_000,
        "How long a deleted segment's files stay, so that readers can finish.",
        check=at_least(0),
        topic="file.delete.delay.ms",
        dynamic=True,
    )
    flush_messages: int = setting(
        "log.flush.interval.messages",
        _FOREVER,
        "Messages after which the log is synced to disk; 1 syncs before every acknowledgement.",
        check=at_least(1),
        topic="flush.messages",
        dynamic=True,
    )
    flush_ms: int = setting(
        "log.flush.interval.ms",
        _FOREVER,
        "Time after which unsynced messages are synced to disk.",
        check=at_least(0),
        topic="flush.ms",
        dynamic=True,
    )
    cleanup_policy: tuple[str, ...] = setting(
        "log.cleanup.policy",
        ("delete",),
        "What happens to old data: delete, compact, or both.",
        check=one_of("delete", "compact"),
        topic="cleanup.policy",
        dynamic=True,
    )
    min_cleanable_dirty_ratio: float = setting(
        "log.cleaner.min.cleanable.ratio",
        0.5,
        "Share of a compacted log that must be uncleaned before it is cleaned.",
        check=between(0, 1),
        topic="min.cleanable.dirty.ratio",
        dynamic=True,
    )
    min_compaction_lag_ms: int = setting(
        "log.cleaner.min.compaction.lag.ms",
        0,
        "Time for which a message stays uncompacted.",
        check=at_least(0),
        topic="min.compaction.lag.ms",
        dynamic=True,
    )
    max_compaction_lag_ms: int = setting(
        "log.cleaner.max.compaction.lag.ms",
        _FOREVER,
        "Time after which a message is compacted, whatever the dirty ratio.",
        check=at_least(1),
        topic="max.compaction.lag.ms",
        dynamic=True,
    )
    delete_retention_ms: int = setting(
        "log.cleaner.delete.retention.ms",
        24 * _HOUR_MS,
        "How long a tombstone stays readable in a compacted topic.",
        check=at_least(0),
        topic="delete.retention.ms",
        dynamic=True,
    )
    max_message_bytes: int = setting(
        "message.max.bytes",
        1024 * 1024 + 12,
        "Largest batch that is accepted, as it is sent (compressed).",
        check=between(0, _INT_MAX),
        topic="max.message.bytes",
        dynamic=True,
    )
    message_timestamp_type: str = setting(
        "log.message.timestamp.type",
        "CreateTime",
        "Whether a record carries the producer's time or the time of its append.",
        check=one_of("CreateTime", "LogAppendTime"),
        topic="message.timestamp.type",
        dynamic=True,
    )
    message_timestamp_before_max_ms: int = setting(
        "log.message.timestamp.before.max.ms",
        _FOREVER,
        "How far in the past a record's timestamp may be.",
        check=at_least(0),
        topic="message.timestamp.before.max.ms",
        dynamic=True,
    )
    message_timestamp_after_max_ms: int = setting(
        "log.message.timestamp.after.max.ms",
        _HOUR_MS,
        "How far in the future a record's timestamp may be.",
        check=at_least(0),
        topic="message.timestamp.after.max.ms",
        dynamic=True,
    )
    compression_type: str = setting(
        "compression.type",
        "producer",
        "Codec in which batches are stored; producer keeps them as they were sent.",
        check=one_of("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
        topic="compression.type",
        dynamic=True,
    )
    preallocate: bool = setting(
        "log.preallocate",
        False,
        "Reserve the disk space of a segment when it is created.",
        topic="preallocate",
        dynamic=True,
    )
    min_insync_replicas: int = setting(
        "min.insync.replicas",
        1,
        "Replicas that must have a batch before acks=all is answered.",
        check=between(1, _INT_MAX),
        topic="min.insync.replicas",
        dynamic=True,
    )
    unclean_leader_election: bool = setting(
        "unclean.leader.election.enable",
        False,
        "Whether a replica that is not in sync may become leader, at the price of lost messages.",
        topic="unclean.leader.election.enable",
        dynamic=True,
    )
    leader_throttled_replicas: tuple[str, ...] = setting(
        "leader.replication.throttled.replicas",
        (),
        "Replicas, as partition:broker or *, for which leader.replication.throttled.rate holds while they catch up.",
        check=_are_replicas,
        topic="leader.replication.throttled.replicas",
        dynamic=True,
    )
    follower_throttled_replicas: tuple[str, ...] = setting(
        "follower.replication.throttled.replicas",
        (),
        "Replicas, as partition:broker or *, for which follower.replication.throttled.rate holds while they catch up.",
        check=_are_replicas,
        topic="follower.replication.throttled.replicas",
        dynamic=True,
    )
