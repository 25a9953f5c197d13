"""A consumer's membership of its group in the protocol of KIP-848: the broker shares out, heartbeats do the rest.

A heartbeat tells what has changed with us, its answer what has changed for us.  The member's epoch is 0 when it joins and
is raised by the broker with each change.  An answer may hold a target: what it does not name is given up first, in
the reader's own thread, then what is new is taken, and the next heartbeat says so, which is what other members wait for.
Heartbeats go on while the reader is waited for.  A member that is fenced has lost its partitions and joins again.

The broker matches a pattern that is a plain text; compiled ones, and those with a deny-list, are matched here.
Absent: racks.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from typing import cast
from uuid import UUID, uuid4

from tidelog.client.assignment import Assignment
from tidelog.client.cluster import GROUP, Cluster, note_coordinator_error
from tidelog.client.membership import Membership
from tidelog.client.metrics import ConsumerMetrics
from tidelog.client.settings import ConsumerSettings
from tidelog.client.subscription import Wish, topics_of
from tidelog.errors import (
    FencedMemberEpoch,
    KafkaError,
    UnknownMemberId,
    UnreleasedInstanceId,
    UnsupportedVersion,
)
from tidelog.names import TopicPartition
from tidelog.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

_log = logging.getLogger(__name__)

JOINING, LEAVING, LEAVING_FOR_A_WHILE = 0, -1, -2
"""Epochs that say what a member is about to do; a static one leaves for a while."""

_FIRST_WITH_PATTERNS = 1

Target = dict[UUID, list[int]]


class ConsumerMembership(Membership):
    """A member whose group is shared out by the broker."""

    def __init__(
        self,
        cluster: Cluster,
        settings: ConsumerSettings,
        assignment: Assignment,
        metrics: ConsumerMetrics,
        *,
        revoking: Callable[[Collection[TopicPartition]], Awaitable[None]],
    ) -> None:
        super().__init__(cluster, settings, assignment, metrics, revoking=revoking)
        self.member_id = str(uuid4())
        self._epoch = JOINING
        self._introduced = False
        """Whether the broker may know us: it may have, without our having heard so."""
        self._beat_every_s = 1.0
        self._beat_now = asyncio.Event()
        # What the broker knows of us; None if it must be told anew.
        self._told_wish: tuple[frozenset[str], str | None] | None = None
        self._told_owned: frozenset[TopicPartition] | None = None
        self._had_pattern = False
        # The names that a pattern matched when last looked, which pattern, and until when that is good.
        self._matched: tuple[Wish, frozenset[str], float] | None = None
        # What it wants of us.
        self._target: Target | None = None
        self._ids: dict[str, UUID] = {}
        self._reconciling: asyncio.Task[None] | None = None

    def _wish_changed(self) -> None:
        self._beat_now.set()

    async def close(self) -> None:
        await self._cancel(self._task, self._reconciling)
        if self._introduced:
            await self._leave("the consumer is closed")
        self._introduced = False

    async def abandon(self) -> None:
        await self._cancel(self._task, self._reconciling)
        if self._introduced:
            await self._leave_in_a_hurry()

    # Heartbeats.

    async def _take_part(self) -> None:
        if self._reader_is_gone():
            await self._sleep_outside()
            await self._rejoin()
        self._beat_now.clear()
        await self._beat()

    async def _rest(self) -> None:
        """Wait for the next heartbeat's time, or for something that cannot wait for it."""
        try:
            async with asyncio.timeout(self._beat_every_s):
                await self._beat_now.wait()
        except TimeoutError:
            pass

    async def _recover(self, error: KafkaError) -> bool:
        note_coordinator_error(self._cluster, self._group, error.code)
        self._told_wish = self._told_owned = None  # who knows what it has heard
        if isinstance(error, FencedMemberEpoch | UnknownMemberId):
            _log.info("group %s: %s; joining again", self._group, error)
            await self._rejoin()
            return True
        return error.retriable

    async def _rejoin(self) -> None:
        """We are in the group no more: our partitions are lost, and we begin anew."""
        if self._reconciling is not None:
            await asyncio.gather(self._reconciling, return_exceptions=True)
        self._target = None
        await self._lose()
        self._epoch = JOINING
        self._told_wish = self._told_owned = None

    async def _beat(self) -> None:
        wish = await self._wanted()
        if self._epoch == JOINING and not wish[0] and wish[1] is None:
            return  # the pattern matches no topic yet
        owned = self._owned
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self.member_id,
            member_epoch=self._epoch,
            instance_id=self.instance_id,
        )
        if wish != self._told_wish:
            request.subscribed_topic_names = sorted(wish[0])
            request.subscribed_topic_regex = wish[1] or ("" if self._had_pattern else None)
            self._had_pattern = wish[1] is not None
            request.rebalance_timeout_ms = self._settings.max_poll_interval_ms
            request.server_assignor = self._settings.group_remote_assignor or None
        if self._epoch == JOINING:
            request.topic_partitions = []
        elif owned != self._told_owned:
            request.topic_partitions = self._by_id(owned)
        self._introduced = True
        answer = await self._ask(request)
        self._metrics.heartbeat.record(1)
        if answer.error_code == UnreleasedInstanceId.code:
            raise UnreleasedInstanceId(
                f"group.instance.id={self.instance_id!r} of group {self._group!r} is in use: by another consumer, or by "
                "one that has died and is kept until its session is over"
            )
        self._check(answer.error_code, answer.error_message)
        self._told_wish, self._told_owned = wish, owned
        self._heard(answer)

    async def _ask(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        try:
            answer = await self._cluster.ask_coordinator(self._group, request)
        except UnsupportedVersion:
            answer = ConsumerGroupHeartbeatResponse(error_code=UnsupportedVersion.code)
        heard = cast(ConsumerGroupHeartbeatResponse, answer)
        # Kafka 3 knows the request, and refuses it unless told otherwise.
        if heard.error_code == UnsupportedVersion.code:
            raise UnsupportedVersion(
                "the broker does not offer group.protocol=consumer; use classic"
            )
        return heard

    def _heard(self, answer: ConsumerGroupHeartbeatResponse) -> None:
        if answer.member_id:
            self.member_id = answer.member_id
        self._epoch = self.generation = answer.member_epoch
        self._beat_every_s = answer.heartbeat_interval_ms / 1000
        if self._owned:
            self._note_metadata()
        if answer.assignment is not None:
            self._target = {
                each.topic_id: list(each.partitions) for each in answer.assignment.topic_partitions
            }
            if self._reconciling is None or self._reconciling.done():
                self._reconciling = asyncio.ensure_future(self._reconcile())
                self._reconciling.add_done_callback(_tell)

    async def _wanted(self) -> tuple[frozenset[str], str | None]:
        """Names, and the pattern if the broker matches it."""
        plain = self.wish.plain_pattern
        if plain is not None:
            node = await self._cluster.coordinator(self._group)
            connection = await self._cluster.connection(node, GROUP)
            if connection.version_of(ConsumerGroupHeartbeatRequest) >= _FIRST_WITH_PATTERNS:
                return frozenset(), plain
        wish, now = self.wish, self._loop.time()
        if self._matched is None or self._matched[0] is not wish or self._matched[2] <= now:
            names = frozenset(await topics_of(wish, self._cluster))
            self._matched = (wish, names, now + self._settings.metadata_max_age_ms / 1000)
        return self._matched[1], None

    async def _leave(self, reason: str) -> None:
        epoch = LEAVING if self.instance_id is None else LEAVING_FOR_A_WHILE
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self.member_id,
            instance_id=self.instance_id,
            member_epoch=epoch,
        )
        try:
            await self._cluster.ask_coordinator(self._group, request, timeout_s=5)
        except KafkaError as error:
            _log.debug("leaving group %s (%s): %s", self._group, reason, error)

    # What the broker wants of us.

    async def _reconcile(self) -> None:
        """Give up what the target does not name, take what it does, and have it told; until there is no newer one."""
        pauses = iter(self._cluster.pauses())
        while (target := self._target) is not None:
            self._target = None
            began_at = self._metrics.clock()
            try:
                share, complete = await self._named(target)
            except KafkaError as error:
                _log.debug("the topics of group %s: %s", self._group, error)
                share, complete = self._owned, False
            gone = self._owned - share
            if gone:
                await self._give_up(gone, self._owned - gone)
            if share != self._owned:
                await self._take(share)
            self._metrics.rebalance_latency.record((self._metrics.clock() - began_at) * 1000)
            # Also when nothing has changed: the broker waits to hear it.
            self._told_owned = None
            self._beat_now.set()
            if not complete and self._target is None:
                await asyncio.sleep(next(pauses))
                self._target = self._target or target

    async def _named(self, target: Target) -> tuple[frozenset[TopicPartition], bool]:
        """The target by names, and whether all of them are known."""
        names = {info.id: name for name, info in self._cluster.topics.items()}
        if not target.keys() <= names.keys():
            answer = await self._cluster.refresh(None)
            names = {each.topic_id: each.name or "" for each in answer.topics}
        self._ids |= {names[each]: each for each in target if each in names}
        share = frozenset(
            TopicPartition(names[topic_id], index)
            for topic_id, indexes in target.items()
            if topic_id in names
            for index in indexes
        )
        return share, target.keys() <= names.keys()

    def _by_id(self, partitions: Collection[TopicPartition]) -> list[TopicPartitions]:
        topics: dict[str, TopicPartitions] = {}
        for name, index in sorted(partitions):
            entry = topics.setdefault(name, TopicPartitions(topic_id=self._ids[name]))
            entry.partitions.append(index)
        return list(topics.values())


def _tell(task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("taking over partitions failed in a way that was not expected", exc_info=error)
