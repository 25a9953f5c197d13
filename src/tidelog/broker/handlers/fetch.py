"""Fetch (1): read batches, waiting until there are enough of them.

Versions: 5 tells the log start; 7 has sessions (KIP-227); 9 checks leader epochs (KIP-320); 11 knows racks; 12 is flexible;
13 names topics by id (KIP-516); 15 moves the follower's id; 16 tells of new leaders (KIP-951).

While a fetch waits, its connection serves nothing else, as in Kafka; clients know, and coordinate over another
connection.  Records are sent from their files.  Absent: reading from followers (KIP-392), so racks are ignored; fetches
of followers, and with them diverging epochs; zstd is refused below 10 by the topic's compression.type alone.
"""

import logging

from tidelog.broker.context import Services
from tidelog.broker.dispatch import handles_frame
from tidelog.broker.fetch_answer import Result, lay_out
from tidelog.broker.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, Session, Wanted
from tidelog.broker.leader_hints import current_leader, node_endpoints
from tidelog.cluster.partition import READ_COMMITTED, Partition
from tidelog.errors import (
    KafkaError,
    OffsetOutOfRange,
    UnknownServerError,
    UnsupportedCompressionType,
)
from tidelog.kernel import decode_fetch
from tidelog.kernel.requests import FetchTopics, ForgottenTopics
from tidelog.network.answer import Answer, Deferred, Piece
from tidelog.network.peer import Peer
from tidelog.protocol.codec import decode
from tidelog.protocol.messages.fetch import FetchRequest, NodeEndpoint

_FIRST_FAST = 12
_BY_ID = 13
_ZSTD_SINCE = 10

_log = logging.getLogger(__name__)


@handles_frame(FetchRequest, "4-17")
def fetch(
    services: Services, peer: Peer, frame: memoryview, version: int, correlation_id: int, pos: int
) -> Answer:
    parts = (decode_fetch if version >= _FIRST_FAST else _decode_old)(frame, pos, version)
    max_wait_ms, min_bytes, max_bytes, isolation, session_id, session_epoch = parts[2:8]
    topics, forgotten = parts[8], parts[9]
    sessions = services.fetch_sessions
    by_id = version >= _BY_ID
    session: Session | None
    if session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        ends = session_epoch == FINAL_EPOCH
        session_id, wanted, session = sessions.begin(session_id, by_id, topics, ends=ends)
        incremental = False
    else:
        try:
            session = sessions.resume(session_id, session_epoch, by_id, topics, forgotten)
        except KafkaError as error:
            return lay_out(version, correlation_id, error.code, 0, [], [])
        wanted = list(session.wanted.values())
        incremental = True
        if not wanted:
            sessions.end(session)
            session_id, session = 0, None
    max_bytes = min(max_bytes, services.settings.broker.fetch_max_bytes)
    reading = _Reading(
        services, version, correlation_id, isolation, max_bytes, wanted, session, incremental
    )
    reading.session_id = session_id
    reading.read()
    if reading.bytes >= min_bytes or reading.failed or max_wait_ms <= 0 or not wanted:
        return reading.answer()
    return reading.wait(min_bytes, max_wait_ms)


