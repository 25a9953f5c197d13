"""What a partition has around it: who watches it, and what it needs of its broker."""

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Protocol

from tidelog.dataclass import dataclass
from tidelog.errors import KafkaError
from tidelog.storage.log import Log

if TYPE_CHECKING:
    from tidelog.cluster.partition import Partition
    from tidelog.cluster.replica import Followers


class Watcher(Protocol):
    """Wants to hear when more of a partition can be read."""

    def advanced(self, partition: "Partition", grown_bytes: int) -> None:
        """The high watermark or the last stable offset has moved."""
        ...

    def failed(self, partition: "Partition", error: KafkaError) -> None:
        """The partition is gone, or is led by someone else now."""
        ...

    def settled(self, partition: "Partition") -> None:
        """For followers: more is committed, or the ISR has changed; there is nothing more to read."""
        ...


@dataclass(slots=True, kw_only=True)
class Surroundings:
    """What a partition with other replicas needs of its broker."""

    broker_id: int
    now_ms: Callable[[], int]
    """Time that only grows."""
    max_lag_ms: Callable[[], int]
    """How long a replica may lag before it is not in sync (replica.lag.time.max.ms)."""
    eligible: Callable[[int, int], bool]
    """Whether this incarnation (id, epoch) of a broker may be in an ISR; epoch -1 is any."""
    propose: "Callable[[Partition], None]"
    """The partition has a proposal for the controller."""
    truncated: Callable[[Log, int], None]
    """The log was cut back to an offset."""
    heard_ms: Mapping[int, int] = field(default_factory=dict)
    """By broker when it last fetched anything here."""
    silent_ms: Callable[[], int] = lambda: -(1 << 63)
    """Who has not fetched since then cannot reach this broker."""
    isr_changed: "Callable[[Partition, tuple[int, ...], tuple[int, ...]], None]" = lambda *_: None
    """The controller has settled the in-sync replicas of a partition that is led here: they were these, and are those."""

    def to_leave(self, followers: "Followers", log: Log) -> list[int]:
        """Members of the ISR that lag, or else that cannot reach this broker."""
        least = log.config.min_insync_replicas
        lagging = followers.lagging(log.log_end_offset, self.now_ms())
        return lagging or followers.silent(self.heard_ms, self.silent_ms(), least)
