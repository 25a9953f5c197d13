"""Fetch (1): read batches, waiting until there are enough of them.

Versions: 5 tells the log start; 7 has sessions (KIP-227); 9 checks leader epochs (KIP-320); 11 knows racks; 12 is flexible;
13 names topics by id (KIP-516); 15 moves the follower's id; 16 tells of new leaders (KIP-951).

While a fetch waits, its connection serves nothing else, as in Kafka; clients know, and coordinate over another
connection.  Records are sent from their files.  The reading itself is in `fetch_reading.py`, that of followers in
`replica_reading.py`.  Absent: zstd is refused below 10 by the topic's compression.type alone.
"""

from tidelog.broker.context import Services
from tidelog.broker.dispatch import handles_frame
from tidelog.broker.fetch_answer import Result, lay_out
from tidelog.broker.fetch_reading import Reading
from tidelog.broker.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, Session
from tidelog.broker.permissions import CLUSTER_ACTION, by_item
from tidelog.broker.replica_reading import ReplicaReading
from tidelog.broker.replica_sessions import ReplicaSession
from tidelog.errors import KafkaError, TopicAuthorizationFailed
from tidelog.kernel import decode_fetch
from tidelog.kernel.requests import FetchTopics, ForgottenTopics
from tidelog.network.answer import Answer, Piece
from tidelog.network.peer import Peer
from tidelog.protocol.codec import decode
from tidelog.protocol.messages.fetch import FetchRequest
from tidelog.security.acls import CLUSTER

_FIRST_FAST = 12
_BY_ID = 13


@handles_frame(FetchRequest, "4-17", allow=by_item)
def fetch(
    services: Services, peer: Peer, frame: memoryview, version: int, correlation_id: int, pos: int
) -> Answer:
    if version >= _FIRST_FAST:
        decoded = decode_fetch(frame, pos, version, FetchRequest.most)
    else:
        decoded = _decode_old(frame, pos, version)
    replica_id, replica_epoch, max_wait_ms, min_bytes, max_bytes, isolation = decoded[:6]
    session_id, session_epoch, topics, forgotten, rack, _ = decoded[6:]
    guarded = not services.authorizer.is_open
    if guarded and replica_id >= 0 and not services.authorizer.may(peer, CLUSTER_ACTION, CLUSTER):
        return _refused(version, correlation_id, topics)
    sessions = services.fetch_sessions
    by_id = version >= _BY_ID
    session: Session | None
    ends = session_epoch == FINAL_EPOCH
    is_known = replica_id >= 0 and _is_known(services, replica_id, replica_epoch)
    if ends or session_epoch == INITIAL_EPOCH:
        session_id, wanted, session = sessions.begin(
            session_id,
            by_id,
            topics,
            ends=ends,
            kind=ReplicaSession if replica_id >= 0 else None,
            always=is_known,
        )
        incremental = False
    else:
        try:
            session = sessions.resume(session_id, session_epoch, by_id, topics, forgotten)
        except KafkaError as error:
            return lay_out(version, correlation_id, error.code, 0, [], [])
        wanted = session.to_look_at()
        incremental = True
        if not session.wanted:
            sessions.end(session)
            session_id, session = 0, None
    max_bytes = min(max_bytes, services.settings.broker.fetch_max_bytes)
    kind = Reading if replica_id < 0 else ReplicaReading
    reading = kind(
        services, version, correlation_id, isolation, max_bytes, wanted, session, incremental
    )
    reading.session_id = session_id
    reading.peer = peer
    reading.rack = rack
    if isinstance(reading, ReplicaReading):
        reading.follower = replica_id, replica_epoch
        peer.is_broker = peer.is_broker or is_known
        services.requests.fetch_follower.count += 1
    elif services.meter is not None and (account := services.meter.fetch_account(peer)):
        reading.limit(account)
    if guarded and replica_id < 0:
        reading.hide()
    reading.read()
    if reading.bytes >= min_bytes or reading.failed or max_wait_ms <= 0 or not (wanted or session):
        return reading.answer()
    return reading.wait(min_bytes, max_wait_ms)


def _is_known(services: Services, replica_id: int, replica_epoch: int) -> bool:
    """Whether the cluster has such a broker: anybody may say that it follows, and no quota holds for who does."""
    broker = services.image().brokers.get(replica_id)
    return broker is not None and broker.epoch == replica_epoch and replica_id != services.broker_id


def _refused(version: int, correlation_id: int, topics: FetchTopics) -> list[Piece]:
    """To who says that it is a follower, and is none: nothing is noted, and no session begun."""
    code = TopicAuthorizationFailed.code
    results = [Result(topic, each[0], code) for topic, parts in topics for each in parts]
    return lay_out(version, correlation_id, 0, 0, results, [])


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
