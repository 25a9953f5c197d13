"""Produce (0): append a batch to each of some partitions.

Versions: 5 answers with the log start offset; 7 allows zstd; 8 names refused records (KIP-467); 9 is flexible; 10 tells
of a new leader (KIP-951); with 12 a batch puts its partition into the producer's transaction (KIP-890).  0-2 are advertised and refused: old librdkafka looks for them before it compresses.

Requests are pipelined: while one waits for its flush, later ones of the same connection are appended.  The usual
request (flexible, one partition, no error) is answered from a template, everything else through the codec.
Absent: nothing.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import lru_cache, partial
from struct import Struct as Packer

from tidelog.broker.authorizer import Refused
from tidelog.broker.context import Services
from tidelog.broker.dispatch import handles_frame
from tidelog.broker.leader_hints import current_leader, node_endpoints
from tidelog.broker.permissions import WRITE, by_item
from tidelog.broker.transactional_produce import answer_in_turn, as_told, check_batch, enter
from tidelog.cluster.partition import Partition
from tidelog.errors import (
    InvalidRecord,
    InvalidRequiredAcks,
    InvalidTopicException,
    KafkaError,
    ProtocolError,
    RequestTimedOut,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
    UnknownServerError,
)
from tidelog.kernel import decode_produce, write_uvarint
from tidelog.names import INTERNAL_TOPICS
from tidelog.network.answer import Answer, Deferred
from tidelog.network.peer import Peer
from tidelog.protocol.codec import decode
from tidelog.protocol.frame import encode_response
from tidelog.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from tidelog.records.batch import TRANSACTIONAL
from tidelog.records.validate import RefusedRecords, RefusedTimestamps, validate_produced
from tidelog.security.acls import Resource
from tidelog.storage.log import Appended

_FIRST_FLEXIBLE = 9
_ACKS = (0, 1, -1)
_TURN_S = 0.01
"""How long batches are appended before others have their turn."""

_log = logging.getLogger(__name__)

# One partition, no error, from version 9 on:
#   length | correlation id | tags | 1 topic | its name | 1 partition |
#   index | error | base offset | append time | log start | no record errors | no message | tags | tags | throttle | tags
Written = tuple[Partition, Appended]
Outcome = Written | KafkaError
Topics = list[tuple[str, list[tuple[int, memoryview | None]]]]


@handles_frame(ProduceRequest, "3-12", allow=by_item, advertised="0-12")
def produce(
    services: Services, peer: Peer, frame: memoryview, version: int, correlation_id: int, pos: int
) -> Answer:
    if not services.authorizer.is_open:
        return _produce_guarded(services, peer, frame, version, correlation_id, pos)
    if version < _FIRST_FLEXIBLE:
        old = _decode_old(frame, pos, version)
        if old[0] is not None:
            return _produce_in_transaction(services, frame, version, correlation_id, pos)
        return _produce_many(services, version, correlation_id, *old)
    transactional_id, acks, timeout_ms, places = decode_produce(
        frame, pos, version, ProduceRequest.most
    )
    if transactional_id is not None:
        return _produce_in_transaction(services, frame, version, correlation_id, pos)
    if acks in _ACKS and len(places) == 1:
        name, partitions = places[0]
        if len(partitions) == 1:
            index, start, end = partitions[0]
            records = frame[start:end] if start >= 0 else None
            outcome = _append(services, name, index, records, version, acks, None)
            if acks and isinstance(outcome, tuple):
                partition, appended = outcome
                if appended.last_offset < partition.log.high_watermark or (
                    acks == 1 and not partition.is_flushing
                ):
                    return _usual(name, index, partition, appended, correlation_id)
                if acks == -1:
                    waiting_one = _Commit(services, name, index, outcome, version, correlation_id)
                    return waiting_one.begin(timeout_ms)
            outcomes = [(name, [(index, outcome)])]
            return _answer(services, version, correlation_id, acks, timeout_ms, outcomes)
    topics = _topics(frame, places)
    return _produce_many(services, version, correlation_id, None, acks, timeout_ms, topics)


def _produce_guarded(
    services: Services, peer: Peer, frame: memoryview, version: int, correlation_id: int, pos: int
) -> Answer:
    """Where there are access rules: topics that the client may not write to are refused, the others are written."""
    transactional_id, acks, timeout_ms, topics = _decode(frame, pos, version)
    may = services.authorizer.may
    if transactional_id is not None and not may(
        peer, WRITE, Resource.transaction(transactional_id)
    ):
        refusal: Outcome = TransactionalIdAuthorizationFailed()
        outcomes = [(name, [(index, refusal) for index, _ in parts]) for name, parts in topics]
        return _answer(services, version, correlation_id, acks, timeout_ms, outcomes)
    refused = _refused(services, peer, topics)
    if transactional_id is not None:
        return _produce_in_transaction(services, frame, version, correlation_id, pos, refused)
    return _produce_many(services, version, correlation_id, None, acks, timeout_ms, topics, refused)


def _refused(services: Services, peer: Peer, topics: Topics) -> frozenset[str]:
    """The topics that the client may not write to."""
    told = Refused(peer)
    found = set()
    for name in {name for name, _ in topics}:
        if not services.authorizer.may(peer, WRITE, Resource.topic(name), quietly=True):
            found.add(name)
            told.add(WRITE, Resource.topic(name))
    told.tell()
    return frozenset(found)


def _produce_in_transaction(
    services: Services,
    frame: memoryview,
    version: int,
    correlation_id: int,
    pos: int,
    refused: frozenset[str] = frozenset(),
) -> Answer:
    """Append once the transaction's coordinator has let the batches in."""
    transactional_id, acks, timeout_ms, topics = _decode(frame, pos, version)
    assert transactional_id is not None
    turns = services.transactions.turns

    def let_in() -> "asyncio.Future[None] | None":
        allowed = [each for each in topics if each[0] not in refused]
        return enter(services, transactional_id, allowed, version)

    def write() -> Answer:
        return _produce_many(
            services, version, correlation_id, transactional_id, acks, timeout_ms, topics, refused
        )

    def refuse(error: KafkaError) -> Answer:
        told = as_told(error, version)
        outcomes: Outcomes = [(name, [(each[0], told) for each in parts]) for name, parts in topics]
        return _answer(services, version, correlation_id, acks, timeout_ms, outcomes)

    waiting: asyncio.Future[None] | None = None
    try:
        if transactional_id not in turns:
            waiting = let_in()
            if waiting is None:
                return write()
    except KafkaError as error:
        return refuse(error)
    kept = memoryview(bytearray(frame))  # the frame itself is the network's
    topics = _decode(kept, pos, version)[3]
    return answer_in_turn(turns, transactional_id, let_in, write, refuse, waiting=waiting)


