"""How a topic is made that somebody uses before anybody created it: plain ones by default, internal ones their way."""

from tidelog.broker.settings import BrokerSettings
from tidelog.cluster.topics import NewTopic
from tidelog.names import CONSUMER_OFFSETS, TRANSACTION_STATE


def automatic_topic(name: str, settings: BrokerSettings, brokers: int) -> NewTopic:
    """The topic to create for `name` in a cluster of so many brokers."""
    groups, transactions = settings.groups, settings.transactions
    if name == CONSUMER_OFFSETS:
        return NewTopic(
            name=name,
            partitions=groups.offsets_topic_num_partitions,
            # A single broker must be able to serve groups, whatever the setting is for later.
            replication_factor=min(groups.offsets_topic_replication_factor, brokers),
            configs=internal_config(name, settings),
        )
    if name == TRANSACTION_STATE:
        return NewTopic(
            name=name,
            partitions=transactions.topic_num_partitions,
            replication_factor=min(transactions.topic_replication_factor, brokers),
            configs=internal_config(name, settings),
        )
    return NewTopic(name=name)


def internal_config(name: str, settings: BrokerSettings) -> dict[str, str]:
    """The settings that belong to an internal topic; none for other topics."""
    if name == CONSUMER_OFFSETS:
        segment_bytes = settings.groups.offsets_topic_segment_bytes
    elif name == TRANSACTION_STATE:
        segment_bytes = settings.transactions.topic_segment_bytes
    else:
        return {}
    return {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(segment_bytes),
    }
