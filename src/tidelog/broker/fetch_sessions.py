"""Incremental fetch sessions (KIP-227): the broker remembers what a consumer fetches, and answers with what changed.

A request names its session by id and epoch:

    id 0, epoch -1     no session: everything is in the request, everything is in the answer
    any,  epoch 0      begin a session (ending the one named): the answer carries its id, or 0 for "none to be had"
    id,   epoch -1     end the session; otherwise as without one
    id,   epoch n      the next request of the session: only what changed, plus what it forgets

Sessions are bounded in number, and in the partitions that they name together, because they outlive their connections; when
there are too many, the ones that were not used for longest go, if they have been silent for two minutes, else the new one is not given an id.
"""

import random
from collections.abc import Iterable

from tidelog.clock import Clock
from tidelog.errors import (
    FetchSessionIdNotFound,
    FetchSessionTopicIdError,
    InvalidFetchSessionEpoch,
)
from tidelog.kernel.requests import FetchTopics, ForgottenTopics
from tidelog.protocol.messages.fetch import FetchRequest

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
_LAST_EPOCH = (1 << 31) - 1
_MAY_BE_EVICTED_MS = 120_000
_MOST_PARTITIONS = 500_000
"""Of all sessions together, followers' aside; some 350 bytes each."""

Key = tuple[str | bytes, int]
"""Topic, by name or by the 16 bytes of its id, and partition."""


class Wanted:
    """One partition of a fetch: what is asked for, and, within a session, what was last told."""

    __slots__ = (
        "index",
        "last_fetched_epoch",
        "leader_epoch",
        "log_start",
        "max_bytes",
        "offset",
        "told_high_watermark",
        "told_log_start",
        "topic",
    )

    def __init__(self, topic: str | bytes, index: int) -> None:
        self.topic = topic
        self.index = index
        self.leader_epoch = -1
        self.offset = 0
        self.last_fetched_epoch = -1
        self.log_start = -1
        """Of a follower's own log."""
        self.max_bytes = 0
        self.told_high_watermark = -1
        self.told_log_start = -1

    def changed(self, error_code: int, high_watermark: int, log_start: int, size: int) -> bool:
        """Whether an incremental answer has to tell of this; notes what is told."""
        tell = (
            size > 0
            or error_code != 0
            or high_watermark != self.told_high_watermark
            or log_start != self.told_log_start
        )
        # After an error the recovery has to be told even if nothing else changed.
        self.told_high_watermark = -1 if error_code else high_watermark
        self.told_log_start = log_start
        return tell


class Session:
    """What one consumer fetches.  `wanted` is in the order in which partitions are served."""

    __slots__ = ("by_topic_id", "counted", "epoch", "id", "used_ms", "wanted")

    def __init__(
        self, session_id: int, by_topic_id: bool, wanted: dict[Key, Wanted], used_ms: int
    ) -> None:
        self.id = session_id
        self.by_topic_id = by_topic_id
        self.wanted = wanted
        self.epoch = 1
        """Of the next request."""
        self.used_ms = used_ms
        self.counted = 0
        """As so many partitions it is counted."""

    def update(self, topics: FetchTopics, forgotten: ForgottenTopics) -> None:
        """Take over what the request changes."""
        for topic, indexes in forgotten:
            for index in indexes:
                self.wanted.pop((topic, index), None)
        _take(self.wanted, topics)

    def to_look_at(self) -> list[Wanted]:
        """The partitions in which there may be something new."""
        return list(self.wanted.values())

    def close(self) -> None:
        """The session is over."""

    def serve_last(self, served: Iterable[Wanted]) -> None:
        """Partitions that had data come after the others next time, so that none starves."""
        for each in served:
            key = (each.topic, each.index)
            if self.wanted.pop(key, None) is not None:
                self.wanted[key] = each


class FetchSessions:
    """The sessions of this broker."""

    def __init__(self, slots: int, clock: Clock) -> None:
        self._slots = slots
        self._clock = clock
        self._sessions: dict[int, Session] = {}
        """Least recently used first."""
        self._partitions = 0
        """Invariant: the sum of what the sessions are counted as."""

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(
        self,
        session_id: int,
        by_topic_id: bool,
        topics: FetchTopics,
        *,
        ends: bool,
        kind: "type[Session] | None" = None,
        always: bool = False,
    ) -> tuple[int, list[Wanted], Session | None]:
        """A full request: the session's id, everything it asks for, and the session if there is one now.

        A follower says what `kind` it needs.  One of this cluster `always` gets it: there are few, and they fetch for ever.
        """
        self._remove(session_id)
        wanted: dict[Key, Wanted] = {}
        _take(wanted, topics)
        counts = 0 if always else len(wanted)
        if ends or not wanted or not (self._make_room(counts) or always):
            return NO_SESSION, list(wanted.values()), None
        session = (kind or Session)(self._new_id(), by_topic_id, wanted, self._now_ms())
        self._sessions[session.id] = session
        self._count(session, counts)
        return session.id, list(wanted.values()), session

    def resume(
        self,
        session_id: int,
        epoch: int,
        by_topic_id: bool,
        topics: FetchTopics,
        forgotten: ForgottenTopics,
    ) -> Session:
        """The session of an incremental request, brought up to date; raises if it is not the expected one."""
        session = self._sessions.get(session_id)
        if session is None:
            raise FetchSessionIdNotFound
        if epoch != session.epoch:
            raise InvalidFetchSessionEpoch(f"epoch {epoch} where {session.epoch} is due")
        if by_topic_id != session.by_topic_id:
            raise FetchSessionTopicIdError
        del self._sessions[session_id]
        self._sessions[session_id] = session
        session.used_ms = self._now_ms()
        session.update(topics, forgotten)
        if len(session.wanted) > FetchRequest.most:
            self._remove(session_id)
            raise FetchSessionIdNotFound(f"a session has at most {FetchRequest.most} partitions")
        if session.counted:
            self._count(session, len(session.wanted))
            if self._partitions > _MOST_PARTITIONS:
                self._remove(session_id)
                raise FetchSessionIdNotFound("the sessions name too many partitions")
        session.epoch = epoch + 1 if epoch < _LAST_EPOCH else 1
        return session

    def end(self, session: Session) -> None:
        self._remove(session.id)

    def _make_room(self, partitions: int) -> bool:
        """Whether there is room for a session of so many."""
        while (
            len(self._sessions) >= self._slots or self._partitions + partitions > _MOST_PARTITIONS
        ):
            oldest = next(iter(self._sessions.values()), None)
            if oldest is None or self._now_ms() - oldest.used_ms < _MAY_BE_EVICTED_MS:
                return False
            self._remove(oldest.id)
        return True

    def _count(self, session: Session, partitions: int) -> None:
        self._partitions += partitions - session.counted
        session.counted = partitions

    def _remove(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._count(session, 0)
            session.close()

    def _now_ms(self) -> int:
        return int(self._clock.monotonic() * 1000)

    def _new_id(self) -> int:
        while True:
            session_id = random.randrange(1, 1 << 31)
            if session_id not in self._sessions:
                return session_id


def _take(wanted: dict[Key, Wanted], topics: FetchTopics) -> None:
    for topic, partitions in topics:
        for index, leader_epoch, offset, last_epoch, log_start, max_bytes, _ in partitions:
            key = (topic, index)
            each = wanted.get(key)
            if each is None:
                each = wanted[key] = Wanted(topic, index)
            each.leader_epoch = leader_epoch
            each.offset = offset
            each.last_fetched_epoch = last_epoch
            each.log_start = log_start
            each.max_bytes = max_bytes
