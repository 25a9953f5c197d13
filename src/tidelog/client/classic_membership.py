"""A consumer's membership of its group (classic protocol): join, share out, heartbeat, again when the group changes.

    join    tell the coordinator what is wanted; it answers when all members have
    sync    the leader hands in who gets what, everybody hears its share
    stable  heartbeats, until one is told that the group rebalances

Eager members give up all before they join; with only cooperative assignors a member keeps what it has and gives up what
was taken from it after the sync, then joins again so that others can have it (KIP-429).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from typing import cast

from tidelog.client.assignment import Assignment
from tidelog.client.assignors import ASSIGNORS
from tidelog.client.cluster import Cluster, note_coordinator_error
from tidelog.client.group_protocol import (
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from tidelog.client.membership import Membership
from tidelog.client.metrics import ConsumerMetrics
from tidelog.client.settings import ConsumerSettings
from tidelog.client.subscription import topics_of
from tidelog.errors import (
    IllegalGeneration,
    KafkaError,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMemberId,
)
from tidelog.names import TopicPartition
from tidelog.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from tidelog.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tidelog.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

_log = logging.getLogger(__name__)

_PROTOCOL_TYPE = "consumer"
_NO_GENERATION = -1

_GLANCE_S = 1.0
"""How often a member that rests looks at what it knows of its topics; that costs nothing."""


class ClassicMembership(Membership):
    """A member in the classic protocol."""

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
        self._cooperative = set(settings.partition_assignment_strategy) == {"cooperative-sticky"}
        self._joined_with: frozenset[str] = frozenset()
        self._sizes: dict[str, int] | None = None
        """How many partitions the topics had when we shared them out; None while another member leads the group."""
        self._led: frozenset[str] = frozenset()
        """The topics that all members together want, as we shared them out."""
        self._rejoin = asyncio.Event()
        self._heart: asyncio.Task[None] | None = None

    def _wish_changed(self) -> None:
        self._rejoin.set()

    async def close(self) -> None:
        await self._cancel(self._task, self._heart)
        if self.member_id and self.instance_id is None:
            await self._leave("the consumer is closed")
        self.member_id = ""

    async def abandon(self) -> None:
        await self._cancel(self._task, self._heart)
        if self.member_id and self.instance_id is None:
            await self._leave_in_a_hurry()

    async def _recover(self, error: KafkaError) -> bool:
        note_coordinator_error(self._cluster, self._group, error.code)
        if isinstance(error, UnknownMemberId | IllegalGeneration):
            self._stop_heart()
            if isinstance(error, UnknownMemberId):
                self.member_id = ""
            await self._lose()
            return True
        return error.retriable or isinstance(error, RebalanceInProgress)

    # Join and sync.

    async def _take_part(self) -> None:
        """Take part in rebalances until there is nothing more to give up."""
        began_at = self._metrics.clock()
        again = True
        while again:
            if not self._cooperative:
                await self._give_up(self._owned, frozenset())
            # The join says that we are alive.  What heartbeats told until now is answered by it; were it
            # remembered, this member would rejoin for nothing, and with it all others, without end.
            self._stop_heart()
            self._rejoin.clear()
            topics = await topics_of(self.wish, self._cluster)
            joined = await self._join(topics)
            try:
                share = await self._sync(joined)
            finally:
                self._start_heart()
            again = await self._accept(share)
        self._metrics.rebalance_latency.record((self._metrics.clock() - began_at) * 1000)

    async def _accept(self, share: frozenset[TopicPartition]) -> bool:
        """Make the share ours; True if we gave something up, and others wait for it."""
        gone = self._owned - share
        if gone:
            await self._give_up(gone, self._owned - gone)
        await self._cluster.refresh({tp.topic for tp in share} or self.wish.names)
        await self._take(share)
        return bool(gone)

    async def _join(self, topics: Collection[str]) -> JoinGroupResponse:
        self._joined_with = frozenset(topics)
        mine = Subscription(
            self._joined_with, self._owned, self.generation if self._owned else _NO_GENERATION
        )
        protocols = [
            JoinGroupRequestProtocol(
                name=name, metadata=encode_subscription(mine, sticky=name == "sticky")
            )
            for name in self._settings.partition_assignment_strategy
        ]
        wait_s = self._settings.max_poll_interval_ms / 1000 + 5
        while True:
            request = JoinGroupRequest(
                group_id=self._group,
                session_timeout_ms=self._settings.session_timeout_ms,
                rebalance_timeout_ms=self._settings.max_poll_interval_ms,
                member_id=self.member_id,
                group_instance_id=self.instance_id,
                protocol_type=_PROTOCOL_TYPE,
                protocols=protocols,
            )
            answer = cast(
                JoinGroupResponse,
                await self._cluster.ask_coordinator(self._group, request, timeout_s=wait_s),
            )
            if answer.error_code == MemberIdRequired.code:
                self.member_id = answer.member_id
                continue
            self._check(answer.error_code)
            self.member_id, self.generation = answer.member_id, answer.generation_id
            return answer

    async def _sync(self, joined: JoinGroupResponse) -> frozenset[TopicPartition]:
        shares: list[SyncGroupRequestAssignment] = []
        self._sizes, self._led = None, frozenset()
        if joined.leader == joined.member_id and not joined.skip_assignment:
            shares = await self._share_out(joined)
        request = SyncGroupRequest(
            group_id=self._group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=_PROTOCOL_TYPE,
            protocol_name=joined.protocol_name,
            assignments=shares,
        )
        wait_s = self._settings.max_poll_interval_ms / 1000 + 5
        answer = cast(
            SyncGroupResponse,
            await self._cluster.ask_coordinator(self._group, request, timeout_s=wait_s),
        )
        self._check(answer.error_code)
        return decode_assignment(answer.assignment)

    async def _share_out(self, joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        """The leader's work: who gets what."""
        members = {
            each.member_id: decode_subscription(each.metadata, each.group_instance_id)
            for each in joined.members
        }
        topics = {topic for each in members.values() for topic in each.topics}
        await self._cluster.refresh(topics)
        self._led = frozenset(topics)
        self._sizes = self._sizes_now(topics)
        shares = ASSIGNORS[joined.protocol_name or "range"](members, dict(self._sizes))
        return [
            SyncGroupRequestAssignment(member_id=member, assignment=encode_assignment(share))
            for member, share in shares.items()
        ]

    # While nothing happens.

    async def _rest(self) -> None:
        """Wait until there must be another rebalance; look now and then whether the topics have changed."""
        look_s = self._settings.metadata_max_age_ms / 1000
        look_at = self._loop.time() + look_s
        while not self._rejoin.is_set():
            try:
                async with asyncio.timeout(min(look_s, _GLANCE_S)):
                    await self._rejoin.wait()
            except TimeoutError:
                # A topic that is missing may be there any moment; what changed otherwise others may have noticed for us.
                if self._loop.time() >= look_at or self._is_one_missing():
                    look_at = self._loop.time() + look_s
                    await self._look_for_changes()
                elif self._sizes is not None and self._sizes_now(self._led) != self._sizes:
                    self._rejoin.set()
        if self._heart is not None and self._heart.done() and not self._heart.cancelled():
            error = self._heart.exception()
            if isinstance(error, KafkaError) and not isinstance(error, RebalanceInProgress):
                raise error

    def _is_one_missing(self) -> bool:
        return any(name not in self._cluster.topics for name in self.wish.names | self._led)

    async def _look_for_changes(self) -> None:
        try:
            wanted = set(await topics_of(self.wish, self._cluster))
            if self.wish.pattern is None:
                await self._cluster.refresh(wanted | self._led)
        except KafkaError as error:  # no reason to join again: the next look may tell more
            _log.debug("the topics of group %s: %s", self._group, error)
            return
        led_and_changed = self._sizes is not None and self._sizes_now(self._led) != self._sizes
        if led_and_changed or wanted != self._joined_with:
            self._rejoin.set()

    def _sizes_now(self, topics: Collection[str]) -> dict[str, int]:
        return {
            topic: len(self._cluster.topics[topic].partitions)
            for topic in topics
            if topic in self._cluster.topics
        }

    def _start_heart(self) -> None:
        self._stop_heart()
        self._heart = asyncio.ensure_future(self._beat())
        self._heart.add_done_callback(self._heart_stopped)

    def _stop_heart(self) -> None:
        if self._heart is not None:
            self._heart.cancel()
            self._heart = None

    def _heart_stopped(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled():
            task.exception()  # `_rest` raises it
            self._rejoin.set()

    async def _beat(self) -> None:
        """Say that we are alive until we are told to join again, or are thrown out."""
        request = HeartbeatRequest(
            group_id=self._group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        while True:
            await asyncio.sleep(self._settings.heartbeat_interval_ms / 1000)
            if self._reader_is_gone():
                await self._sleep_outside()
                raise UnknownMemberId("left the group because nobody asked for messages")
            try:
                answer = cast(
                    HeartbeatResponse,
                    await self._cluster.ask_coordinator(self._group, request),
                )
                self._metrics.heartbeat.record(1)
                self._check(answer.error_code)
            except RebalanceInProgress:
                if not self._rejoin.is_set():
                    self._rejoin.set()
            except KafkaError as error:
                note_coordinator_error(self._cluster, self._group, error.code)
                if not error.retriable:
                    raise

    async def _leave(self, reason: str) -> None:
        member = MemberIdentity(
            member_id=self.member_id, group_instance_id=self.instance_id, reason=reason
        )
        request = LeaveGroupRequest(
            group_id=self._group, member_id=self.member_id, members=[member]
        )
        try:
            await self._cluster.ask_coordinator(self._group, request, timeout_s=5)
        except KafkaError as error:
            _log.debug("leaving group %s: %s", self._group, error)
