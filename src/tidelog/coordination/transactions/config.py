"""Settings of the transaction coordinator, under Kafka's names."""

from tidelog.dataclass import dataclass
from tidelog.settings import Section, at_least, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionConfig(Section):
    """How transactions behave, and how their state is kept."""

    max_timeout_ms: int = setting(
        "transaction.max.timeout.ms",
        900_000,
        "Longest timeout that a transactional producer may ask for.",
        check=at_least(1),
        dynamic=True,
    )
    abort_interval_ms: int = setting(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        10_000,
        "How often transactions that have outlived their timeout are looked for, and aborted.",
        check=at_least(1),
        dynamic=True,
    )
    id_expiration_ms: int = setting(
        "transactional.id.expiration.ms",
        7 * 24 * 3_600_000,
        "How long a transactional id is remembered after its last transaction.",
        check=at_least(1),
        dynamic=True,
    )
    expiry_interval_ms: int = setting(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        3_600_000,
        "How often expired transactional ids are looked for.",
        check=at_least(1),
    )
    partition_verification: bool = setting(
        "transaction.partition.verification.enable",
        True,
        "Whether a transactional batch is refused unless its partition was added to an open transaction (KIP-890).",
        dynamic=True,
    )
    topic_num_partitions: int = setting(
        "transaction.state.log.num.partitions",
        50,
        "Partitions of __transaction_state; fixed once the topic is there.",
        check=at_least(1),
    )
    topic_replication_factor: int = setting(
        "transaction.state.log.replication.factor",
        3,
        "Replicas of __transaction_state; no more than there are brokers when it is created.",
        check=at_least(1),
    )
    topic_segment_bytes: int = setting(
        "transaction.state.log.segment.bytes",
        100 * 1024 * 1024,
        "Segment size of __transaction_state.",
        check=at_least(1),
    )
    load_buffer_bytes: int = setting(
        "transaction.state.log.load.buffer.size",
        5 * 1024 * 1024,
        "Bytes that are read at once when a shard of transactions is loaded.",
        check=at_least(1),
    )