Decoded = tuple[str | None, int, int, Topics]
"""Transactional id, acks, timeout in milliseconds, batches."""


def _decode(frame: memoryview, pos: int, version: int) -> Decoded:
    if version < _FIRST_FLEXIBLE:
        return _decode_old(frame, pos, version)
    transactional_id, acks, timeout_ms, places = decode_produce(
        frame, pos, version, ProduceRequest.most
    )
    return transactional_id, acks, timeout_ms, _topics(frame, places)


def _topics(frame: memoryview, places: list[tuple[str, list[tuple[int, int, int]]]]) -> Topics:
    return [
        (name, [(each[0], frame[each[1] : each[2]] if each[1] >= 0 else None) for each in parts])
        for name, parts in places
    ]


def _decode_old(frame: memoryview, pos: int, version: int) -> Decoded:
    request, _ = decode(ProduceRequest, frame, pos, version)
    topics: Topics = [
        (
            topic.name,
            [
                (each.index, None if each.records is None else memoryview(each.records))
                for each in topic.partition_data
            ],
        )
        for topic in request.topic_data
    ]
    return request.transactional_id, request.acks, request.timeout_ms, topics


def _usual(
    name: str, index: int, partition: Partition, appended: Appended, correlation_id: int
) -> bytes:
    packer, length, prefix = _template(name)
    return packer.pack(
        length,
        correlation_id,
        prefix,
        index,
        0,
        appended[0],
        appended[2],
        partition.log.log_start_offset,
        b"\x01",
    )


@lru_cache(maxsize=4096)
def _template(name: str) -> tuple[Packer, int, bytes]:
    """How the answer for a topic is packed, its length, and the bytes that name the topic."""
    raw = name.encode()
    prefix = bytearray(b"\x00\x02")
    write_uvarint(prefix, len(raw) + 1)
    prefix += raw + b"\x02"
    # "9s" begins with the empty array of record errors; null message, tags, throttle time and tags are zeros.
    packer = Packer(f">ii{len(prefix)}sihqqq9s")
    return packer, packer.size - 4, bytes(prefix)


class _Commit:
    """The usual request where there are other replicas: its answer waits for the commit of its one batch."""

    __slots__ = (
        "_correlation_id",
        "_deferred",
        "_index",
        "_name",
        "_services",
        "_timer",
        "_version",
        "_written",
    )

    def __init__(
        self,
        services: Services,
        name: str,
        index: int,
        written: Written,
        version: int,
        correlation_id: int,
    ) -> None:
        self._services = services
        self._name = name
        self._index = index
        self._written = written
        self._version = version
        self._correlation_id = correlation_id
        self._deferred = Deferred(pipelined=True)

    def begin(self, timeout_ms: int) -> Deferred:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(max(timeout_ms, 0) / 1000, self._time_over)
        partition, appended = self._written
        partition.when_committed(appended.last_offset, self._end)
        return self._deferred

    def _end(self, error: KafkaError | None) -> None:
        self._timer.cancel()
        if error is None:
            answer = _usual(self._name, self._index, *self._written, self._correlation_id)
            self._deferred.resolve(answer)
        elif not self._deferred.done:
            outcomes: Outcomes = [(self._name, [(self._index, error)])]
            told = _encoded(self._services, self._version, self._correlation_id, outcomes)
            self._deferred.resolve(told)

    def _time_over(self) -> None:
        self._end(RequestTimedOut())


