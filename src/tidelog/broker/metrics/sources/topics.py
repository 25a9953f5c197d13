"""Traffic: what producers write and consumers read, by topic and for the whole broker.

Where a metric has the label `topic`, the row without it is the whole broker's, as Kafka has it: add up either those with a
topic (`topic!=""`) or take the one without (`topic=""`).
"""

from collections.abc import Iterator

from tidelog.broker.metrics.families import Family, Found, Row, counter
from tidelog.broker.metrics.sight import Sight
from tidelog.cluster.traffic import Traffic

MESSAGES_IN = counter(
    "kafka_server_brokertopicmetrics_messagesin_total",
    "Messages that producers have written.",
    "topic",
)
BYTES_IN = counter(
    "kafka_server_brokertopicmetrics_bytesin_total",
    "Bytes that producers have written, compressed as they came.",
    "topic",
)
BYTES_OUT = counter(
    "kafka_server_brokertopicmetrics_bytesout_total",
    "Bytes that consumers have read.",
    "topic",
)
BYTES_REJECTED = counter(
    "kafka_server_brokertopicmetrics_bytesrejected_total",
    "Bytes of batches that were refused.",
    "topic",
)
FAILED_PRODUCES = counter(
    "kafka_server_brokertopicmetrics_failedproducerequests_total",
    "Batches that were refused.",
    "topic",
)
FAILED_FETCHES = counter(
    "kafka_server_brokertopicmetrics_failedfetchrequests_total",
    "Reads of a partition that were answered with an error.",
    "topic",
)
REPLICATION_IN = counter(
    "kafka_server_brokertopicmetrics_replicationbytesin_total",
    "Bytes that this broker has fetched from the leaders of what it follows.",
    "topic",
)
REPLICATION_OUT = counter(
    "kafka_server_brokertopicmetrics_replicationbytesout_total",
    "Bytes that followers have fetched from this broker.",
    "topic",
)
PRODUCES = counter(
    "kafka_server_brokertopicmetrics_totalproducerequests_total", "Produce requests."
)
FETCHES = counter(
    "kafka_server_brokertopicmetrics_totalfetchrequests_total",
    "Fetch requests, of consumers and of followers.",
)

_BY_TOPIC: tuple[tuple[Family, str], ...] = (
    (MESSAGES_IN, "messages_in"),
    (BYTES_IN, "bytes_in"),
    (BYTES_OUT, "bytes_out"),
    (BYTES_REJECTED, "bytes_rejected"),
    (FAILED_PRODUCES, "failed_produces"),
    (FAILED_FETCHES, "failed_fetches"),
    (REPLICATION_IN, "replication_bytes_in"),
    (REPLICATION_OUT, "replication_bytes_out"),
)


def collect(sight: Sight) -> Iterator[Found]:
    traffic = sight.services.partitions.traffic
    topics: list[tuple[str, Traffic]] = [("", traffic.total()), *traffic]
    for family, name in _BY_TOPIC:
        yield Found(family, [Row((topic,), getattr(each, name)) for topic, each in topics])
    requests = sight.services.requests
    yield PRODUCES.value(requests.produce.count)
    yield FETCHES.value(requests.of("Fetch").count)
