"""Replicas: what this broker leads and follows, who is in sync, and how far it lags itself."""

from collections.abc import Iterator

from tidelog.broker.metrics.families import Found, counter, gauge
from tidelog.broker.metrics.sight import Sight

UNDER_REPLICATED = gauge(
    "kafka_server_replicamanager_underreplicatedpartitions",
    "Partitions led here that have fewer replicas in sync than replicas. Should be 0.",
)
UNDER_MIN_ISR = gauge(
    "kafka_server_replicamanager_underminisrpartitioncount",
    "Partitions led here that have fewer replicas in sync than min.insync.replicas: acks=all is refused. Should be 0.",
)
AT_MIN_ISR = gauge(
    "kafka_server_replicamanager_atminisrpartitioncount",
    "Partitions led here that cannot lose another replica without refusing acks=all.",
)
PARTITIONS = gauge(
    "kafka_server_replicamanager_partitioncount",
    "Partitions of which this broker has a replica. Should be much the same on all brokers.",
)
LEADERS = gauge(
    "kafka_server_replicamanager_leadercount",
    "Partitions that this broker leads. Should be much the same on all brokers.",
)
OFFLINE_REPLICAS = gauge(
    "kafka_server_replicamanager_offlinereplicacount",
    "Replicas of this broker whose disk failed. Should be 0.",
)
SHRINKS = counter(
    "kafka_server_replicamanager_isrshrinks_total",
    "How often a replica left the in-sync replicas of a partition led here: a broker went away, or lagged.",
)
EXPANDS = counter(
    "kafka_server_replicamanager_isrexpands_total",
    "How often a replica that has caught up joined the in-sync replicas of a partition led here.",
)
MAX_LAG = gauge(
    "kafka_server_replicafetchermanager_maxlag",
    "The largest lag, in messages, of a partition that this broker follows.",
    "clientid",
)
FETCHER_LAG = gauge(
    "kafka_server_fetcherlagmetrics_consumerlag",
    "Lag, in messages, of a partition that this broker follows.",
    "clientid",
    "topic",
    "partition",
    many=True,
)
FAILING = gauge(
    "tidelog_replica_fetchers_failing",
    "Leaders that this broker cannot fetch from at the moment. Should be 0.",
)
PARTITION_UNDER_REPLICATED = gauge(
    "kafka_cluster_partition_underreplicated",
    "1 for a partition led here that has fewer replicas in sync than replicas; of replicated partitions alone.",
    "topic",
    "partition",
    many=True,
)


def collect(sight: Sight) -> Iterator[Found]:
    census, in_sync = sight.census, sight.replication.in_sync
    yield UNDER_REPLICATED.value(census.under_replicated)
    yield UNDER_MIN_ISR.value(census.under_min_isr)
    yield AT_MIN_ISR.value(census.at_min_isr)
    yield PARTITIONS.value(len(census.partitions))
    yield LEADERS.value(census.leaders)
    yield OFFLINE_REPLICAS.value(sight.services.partitions.offline_count)
    yield SHRINKS.value(in_sync.shrinks)
    yield EXPANDS.value(in_sync.expands)
    lags = sight.replication.fetchers.lags()
    yield MAX_LAG.rows([(("Replica",), max((lag for _, lag in lags), default=0))])
    yield FETCHER_LAG.rows((("Replica", each.topic, str(each.index)), lag) for each, lag in lags)
    yield FAILING.value(sight.replication.fetchers.failing)
    yield PARTITION_UNDER_REPLICATED.rows(
        ((each.topic, str(each.index)), int(len(followers.isr) < len(followers.replicas)))
        for each in census.partitions
        if (followers := each.followers) is not None
    )
