"""The controller, and the cluster as it sees it; a broker that is not the controller tells 0 of the cluster."""

from collections.abc import Iterator

from tidelog.broker.metrics.families import Found, counter, gauge, summary_ms
from tidelog.broker.metrics.sight import Sight
from tidelog.cluster.image import NO_LEADER, Image

ACTIVE = gauge(
    "kafka_controller_kafkacontroller_activecontrollercount",
    "1 on the broker that is the controller. Over all brokers the sum should be 1.",
)
OFFLINE = gauge(
    "kafka_controller_kafkacontroller_offlinepartitionscount",
    "Partitions of the cluster without a leader, told by the controller. Should be 0.",
)
IMBALANCE = gauge(
    "kafka_controller_kafkacontroller_preferredreplicaimbalancecount",
    "Partitions of the cluster that are not led by their preferred leader, told by the controller.",
)
TOPICS = gauge(
    "kafka_controller_kafkacontroller_globaltopiccount",
    "Topics of the cluster, told by the controller.",
)
PARTITIONS = gauge(
    "kafka_controller_kafkacontroller_globalpartitioncount",
    "Partitions of the cluster, told by the controller.",
)
BROKERS = gauge(
    "kafka_controller_kafkacontroller_activebrokercount",
    "Brokers that take part, told by the controller.",
)
FENCED = gauge(
    "kafka_controller_kafkacontroller_fencedbrokercount",
    "Brokers that are registered and do not take part, told by the controller.",
)
REASSIGNING = gauge(
    "kafka_controller_kafkacontroller_reassigningpartitionscount",
    "Partitions that are being moved, told by the controller.",
)
ELECTIONS = summary_ms(
    "kafka_controller_controllerstats_leaderelectionrateandtimems",
    "Elections of leaders that this broker held as the controller, and milliseconds until each was decided.",
)
UNCLEAN = counter(
    "kafka_controller_controllerstats_uncleanleaderelections_total",
    "Elections of a leader that was not in sync: committed records may have been lost. Should stay 0.",
)
METADATA_LAG = gauge(
    "tidelog_metadata_lag_entries",
    "Entries of the metadata log that this broker has not applied yet.",
)
METASTORE_AWAY = gauge(
    "tidelog_metastore_away", "1 while the metastore cannot be reached. Should be 0."
)


def collect(sight: Sight) -> Iterator[Found]:
    is_active = sight.services.controller.is_active
    image = sight.services.image() if is_active else Image()
    states = [each for topic in image.topics.values() for each in topic.partitions]
    yield ACTIVE.value(int(is_active))
    yield OFFLINE.value(sum(each.leader == NO_LEADER for each in states))
    yield IMBALANCE.value(sum(each.leader != each.replicas[0] for each in states))
    yield TOPICS.value(len(image.topics))
    yield PARTITIONS.value(len(states))
    yield BROKERS.value(len(image.live_brokers))
    yield FENCED.value(sum(each.fenced for each in image.brokers.values()))
    yield REASSIGNING.value(sum(bool(each.adding or each.removing) for each in states))
    elections, tail = sight.member.elections, sight.member.tail
    yield ELECTIONS.value(elections.times)
    yield UNCLEAN.value(elections.unclean)
    yield METADATA_LAG.value(max(tail.log_end - tail.image.number, 0))
    yield METASTORE_AWAY.value(int(tail.is_away))
