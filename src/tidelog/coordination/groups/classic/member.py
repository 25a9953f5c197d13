"""A member of a classic group."""

from dataclasses import field

from tidelog.coordination.runtime import Reply
from tidelog.dataclass import dataclass

Protocols = tuple[tuple[str, bytes], ...]
"""Names of the assignment protocols that a member knows, best first, each with the member's metadata for it."""


@dataclass(slots=True)
class Member:
    """What a member said of itself, what it was assigned, and which of its requests wait."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    is_new: bool = False
    """Has not been told of any generation yet."""
    is_loaded: bool = False
    """Known from the log alone: it has not joined since the shard was loaded."""
    awaiting_join: Reply | None = field(default=None, compare=False)
    awaiting_sync: Reply | None = field(default=None, compare=False)

    @property
    def is_waiting(self) -> bool:
        """A waiting request is a sign of life."""
        return self.awaiting_join is not None or self.awaiting_sync is not None

    def metadata(self, protocol: str | None) -> bytes:
        """The member's metadata for a protocol; empty if it does not know the protocol."""
        return next((data for name, data in self.protocols if name == protocol), b"")

    def vote(self, candidates: frozenset[str]) -> str:
        """The first of its protocols that is a candidate."""
        return next(name for name, _ in self.protocols if name in candidates)
