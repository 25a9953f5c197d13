"""A consumer's membership of its group (classic protocol): join, share out, heartbeat, again when the group changes.

    join    tell the coordinator what is wanted; it answers when all members have
    sync    the leader hands in who gets what, everybody hears its share
    stable  heartbeats, until one is told that the group rebalances

Partitions are taken away in the reader's own thread, when it comes for more messages: then everything that it was
given is done with, can be committed, and the user's callback is called.  Eager members give up all before they
join; with only cooperative assignors a member keeps what it has and gives up what was taken from it after the sync,
then joins again so that others can have it (KIP-429).

Absent: the protocol of KIP-848.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from typing import cast

from tidelog.client.assignment import Assignment, Call
from tidelog.client.assignors import ASSIGNORS
from tidelog.client.cluster import Cluster, note_group_error
from tidelog.client.group_protocol import (
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from tidelog.client.settings import ConsumerSettings
from tidelog.client.subscription import Wish, topics_of
from tidelog.errors import (
    FencedInstanceId,
    IllegalGeneration,
    KafkaError,
    MemberIdRequired,
    RebalanceInProgress,
    TidelogError,
    UnknownMemberId,
    error_of,
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

Listener = Callable[[Collection[TopicPartition]], None]


class Membership:
    """One member; lives on one loop from the first subscription to the end of the consumer."""

    def __init__(
        self,
        cluster: Cluster,
        settings: ConsumerSettings,
        assignment: Assignment,
        *,
        revoking: Callable[[Collection[TopicPartition]], Awaitable[None]],
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._assignment = assignment
        self._revoking = revoking
        """What the consumer itself does before partitions go: commit them, if it does so by itself."""
        self._loop = asyncio.get_running_loop()
        self._cooperative = set(settings.partition_assignment_strategy) == {"cooperative-sticky"}
        self.wish = Wish()
        self.on_revoked: Listener | None = None
        self.on_assigned: Listener | None = None
        self.on_lost: Listener | None = None
        self.last_poll = self._loop.time()
        # Who we are to the coordinator; the generation is -1 while we are in no group.
        self.member_id = ""
        self.generation = _NO_GENERATION
        self._owned: frozenset[TopicPartition] = frozenset()
        self._joined_with: frozenset[str] = frozenset()
        self._sizes: dict[str, int] = {}
        self._rejoin = asyncio.Event()
        self._polled = asyncio.Event()
        self._outside = False
        self._task: asyncio.Task[None] | None = None
        self._heart: asyncio.Task[None] | None = None

    @property
    def instance_id(self) -> str | None:
        return self._settings.group_instance_id or None

    def subscribe(self, wish: Wish) -> None:
        """Want this from now on."""
        self.wish = wish
        self.last_poll = self._loop.time()
        self._rejoin.set()
        if self._task is None:
            self._task = asyncio.ensure_future(self._run())

    def polled(self) -> None:
        """The reader is alive; from any thread."""
        self.last_poll = self._loop.time()
        if self._outside:
            self._outside = False
            self._loop.call_soon_threadsafe(self._polled.set)

    async def close(self) -> None:
        """Leave; a static member stays, so that it can come back without a rebalance."""
        for task in (self._task, self._heart):
            if task is not None:
                task.cancel()
        await asyncio.gather(
            *(task for task in (self._task, self._heart) if task is not None),
            return_exceptions=True,
        )
        if self.member_id and self.instance_id is None:
            await self._leave("the consumer is closed")

    async def _run(self) -> None:
        pauses = iter(self._cluster.pauses())
        while True:
            try:
                await self._rebalance()
                pauses = iter(self._cluster.pauses())
                await self._stable()
            except KafkaError as error:
                if not await self._recover(error):
                    self._assignment.fail(error)
                    return
                await asyncio.sleep(next(pauses))
            except Exception as error:  # noqa: BLE001 - the task's root
                _log.exception("the group membership failed in a way that was not expected")
                self._assignment.fail(TidelogError(f"the group membership failed: {error!r}"))
                return

    async def _recover(self, error: KafkaError) -> bool:
        """Set the state right after a failure; False if there is nothing to be done."""
        note_group_error(self._cluster, self._settings.group_id, error.code)
        if isinstance(error, UnknownMemberId | IllegalGeneration):
            await self._lose(forget_member=isinstance(error, UnknownMemberId))
            return True
        return error.retriable or isinstance(error, RebalanceInProgress)

    # Join and sync.

    async def _rebalance(self) -> None:
        """Take part in rebalances until there is nothing more to give up."""
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

    async def _accept(self, share: frozenset[TopicPartition]) -> bool:
        """Make the share ours; True if we gave something up, and others wait for it."""
        gone = self._owned - share
        if gone:
            await self._give_up(gone, self._owned - gone)
        added = share - self._owned
        self._owned = share
        await self._cluster.refresh({tp.topic for tp in share} or self.wish.names)
        self._assignment.replace(share)
        if self.on_assigned is not None:
            await self._in_reader(self.on_assigned, added)
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
                group_id=self._settings.group_id,
                session_timeout_ms=self._settings.session_timeout_ms,
                rebalance_timeout_ms=self._settings.max_poll_interval_ms,
                member_id=self.member_id,
                group_instance_id=self.instance_id,
                protocol_type=_PROTOCOL_TYPE,
                protocols=protocols,
            )
            answer = cast(
                JoinGroupResponse,
                await self._cluster.ask_coordinator(
                    self._settings.group_id, request, timeout_s=wait_s
                ),
            )
            if answer.error_code == MemberIdRequired.code:
                self.member_id = answer.member_id
                continue
            self._check(answer.error_code)
            self.member_id, self.generation = answer.member_id, answer.generation_id
            return answer

    async def _sync(self, joined: JoinGroupResponse) -> frozenset[TopicPartition]:
        shares: list[SyncGroupRequestAssignment] = []
        if joined.leader == joined.member_id and not joined.skip_assignment:
            shares = await self._share_out(joined)
        request = SyncGroupRequest(
            group_id=self._settings.group_id,
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
            await self._cluster.ask_coordinator(self._settings.group_id, request, timeout_s=wait_s),
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
        self._sizes = self._sizes_now(topics)
        shares = ASSIGNORS[joined.protocol_name or "range"](members, self._sizes)
        return [
            SyncGroupRequestAssignment(member_id=member, assignment=encode_assignment(share))
            for member, share in shares.items()
        ]

    # While nothing happens.

    async def _stable(self) -> None:
        """Wait until there must be another rebalance; look now and then whether the topics have changed."""
        while not self._rejoin.is_set():
            try:
                async with asyncio.timeout(self._settings.metadata_max_age_ms / 1000):
                    await self._rejoin.wait()
            except TimeoutError:
                await self._look_for_changes()
        if self._heart is not None and self._heart.done() and not self._heart.cancelled():
            error = self._heart.exception()
            if isinstance(error, KafkaError) and not isinstance(error, RebalanceInProgress):
                raise error

    async def _look_for_changes(self) -> None:
        known = set(self._sizes)
        wanted = set(await topics_of(self.wish, self._cluster))
        if self.wish.pattern is None:
            await self._cluster.refresh(wanted)
        led_and_changed = bool(self._sizes) and self._sizes_now(known | wanted) != self._sizes
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
            task.exception()  # `_stable` raises it
            self._rejoin.set()

    async def _beat(self) -> None:
        """Say that we are alive until we are told to join again, or are thrown out."""
        request = HeartbeatRequest(
            group_id=self._settings.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        while True:
            await asyncio.sleep(self._settings.heartbeat_interval_ms / 1000)
            idle_s = self._loop.time() - self.last_poll
            if idle_s > self._settings.max_poll_interval_ms / 1000:
                await self._sleep_outside()
                return
            try:
                answer = cast(
                    HeartbeatResponse,
                    await self._cluster.ask_coordinator(self._settings.group_id, request),
                )
                self._check(answer.error_code)
            except RebalanceInProgress:
                if not self._rejoin.is_set():
                    self._rejoin.set()
            except KafkaError as error:
                note_group_error(self._cluster, self._settings.group_id, error.code)
                if not error.retriable:
                    raise

    async def _sleep_outside(self) -> None:
        """The reader has not come back for too long: leave the group until it does."""
        limit = self._settings.max_poll_interval_ms
        _log.warning(
            "nobody asked for messages for max.poll.interval.ms=%s; leaving group %s",
            limit,
            self._settings.group_id,
        )
        await self._leave("the reader did not come back in time")
        self._polled.clear()
        self._outside = True
        await self._polled.wait()
        raise UnknownMemberId("left the group because nobody asked for messages")

    async def _leave(self, reason: str) -> None:
        member = MemberIdentity(
            member_id=self.member_id, group_instance_id=self.instance_id, reason=reason
        )
        request = LeaveGroupRequest(
            group_id=self._settings.group_id, member_id=self.member_id, members=[member]
        )
        try:
            await self._cluster.ask_coordinator(self._settings.group_id, request, timeout_s=5)
        except KafkaError as error:
            _log.debug("leaving group %s: %s", self._settings.group_id, error)

    # Taking partitions away, in the reader's thread.

    async def _give_up(
        self, gone: frozenset[TopicPartition], left: frozenset[TopicPartition]
    ) -> None:
        if gone:
            # From the moment that the reader is back, it gets nothing more of them: all it had is settled.
            await self._in_reader(lambda gone: self._assignment.pause(gone, True), gone)
            await self._revoking(gone)
            if self.on_revoked is not None:
                await self._in_reader(self.on_revoked, gone)
        self._owned = left
        self._assignment.replace(left)

    async def _lose(self, *, forget_member: bool) -> None:
        """The coordinator has given our partitions to others already."""
        self._stop_heart()
        lost, self._owned = self._owned, frozenset()
        self.generation = _NO_GENERATION
        if forget_member:
            self.member_id = ""
        self._assignment.replace(frozenset())
        listener = self.on_lost or self.on_revoked
        if lost and listener is not None:
            await self._in_reader(listener, lost)

    async def _in_reader(self, listener: Listener, partitions: Collection[TopicPartition]) -> None:
        """Call the listener when the reader comes for more messages."""
        future: asyncio.Future[None] = self._loop.create_future()

        def settle() -> None:
            if not future.done():
                future.set_result(None)

        def done() -> None:
            self._loop.call_soon_threadsafe(settle)

        self._assignment.ask_reader(Call(lambda: listener(sorted(partitions)), done))
        await future

    def _check(self, code: int) -> None:
        if code == FencedInstanceId.code:
            raise FencedInstanceId(
                f"another consumer has taken over group.instance.id={self.instance_id!r} of group "
                f"{self._settings.group_id!r}"
            )
        if code:
            raise error_of(code, f"group {self._settings.group_id!r}: {error_of(code).text}")
