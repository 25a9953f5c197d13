"""Settings of the group coordinator, under Kafka's names."""

from tidelog.dataclass import dataclass
from tidelog.settings import Section, at_least, one_of, setting

_MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig(Section):
    """How consumer groups behave, and how their offsets are kept."""

    initial_rebalance_delay_ms: int = setting(
        "group.initial.rebalance.delay.ms",
        100,
        "How long the first rebalance of an empty group waits for more members.  Kafka waits 3000 ms;"
        " tidelog waits less, so that a first consumer reads at once.  Raise it where many members start together.",
        check=at_least(0),
        dynamic=True,
    )
    min_session_timeout_ms: int = setting(
        "group.min.session.timeout.ms",
        6_000,
        "Shortest session timeout that a classic member may ask for.",
        check=at_least(1),
        dynamic=True,
    )
    max_session_timeout_ms: int = setting(
        "group.max.session.timeout.ms",
        30 * _MINUTE_MS,
        "Longest session timeout that a classic member may ask for.",
        check=at_least(1),
        dynamic=True,
    )
    max_size: int = setting(
        "group.max.size",
        (1 << 31) - 1,
        "Members that a classic group may have.",
        check=at_least(1),
    )
    offsets_retention_minutes: int = setting(
        "offsets.retention.minutes",
        7 * 24 * 60,
        "How long offsets are kept after their group became empty, or left the topic.",
        check=at_least(1),
    )
    offsets_retention_check_interval_ms: int = setting(
        "offsets.retention.check.interval.ms",
        10 * _MINUTE_MS,
        "How often expired offsets are looked for.",
        check=at_least(1),
    )
    offset_metadata_max_bytes: int = setting(
        "offset.metadata.max.bytes",
        4096,
        "Longest text that may be committed with an offset.",
        check=at_least(0),
        dynamic=True,
    )
    offsets_topic_num_partitions: int = setting(
        "offsets.topic.num.partitions",
        50,
        "Partitions of __consumer_offsets; cannot be changed once the topic exists.",
        check=at_least(1),
    )
    offsets_topic_replication_factor: int = setting(
        "offsets.topic.replication.factor",
        3,
        "Replicas of __consumer_offsets; fewer where there are fewer brokers when it is created.",
        check=at_least(1),
    )
    offsets_topic_segment_bytes: int = setting(
        "offsets.topic.segment.bytes",
        100 * 1024 * 1024,
        "Segment size of __consumer_offsets; small, so that it is compacted and loaded fast.",
        check=at_least(1),
    )
    offsets_load_buffer_bytes: int = setting(
        "offsets.load.buffer.size",
        5 * 1024 * 1024,
        "Bytes that are read at once when a shard is loaded.",
        check=at_least(1),
    )
    consumer_session_timeout_ms: int = setting(
        "group.consumer.session.timeout.ms",
        45_000,
        "Time without a heartbeat after which a member of a KIP-848 group is removed.",
        check=at_least(1),
        dynamic=True,
    )
    consumer_heartbeat_interval_ms: int = setting(
        "group.consumer.heartbeat.interval.ms",
        5_000,
        "How often members of a KIP-848 group are told to send a heartbeat.",
        check=at_least(1),
        dynamic=True,
    )
    consumer_max_size: int = setting(
        "group.consumer.max.size",
        (1 << 31) - 1,
        "Members that a KIP-848 group may have.",
        check=at_least(1),
    )
    consumer_assignors: tuple[str, ...] = setting(
        "group.consumer.assignors",
        ("uniform", "range"),
        "Server-side assignors; the first is the default.",
        check=one_of("uniform", "range"),
    )
