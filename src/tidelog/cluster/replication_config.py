"""Settings of replication between brokers."""

from tidelog.dataclass import dataclass
from tidelog.settings import Section, at_least, between, one_of, setting

_NO_LIMIT = (1 << 63) - 1
_INT_MAX = (1 << 31) - 1

RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationConfig(Section):
    """How replicas follow their leaders, and when a leader gives one up."""

    lag_time_max_ms: int = setting(
        "replica.lag.time.max.ms",
        30_000,
        "A replica that has not caught up with the leader for so long is no longer in sync.",
        check=at_least(1),
    )
    fetchers: int = setting(
        "num.replica.fetchers",
        1,
        "Connections over which a broker fetches from each other broker.",
        check=between(1, 64),
    )
    fetch_max_bytes: int = setting(
        "replica.fetch.max.bytes",
        1024 * 1024,
        "Most bytes of one partition in one fetch of a follower; a larger batch comes alone.",
        check=between(0, _INT_MAX),
    )
    fetch_response_max_bytes: int = setting(
        "replica.fetch.response.max.bytes",
        10 * 1024 * 1024,
        "Most bytes of all partitions in one fetch of a follower.",
        check=between(0, _INT_MAX),
    )
    fetch_min_bytes: int = setting(
        "replica.fetch.min.bytes",
        1,
        "Bytes for which a follower's fetch waits at the leader.",
        check=between(0, _INT_MAX),
    )
    fetch_wait_max_ms: int = setting(
        "replica.fetch.wait.max.ms",
        500,
        "How long a follower's fetch waits for them; less than replica.lag.time.max.ms.",
        check=between(0, _INT_MAX),
    )
    fetch_backoff_ms: int = setting(
        "replica.fetch.backoff.ms",
        1_000,
        "Longest pause of a follower after errors.",
        check=at_least(0),
    )
    socket_timeout_ms: int = setting(
        "replica.socket.timeout.ms",
        30_000,
        "How long a follower waits for the leader's answer.",
        check=at_least(1),
    )
    leader_silence_max_ms: int = setting(
        "replica.leader.silence.max.ms",
        5_000,
        "A follower tells the controller of a leader that has not answered for so long; when most in-sync replicas do, one of them leads. "
        "0 for never.",
        check=at_least(0),
        dynamic=True,
    )
    selector_class: str = setting(
        "replica.selector.class",
        "",
        "With RackAwareReplicaSelector a consumer that tells its rack is sent to a replica there (KIP-392).",
        check=one_of("", RACK_AWARE_SELECTOR, "RackAwareReplicaSelector"),
    )
    leader_throttled_rate: int = setting(
        "leader.replication.throttled.rate",
        _NO_LIMIT,
        "Bytes a second that this broker sends to followers that catch up, of throttled partitions.",
        check=at_least(1),
        dynamic=True,
    )
    follower_throttled_rate: int = setting(
        "follower.replication.throttled.rate",
        _NO_LIMIT,
        "Bytes a second that this broker fetches while it catches up, of throttled partitions.",
        check=at_least(1),
        dynamic=True,
    )

    @property
    def silence_max_ms(self) -> int:
        """How long a leader, or a follower, may be silent; 0 for ever.  A fetch that waits at an idle leader is not silence."""
        return self.leader_silence_max_ms and max(
            self.leader_silence_max_ms, 2 * self.fetch_wait_max_ms
        )