# ---------------------------------------------------------------------- appending


def _append(
    services: Services,
    name: str,
    index: int,
    records: memoryview | None,
    version: int,
    acks: int,
    transactional_id: str | None,
) -> Outcome:
    """Append to one partition; what went wrong is returned, since the others go on."""
    try:
        partition = services.partitions.get(name, index)
        if name in INTERNAL_TOPICS:
            raise InvalidTopicException(f"{name} is written by the broker alone")
        if records is None:
            raise InvalidRecord("there is no batch")
        header, made_anew = validate_produced(
            records,
            0,
            len(records),
            api_version=version,
            rules=partition.rules,
            now_ms=services.clock.now_ms(),
        )
        if header.attributes & TRANSACTIONAL:
            check_batch(services, transactional_id, (name, index), header, version)
        if services.refusals and header.producer_id >= 0:
            services.refusals.check(partition, header, services.clock.monotonic())
        batch = records if made_anew is None else made_anew
        return partition, partition.append(batch, header, acks=acks)
    except KafkaError as error:
        services.refusals.note(name, index, records, error, services.clock.monotonic())
        return _count_refused(services, name, records, error)
    except ProtocolError as error:
        return _count_refused(services, name, records, InvalidRecord(str(error)))
    except Exception as error:  # noqa: BLE001  (the root of one append)
        _log.error("the append to %s-%d failed", name, index, exc_info=error)
        return _count_refused(services, name, records, UnknownServerError())


def _count_refused(
    services: Services, name: str, records: memoryview | None, error: KafkaError
) -> KafkaError:
    traffic = services.partitions.traffic.maybe_of(name)
    traffic.failed_produces += 1
    traffic.bytes_rejected += 0 if records is None else len(records)
    services.requests.failed("Produce", error)
    return error


def _produce_many(
    services: Services,
    version: int,
    correlation_id: int,
    transactional_id: str | None,
    acks: int,
    timeout_ms: int,
    topics: Topics,
    refused: frozenset[str] = frozenset(),
) -> Answer:
    """`refused` are the topics that the client may not write to."""
    if acks not in _ACKS:
        refusal: Outcome = InvalidRequiredAcks(f"acks={acks}; it must be 0, 1 or -1")
        outcomes = [(name, [(index, refusal) for index, _ in parts]) for name, parts in topics]
        return _answer(services, version, correlation_id, acks, timeout_ms, outcomes)
    writing = _Writing(services, version, acks, transactional_id, topics, refused)
    if writing.go_on():
        return _answer(services, version, correlation_id, acks, timeout_ms, writing.outcomes)
    return writing.later(
        lambda: _answer(services, version, correlation_id, acks, timeout_ms, writing.outcomes)
    )


class _Writing:
    """Appends the batches of a request, and lets others have their turn if that takes long.

    A batch may have to be unfolded, and a request may have thousands of them.
    """

    def __init__(
        self,
        services: Services,
        version: int,
        acks: int,
        transactional_id: str | None,
        topics: Topics,
        refused: frozenset[str],
    ) -> None:
        self.outcomes: Outcomes = [(name, []) for name, _ in topics]
        """Of what is written so far."""
        self._services = services
        self._version = version
        self._acks = acks
        self._transactional_id = transactional_id
        self._refused = refused
        self._left = [
            (name, index, records, done)
            for (name, parts), (_, done) in zip(topics, self.outcomes, strict=True)
            for index, records in parts
        ]
        self._left.reverse()

    def go_on(self) -> bool:
        """Append for some milliseconds; whether all is done."""
        now = self._services.clock.monotonic
        until = now() + _TURN_S
        while self._left:
            name, index, records, done = self._left.pop()
            outcome: Outcome
            if name in self._refused:
                outcome = TopicAuthorizationFailed()
            else:
                outcome = _append(
                    self._services,
                    name,
                    index,
                    records,
                    self._version,
                    self._acks,
                    self._transactional_id,
                )
            done.append((index, outcome))
            if now() > until:
                break
        return not self._left

    def later(self, answer: Callable[[], Answer]) -> Deferred:
        """Append the rest in the next turns of the loop, then answer; the connection serves nothing else meanwhile."""
        # The frame is the network's.
        self._left = [
            (name, index, None if records is None else memoryview(bytearray(records)), done)
            for name, index, records, done in self._left
        ]
        deferred = Deferred()
        loop = asyncio.get_running_loop()

        def step() -> None:
            try:
                if not self.go_on():
                    loop.call_soon(step)
                    return
                ready = answer()
            except Exception as error:  # noqa: BLE001  (the root of the request: the connection is closed)
                deferred.resolve(error)
                return
            if isinstance(ready, Deferred):
                ready.then(deferred.resolve)
            else:
                assert not isinstance(ready, Awaitable)
                deferred.resolve(ready)

        loop.call_soon(step)
        return deferred


