"""What a broker remembers of a reader's fetches (KIP-227), so that a request names only what has changed.

A session begins with a request that names everything, if the broker gives it a number.  Whatever goes wrong, the next request
names everything again, and so begins anew.
"""

from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from tidelog.client.settings import ConsumerSettings
from tidelog.errors import FetchSessionIdNotFound
from tidelog.names import TopicPartition
from tidelog.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)
from tidelog.protocol.schema import ZERO_UUID

LAST_BY_NAME = 12
NEWEST = 32767

_NONE, _FIRST = 0, 1
_INITIAL_EPOCH = 0
_LAST_EPOCH = 0x7FFF_FFFF


class Wanted(NamedTuple):
    """What is fetched of one partition."""

    topic_id: UUID
    offset: int
    leader_epoch: int = -1
    """As far as we know; a broker that knows better says so."""


class FetchSession:
    """The session with one broker; one request at a time."""

    def __init__(self) -> None:
        self._id = _NONE
        self._epoch = _INITIAL_EPOCH
        self._by_id = True
        self._known: dict[TopicPartition, Wanted] = {}
        """What the broker remembers; nothing while the epoch is the initial one."""
        self._asked: dict[TopicPartition, Wanted] = {}

    def request(
        self,
        settings: ConsumerSettings,
        wanted: Mapping[TopicPartition, Wanted],
        max_bytes: int,
    ) -> tuple[FetchRequest, int]:
        """A request for these, and the newest version in which it can be sent."""
        by_id = all(each.topic_id != ZERO_UUID for each in wanted.values())
        if by_id != self._by_id:
            self.failed()
            self._by_id = by_id
        known = self._known
        self._asked = dict(wanted)
        request = FetchRequest(
            max_wait_ms=settings.fetch_max_wait_ms,
            min_bytes=settings.fetch_min_bytes,
            max_bytes=max_bytes,
            isolation_level=int(settings.isolation_level == "read_committed"),
            session_id=self._id,
            session_epoch=self._epoch,
            rack_id=settings.client_rack,
        )
        topics: dict[str, FetchTopic] = {}
        for tp, each in wanted.items():
            if known.get(tp) == each:
                continue
            entry = topics.get(tp.topic)
            if entry is None:
                entry = topics[tp.topic] = FetchTopic(topic=tp.topic, topic_id=each.topic_id)
            entry.partitions.append(
                FetchPartition(
                    partition=tp.partition,
                    current_leader_epoch=each.leader_epoch,
                    fetch_offset=each.offset,
                    partition_max_bytes=settings.max_partition_fetch_bytes,
                )
            )
        request.topics = list(topics.values())
        gone: dict[tuple[str, UUID], ForgottenTopic] = {}
        for tp, each in known.items():
            if tp in wanted and wanted[tp].topic_id == each.topic_id:
                continue
            place = tp.topic, each.topic_id
            forgotten = gone.setdefault(place, ForgottenTopic(topic=place[0], topic_id=place[1]))
            forgotten.partitions.append(tp.partition)
        request.forgotten_topics_data = list(gone.values())
        return request, NEWEST if by_id else LAST_BY_NAME

    def names(self) -> dict[UUID, str]:
        """Which topic an answer means by an id."""
        return {each.topic_id: tp.topic for tp, each in self._asked.items()}

    def answered(self, session_id: int) -> None:
        """The broker has answered; 0 says that it remembers nothing."""
        if session_id == _NONE:
            self._id = _NONE
            self.failed()
            return
        self._id = session_id
        self._epoch = _FIRST if self._epoch >= _LAST_EPOCH else self._epoch + 1
        self._known = self._asked

    def failed(self, code: int = 0) -> None:
        """No answer, or a refusal: the next request names everything, and ends the old session if there still is one."""
        if code == FetchSessionIdNotFound.code:
            self._id = _NONE
        self._epoch = _INITIAL_EPOCH
        self._known = {}
