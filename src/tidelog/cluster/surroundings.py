"""What a partition has around it: who watches it, and what it needs of its broker."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from tidelog.dataclass import dataclass
from tidelog.errors import KafkaError
from tidelog.storage.log import Log

if TYPE_CHECKING:
    from tidelog.cluster.partition import Partition


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
    isr_changed: "Callable[[Partition, tuple[int, ...], tuple[int, ...]], None]" = lambda *_: None
    """The controller has settled the in-sync replicas of a partition that is led here: they were these, and are those."""