Outcomes = list[tuple[str, list[tuple[int, Outcome]]]]


def _waiting_for(
    partition: Partition, appended: Appended, acks: int
) -> "asyncio.Future[None] | None":
    """What an answer has to wait for."""
    if acks == 1:
        return partition.flushed(appended.last_offset)
    return partition.committed(appended.last_offset)


# ---------------------------------------------------------------------- answering


def _answer(
    services: Services,
    version: int,
    correlation_id: int,
    acks: int,
    timeout_ms: int,
    outcomes: Outcomes,
) -> Answer:
    if acks == 0:
        for name, parts in outcomes:
            for index, outcome in parts:
                if isinstance(outcome, KafkaError):
                    # There is no answer to put it into; closing is how the producer hears of it.
                    raise ProtocolError(f"acks=0, and {name}-{index} failed: {outcome}")
        return None
    waiting = [
        (future, parts, at)
        for _, parts in outcomes
        for at, (_, outcome) in enumerate(parts)
        if isinstance(outcome, tuple)
        and (future := _waiting_for(outcome[0], outcome[1], acks)) is not None
    ]
    if not waiting:
        return _encoded(services, version, correlation_id, outcomes)
    deferred = Deferred(pipelined=True)
    left = len(waiting)

    def finish() -> None:
        timer.cancel()
        deferred.resolve(_encoded(services, version, correlation_id, outcomes))

    def one_done(parts: list[tuple[int, Outcome]], at: int, future: "asyncio.Future[None]") -> None:
        nonlocal left
        left -= 1
        error = None if future.cancelled() else future.exception()
        if error is not None:
            told = error if isinstance(error, KafkaError) else UnknownServerError()
            parts[at] = (parts[at][0], told)
        if not left and not deferred.done:
            finish()

    def time_over() -> None:
        for future, parts, at in waiting:
            if not future.done():
                parts[at] = (parts[at][0], RequestTimedOut())
        deferred.resolve(_encoded(services, version, correlation_id, outcomes))

    timer = asyncio.get_running_loop().call_later(max(timeout_ms, 0) / 1000, time_over)
    for future, parts, at in waiting:
        future.add_done_callback(partial(one_done, parts, at))
    return deferred


def failed(
    services: Services, partition: Partition, correlation_id: int, error: KafkaError
) -> bytes:
    """The answer of any flexible version to a request whose only batch was not written."""
    outcomes: Outcomes = [(partition.topic, [(partition.index, error)])]
    return bytes(_encoded(services, _FIRST_FLEXIBLE, correlation_id, outcomes))


def _encoded(
    services: Services, version: int, correlation_id: int, outcomes: Outcomes
) -> bytearray:
    response = ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=name,
                partition_responses=[
                    _partition_response(services, name, index, outcome) for index, outcome in parts
                ],
            )
            for name, parts in outcomes
        ]
    )
    leaders = {
        each.current_leader.leader_id
        for topic in response.responses
        for each in topic.partition_responses
        if each.current_leader.leader_id >= 0
    }
    if leaders and version >= 10:
        response.node_endpoints = node_endpoints(services, leaders)
    return encode_response(response, version, correlation_id)


def _partition_response(
    services: Services, name: str, index: int, outcome: Outcome
) -> PartitionProduceResponse:
    if isinstance(outcome, tuple):
        partition, appended = outcome
        return PartitionProduceResponse(
            index=index,
            base_offset=appended.base_offset,
            log_append_time_ms=appended.log_append_time_ms,
            log_start_offset=partition.log_start_offset,
        )
    response = PartitionProduceResponse(
        index=index, error_code=outcome.code, base_offset=-1, error_message=outcome.message
    )
    if isinstance(outcome, RefusedRecords | RefusedTimestamps):
        response.record_errors = [
            BatchIndexAndErrorMessage(batch_index=number, batch_index_error_message=text)
            for number, text in outcome.record_errors
        ]
    leader = current_leader(services, name, index, outcome)
    if leader is not None:
        response.current_leader = LeaderIdAndEpoch(leader_id=leader[0], leader_epoch=leader[1])
    return response
