"""Requests: how many, how long they take and where, and who waits.

Time is measured for some requests of an API, up to fifty a second; `_count` is of all of them, `_sum` is reckoned from those that were
measured, and quantiles are those of the last thousand of them.
"""

from collections.abc import Iterator

from tidelog.broker.metrics.families import Found, Row, counter, gauge, summary_ms
from tidelog.broker.metrics.sight import Sight
from tidelog.broker.request_times import ApiTimes

REQUESTS = counter(
    "kafka_network_requestmetrics_requests_total",
    "Requests that were served; FetchConsumer and FetchFollower are parts of Fetch.",
    "request",
)
ERRORS = counter(
    "kafka_network_requestmetrics_errors_total",
    "Requests that were refused as a whole, and partitions of Produce and Fetch that were.",
    "request",
    "error",
)
TOTAL = summary_ms(
    "kafka_network_requestmetrics_totaltimems",
    "Milliseconds from the arrival of a request until its answer is sent.",
    "request",
)
QUEUE = summary_ms(
    "kafka_network_requestmetrics_requestqueuetimems",
    "Milliseconds until it was the turn of a request.",
    "request",
)
LOCAL = summary_ms(
    "kafka_network_requestmetrics_localtimems",
    "Milliseconds in which this broker worked on a request.",
    "request",
)
REMOTE = summary_ms(
    "kafka_network_requestmetrics_remotetimems",
    "Milliseconds in which a request waited for others: followers, a flush, data, a group, the controller.",
    "request",
)
THROTTLE = summary_ms(
    "kafka_network_requestmetrics_throttletimems",
    "Milliseconds for which clients were held back because their quota was used up.",
    "request",
)
RESPONSE_QUEUE = summary_ms(
    "kafka_network_requestmetrics_responsequeuetimems",
    "Milliseconds in which an answer waited for those of other requests that came together.",
    "request",
)
RESPONSE_SEND = summary_ms(
    "kafka_network_requestmetrics_responsesendtimems",
    "Milliseconds until the system had taken the answer.",
    "request",
)
THROTTLED = counter(
    "tidelog_requests_throttled_total", "Answers that told a client to wait.", "request"
)
IN_FLIGHT = gauge(
    "tidelog_requests_in_flight", "Requests that are being served, those that wait included."
)
QUEUED_BYTES = gauge(
    "tidelog_requests_queued_bytes",
    "Memory that holds unfinished requests; queued.max.request.bytes is the bound.",
)
PURGATORY = gauge(
    "kafka_server_delayedoperationpurgatory_purgatorysize",
    "Requests that wait: Produce for followers or a flush, Fetch for data.",
    "delayedoperation",
)
FETCH_SESSIONS = gauge(
    "kafka_server_fetchsessioncache_numincrementalfetchsessions",
    "Incremental fetch sessions that are remembered (KIP-227).",
)
HANDLER_IDLE = gauge(
    "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
    "Share of the last second, 0 to 1, in which the event loop had nothing to do.",
)
NETWORK_IDLE = gauge(
    "kafka_network_socketserver_networkprocessoravgidle_percent",
    "The same: one loop does the work of Kafka's network and request threads.",
)

_PHASES = (
    (TOTAL, "total"),
    (QUEUE, "queue"),
    (LOCAL, "local"),
    (REMOTE, "remote"),
    (THROTTLE, "throttle"),
    (RESPONSE_QUEUE, "response_queue"),
    (RESPONSE_SEND, "response_send"),
)


def collect(sight: Sight) -> Iterator[Found]:
    services, hub = sight.services, sight.hub
    requests = services.requests
    counts = _counts(sight)
    yield REQUESTS.rows(((each.name,), count) for each, count in counts)
    yield ERRORS.rows(requests.errors.copy().items())
    for family, phase in _PHASES:
        yield Found(
            family,
            [
                Row((each.name,), each.phases[phase], None if phase == "throttle" else count)
                for each, count in counts
                if each.name != "Fetch"
            ],
        )
    yield THROTTLED.rows(((name,), count) for name, count in list(requests.throttled.items()))
    yield IN_FLIGHT.value(sum(each.in_flight for each in list(hub.connections)))
    yield QUEUED_BYTES.value(hub.memory.used)
    yield PURGATORY.rows(
        [
            (("Produce",), sight.census.waiting_produces),
            (("Fetch",), len(services.waiting)),
        ]
    )
    yield FETCH_SESSIONS.value(len(services.fetch_sessions))
    yield HANDLER_IDLE.value(sight.loop.idle)
    yield NETWORK_IDLE.value(sight.loop.idle)


def _counts(sight: Sight) -> list[tuple[ApiTimes, int]]:
    """Each API that was asked for, and how often."""
    requests = sight.services.requests
    fetches, follower = requests.of("Fetch").count, requests.fetch_follower.count
    found = []
    for each in requests:
        count = fetches - follower if each is requests.fetch_consumer else each.count
        if count:
            found.append((each, count))
    return found
