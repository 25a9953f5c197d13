"""The monitoring event: how many messages of a topic and a window one counter of one tier has seen so far.

An event replaces every earlier one with the same tier, counter, topic and window, so it does no harm if it comes twice.
`tidelog.audit.encoding` makes bytes of it.
"""

import json

from tidelog.dataclass import dataclass

TOPIC = "_audit"


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """So many messages were counted, since the counter began, in this window of this topic."""

    tier: str
    server: str
    counter: str
    topic: str
    window_start_ms: int
    window_ms: int
    count: int
    published_ms: int

    @property
    def key(self) -> bytes:
        """What the event replaces an earlier one by."""
        place = [self.tier, self.counter, self.topic, self.window_ms, self.window_start_ms]
        return json.dumps(place).encode()
