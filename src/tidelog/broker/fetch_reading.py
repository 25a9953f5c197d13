"""What a fetch reads: for each partition that it asks for, what may be sent now, or the wait for more.

A consumer reads up to the high watermark, or to the last stable offset.  One that tells its rack may be sent to a
replica in the same rack, and is served there although this broker only follows (KIP-392).
"""

import logging

from tidelog.broker.authorizer import Refused
from tidelog.broker.context import Services
from tidelog.broker.fetch_answer import Result, lay_out
from tidelog.broker.fetch_sessions import Session, Wanted
from tidelog.broker.leader_hints import current_leader, node_endpoints
from tidelog.cluster.partition import READ_COMMITTED, Partition
from tidelog.errors import (
    KafkaError,
    OffsetOutOfRange,
    TopicAuthorizationFailed,
    UnknownServerError,
    UnsupportedCompressionType,
)
from tidelog.network.answer import Deferred, Piece
from tidelog.network.peer import Peer
from tidelog.protocol.messages.fetch import NodeEndpoint
from tidelog.quotas.account import Account
from tidelog.security.acls import Operation, Resource

_ZSTD_SINCE = 10

_log = logging.getLogger(__name__)


class Reading:
    """One fetch from its request to its answer."""

    __slots__ = (
        "bytes",
        "correlation_id",
        "deferred",
        "failed",
        "hidden",
        "in_doubt",
        "incremental",
        "is_limited",
        "isolation",
        "max_bytes",
        "partitions",
        "peer",
        "rack",
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
        self.peer: Peer | None = None
        self.rack = ""
        """Where the consumer is; empty if it does not say."""
        self.deferred: Deferred | None = None
        self.partitions: dict[Partition, int] = {}
        """Those that can be read, and from where."""
        self.results: list[Result] = []
        self.bytes = 0
        self.failed = False
        self.hidden: frozenset[str | bytes] = frozenset()
        """Topics that the client may not read."""
        self.is_limited = False
        """Whether the client has a quota."""
        self.in_doubt = False
        """Whether this broker may not be the leader any more."""

    def limit(self, account: Account) -> None:
        """Read no more at a time than a window of the client's quota allows."""
        self.is_limited = True
        self.max_bytes = min(self.max_bytes, int(account.at_once))

    def hide(self) -> None:
        """Ask the access rules, for each topic once."""
        assert self.peer is not None
        may, topics = self.services.authorizer.may, self.services.partitions
        hidden: set[str | bytes] = set()
        told = Refused(self.peer)
        for topic in {each.topic for each in self.wanted}:
            try:
                name = topics.name_of(topic) if isinstance(topic, bytes) else topic
            except KafkaError:
                continue  # there is no such topic: the answer says so
            if not may(self.peer, Operation.READ, Resource.topic(name), quietly=True):
                hidden.add(topic)
                told.add(Operation.READ, Resource.topic(name))
        told.tell()
        self.hidden = frozenset(hidden)

    def read(self) -> None:
        """Find what can be sent now."""
        self.partitions, self.results = {}, []
        self.bytes, self.failed = 0, False
        self.in_doubt = self.services.lease.is_over
        for wanted in self.wanted:
            try:
                if self.hidden and wanted.topic in self.hidden:
                    raise TopicAuthorizationFailed
                self.results.append(self._read_one(wanted))
            except KafkaError as error:
                self._fail(wanted, error)
            except Exception as error:  # noqa: BLE001  (the root of one read)
                _log.error("reading %s-%d failed", wanted.topic, wanted.index, exc_info=error)
                self._fail(wanted, UnknownServerError())

    def _read_one(self, wanted: Wanted) -> Result:
        partition = self._partition(wanted)
        if self.in_doubt:
            self.services.lease.check(partition)
        if wanted.leader_epoch != -1:
            partition.check_leader_epoch(wanted.leader_epoch)
        log = partition.log
        if self.version < _ZSTD_SINCE and log.config.compression_type == "zstd":
            raise UnsupportedCompressionType
        result = Result(wanted.topic, wanted.index)
        result.high_watermark = log.high_watermark
        result.last_stable_offset = log.last_stable_offset
        result.log_start_offset = log.log_start_offset
        if self.rack:
            result.preferred_replica = preferred_replica(
                self.services, partition, self.rack, wanted.offset
            )
            if result.preferred_replica >= 0:
                self.failed = True  # it is to go there at once
                return result
        limit = min(wanted.max_bytes, self.max_bytes - self.bytes)
        # The first that has data gives a batch, however large: else a consumer would be stuck before it (KIP-74).
        at_least_one = not self.bytes
        region = None
        if limit > 0 or at_least_one:
            region = partition.read(wanted.offset, limit, self.isolation, at_least_one=at_least_one)
        elif not log.log_start_offset <= wanted.offset <= log.log_end_offset:
            raise OffsetOutOfRange
        if region is not None:
            result.region = region
            result.traffic = partition.traffic
            self.bytes += region.length
        if self.isolation == READ_COMMITTED:
            result.aborted = (
                log.aborted_transactions(region.first_offset, region.end_offset) if region else []
            )
        self.partitions[partition] = wanted.offset
        return result

    def _partition(self, wanted: Wanted) -> Partition:
        """The partition that is led here; a consumer with a rack may also have been sent to a follower."""
        partitions, topic = self.services.partitions, wanted.topic
        if self.rack:
            name = partitions.name_of(topic) if isinstance(topic, bytes) else topic
            return partitions.hosted(name, wanted.index)
        if isinstance(topic, bytes):
            return partitions.get_by_id(topic, wanted.index)
        return partitions.get(topic, wanted.index)

    def _fail(self, wanted: Wanted, error: KafkaError) -> None:
        self.failed = True
        self.services.requests.failed("Fetch", error)
        result = Result(wanted.topic, wanted.index, error.code)
        if isinstance(wanted.topic, str):
            self.services.partitions.traffic.maybe_of(wanted.topic).failed_fetches += 1
            result.leader = current_leader(self.services, wanted.topic, wanted.index, error)
        self.results.append(result)

    def wait(self, min_bytes: int, max_wait_ms: int) -> Deferred:
        """Answer when there is more, or time is over."""
        self.deferred = Deferred()
        self.results = []
        self._wait_for(min_bytes - self.bytes, max_wait_ms)
        return self.deferred

    def _wait_for(self, needed_bytes: int, max_wait_ms: int) -> None:
        self.services.waiting.wait(
            self.partitions, self.isolation, needed_bytes, max_wait_ms, self._woken
        )

    def _woken(self) -> None:
        assert self.deferred is not None
        try:
            self.read()
            self.deferred.resolve(self.answer())
        except Exception as error:  # noqa: BLE001  (the root of a woken fetch)
            self.deferred.resolve(error)

    def answer(self) -> list[Piece]:
        throttle_ms = 0
        if self.is_limited:
            granted, throttle_ms = self._granted()
            if not granted:
                return self._nothing(throttle_ms)
        results = self.results
        session = self.session
        if session is not None:
            results = self._changed(session)
        self._count_out(results)
        endpoints = self._endpoints(results) if self.failed and self.version >= 16 else []
        return lay_out(
            self.version,
            self.correlation_id,
            0,
            self.session_id,
            results,
            endpoints,
            throttle_ms=throttle_ms,
        )

    def _endpoints(self, results: list[Result]) -> list[NodeEndpoint]:
        """Where the leaders are that the answer names."""
        leaders = {each.leader[0] for each in results if each.leader is not None}
        if not leaders:
            return []
        return [
            NodeEndpoint(node_id=each.node_id, host=each.host, port=each.port, rack=each.rack)
            for each in node_endpoints(self.services, leaders, self.peer)
        ]

    def _granted(self) -> tuple[bool, int]:
        meter = self.services.meter
        if meter is None or self.peer is None or not self.bytes:
            return True, 0
        return meter.granted(self.peer, self.bytes)

    def _nothing(self, throttle_ms: int) -> list[Piece]:
        """To who has used too much: no data, whatever was asked for.

        In the first answer of a session this says that there is none (KIP-219): the client begins again.
        """
        if self.session is not None and not self.incremental:
            self.services.fetch_sessions.end(self.session)
            self.session_id = 0
        return lay_out(
            self.version, self.correlation_id, 0, self.session_id, [], [], throttle_ms=throttle_ms
        )

    def _count_out(self, results: list[Result]) -> None:
        for each in results:
            if each.region is not None and each.traffic is not None:
                each.traffic.bytes_out += each.region.length

    def _changed(self, session: Session) -> list[Result]:
        """The results that a session's answer has to hold: all in the first, then what changed."""
        told: list[Result] = []
        served: list[Wanted] = []
        for wanted, result in zip(self.wanted, self.results, strict=True):
            size = result.region.length if result.region is not None else 0
            changed = wanted.changed(
                result.error_code, result.high_watermark, result.log_start_offset, size
            )
            directed = result.diverging is not None or result.preferred_replica >= 0
            if changed or directed or not self.incremental:
                told.append(result)
            if size:
                served.append(wanted)
        if served and len(self.wanted) > 1:
            session.serve_last(served)
        return told


def preferred_replica(services: Services, partition: Partition, rack: str, offset: int) -> int:
    """A replica in sync in the consumer's rack that has `offset`, if this broker leads from another; else -1."""
    followers = partition.followers
    if (
        followers is None
        or not services.settings.replication.selector_class
        or rack == services.settings.broker.rack
    ):
        return -1
    brokers = services.image().brokers
    best, best_end = -1, -1
    for broker_id in followers.isr:
        follower, known = followers.by_id.get(broker_id), brokers.get(broker_id)
        if (
            follower is not None
            and known is not None
            and known.rack == rack
            and follower.log_start_offset <= offset <= follower.log_end_offset
            and follower.log_end_offset > best_end
        ):
            best, best_end = broker_id, follower.log_end_offset
    return best