def _decode_old(
    frame: memoryview, pos: int, version: int
) -> tuple[int, int, int, int, int, int, int, int, FetchTopics, ForgottenTopics, str, str | None]:
    """A request of an old version, in the shape that the kernel gives."""
    request, _ = decode(FetchRequest, frame, pos, version)
    topics: FetchTopics = [
        (
            topic.topic,
            [
                (
                    each.partition,
                    each.current_leader_epoch,
                    each.fetch_offset,
                    -1,
                    each.log_start_offset,
                    each.partition_max_bytes,
                    b"",
                )
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    forgotten: ForgottenTopics = [
        (topic.topic, list(topic.partitions)) for topic in request.forgotten_topics_data
    ]
    return (
        request.replica_id,
        -1,
        request.max_wait_ms,
        request.min_bytes,
        request.max_bytes,
        request.isolation_level,
        request.session_id,
        request.session_epoch,
        topics,
        forgotten,
        request.rack_id,
        None,
    )


class _Reading:
    """One fetch from its request to its answer."""

    __slots__ = (
        "bytes",
        "correlation_id",
        "deferred",
        "failed",
        "incremental",
        "isolation",
        "max_bytes",
        "partitions",
        "results",
        "services",
        "session",
        "session_id",
        "version",
        "wanted",
    )

    def __init__(
        self,
        services: Services,
        version: int,
        correlation_id: int,
        isolation: int,
        max_bytes: int,
        wanted: list[Wanted],
        session: Session | None,
        incremental: bool,
    ) -> None:
        self.services = services
        self.version = version
        self.correlation_id = correlation_id
        self.isolation = isolation
        self.max_bytes = max_bytes
        self.wanted = wanted
        self.session = session
        self.session_id = 0
        self.incremental = incremental
        self.deferred: Deferred | None = None
        self.partitions: dict[Partition, int] = {}
        """Those that can be read, and from where."""
        self.results: list[Result] = []
        self.bytes = 0
        self.failed = False

    def read(self) -> None:
        """Find what can be sent now."""
        self.partitions, self.results = {}, []
        self.bytes, self.failed = 0, False
        for wanted in self.wanted:
            try:
                self.results.append(self._read_one(wanted))
            except KafkaError as error:
                self._fail(wanted, error)
            except Exception as error:  # noqa: BLE001  (the root of one read)
                _log.error("reading %s-%d failed", wanted.topic, wanted.index, exc_info=error)
                self._fail(wanted, UnknownServerError())

    def _read_one(self, wanted: Wanted) -> Result:
        topic = wanted.topic
        if isinstance(topic, bytes):
            partition = self.services.partitions.get_by_id(topic, wanted.index)
        else:
            partition = self.services.partitions.get(topic, wanted.index)
        if wanted.leader_epoch != -1:
            partition.check_leader_epoch(wanted.leader_epoch)
        log = partition.log
        if self.version < _ZSTD_SINCE and log.config.compression_type == "zstd":
            raise UnsupportedCompressionType
        limit = min(wanted.max_bytes, self.max_bytes - self.bytes)
        # The first that has data gives a batch, however large: else a consumer would be stuck before it (KIP-74).
        at_least_one = not self.bytes
        region = None
        if limit > 0 or at_least_one:
            region = partition.read(wanted.offset, limit, self.isolation, at_least_one=at_least_one)
        elif not log.log_start_offset <= wanted.offset <= log.log_end_offset:
            raise OffsetOutOfRange
        result = Result(topic, wanted.index)
        result.high_watermark = log.high_watermark
        result.last_stable_offset = log.last_stable_offset
        result.log_start_offset = log.log_start_offset
        if region is not None:
            result.region = region
            self.bytes += region.length
        if self.isolation == READ_COMMITTED:
            result.aborted = (
                log.aborted_transactions(region.first_offset, region.end_offset) if region else []
            )
        self.partitions[partition] = wanted.offset
        return result

    def _fail(self, wanted: Wanted, error: KafkaError) -> None:
        self.failed = True
        result = Result(wanted.topic, wanted.index, error.code)
        if isinstance(wanted.topic, str):
            result.leader = current_leader(self.services, wanted.topic, wanted.index, error)
        self.results.append(result)

    def wait(self, min_bytes: int, max_wait_ms: int) -> Deferred:
        """Answer when there is more, or time is over."""
        self.deferred = Deferred()
        self.results = []
        self.services.waiting.wait(
            self.partitions, self.isolation, min_bytes - self.bytes, max_wait_ms, self._woken
        )
        return self.deferred

    def _woken(self) -> None:
        assert self.deferred is not None
        try:
            self.read()
            self.deferred.resolve(self.answer())
        except Exception as error:  # noqa: BLE001  (the root of a woken fetch)
            self.deferred.resolve(error)

    def answer(self) -> list[Piece]:
        results = self.results
        session = self.session
        if session is not None:
            results = self._changed(session)
        leaders = {each.leader[0] for each in results if each.leader is not None}
        endpoints: list[NodeEndpoint] = []
        if leaders and self.version >= 16:
            endpoints = [
                NodeEndpoint(node_id=each.node_id, host=each.host, port=each.port, rack=each.rack)
                for each in node_endpoints(self.services, leaders)
            ]
        return lay_out(self.version, self.correlation_id, 0, self.session_id, results, endpoints)

    def _changed(self, session: Session) -> list[Result]:
        """The results that a session's answer has to hold: all in the first, then what changed."""
        told: list[Result] = []
        served: list[Wanted] = []
        for wanted, result in zip(self.wanted, self.results, strict=True):
            size = result.region.length if result.region is not None else 0
            changed = wanted.changed(
                result.error_code, result.high_watermark, result.log_start_offset, size
            )
            if changed or not self.incremental:
                told.append(result)
            if size:
                served.append(wanted)
        if served and len(self.wanted) > 1:
            session.serve_last(served)
        return told
