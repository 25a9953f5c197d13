"""Settings of a broker as a member of a cluster, under Kafka's names where Kafka has them."""

from tidelog.dataclass import dataclass
from tidelog.settings import Section, at_least, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig(Section):
    """Where the metadata is, and who leads."""

    metastore: str = setting(
        "metastore",
        "",
        "Where the cluster's metadata is: sqlite:PATH for brokers of one machine, zk://HOST:PORT,HOST:PORT/PATH for "
        "several; empty for a file in the first data directory, which is a cluster of one broker.",
    )
    controlled_shutdown: bool = setting(
        "controlled.shutdown.enable",
        True,
        "Whether a broker that is told to stop first hands over what it leads.",
        dynamic=True,
    )
    auto_leader_rebalance: bool = setting(
        "auto.leader.rebalance.enable",
        True,
        "Whether preferred leaders get their partitions back by themselves.",
        dynamic=True,
    )
    leader_imbalance_check_interval_s: int = setting(
        "leader.imbalance.check.interval.seconds",
        300,
        "How often the controller looks whether preferred leaders lead.",
        check=at_least(1),
    )
    leader_imbalance_percentage: int = setting(
        "leader.imbalance.per.broker.percentage",
        10,
        "Share of a broker's preferred partitions that others may lead before it gets them back.",
        check=at_least(0),
        dynamic=True,
    )
