"""What both group protocols share: a member's partitions, and taking them away in the reader's own thread.

Partitions go when the reader comes for more messages: then everything that it was given is done with, can be committed,
and the user's callback is called.  `classic_membership` and `consumer_membership` decide what comes and goes.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection

from tidelog.client.assignment import Assignment, Call
from tidelog.client.cluster import Cluster
from tidelog.client.group_requests import GroupMetadata
from tidelog.client.metrics import ConsumerMetrics
from tidelog.client.settings import ConsumerSettings
from tidelog.client.subscription import Wish
from tidelog.errors import (
    FencedInstanceId,
    KafkaError,
    NetworkException,
    TidelogError,
    error_of,
)
from tidelog.names import TopicPartition

_log = logging.getLogger(__name__)

_HURRY_S = 1.0

_ABOUT = "group"
"""What may be wrong for long."""

Listener = Callable[[Collection[TopicPartition]], Awaitable[None] | None]


class Membership(ABC):
    """One member; lives on one loop from the first subscription to the end of the consumer."""

    def __init__(
        self,
        cluster: Cluster,
        settings: ConsumerSettings,
        assignment: Assignment,
        metrics: ConsumerMetrics,
        *,
        revoking: Callable[[Collection[TopicPartition]], Awaitable[None]],
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._group = settings.group_id
        self._assignment = assignment
        self._metrics = metrics
        self._revoking = revoking
        """What the consumer itself does before partitions go: commit them, if it does so by itself."""
        self._loop = asyncio.get_running_loop()
        self.wish = Wish()
        self.on_revoked: Listener | None = None
        self.on_assigned: Listener | None = None
        self.on_lost: Listener | None = None
        self.last_poll = self._loop.time()
        # Who we are to the coordinator.
        self.member_id = ""
        self.generation = -1
        """Of the group, or in the protocol of KIP-848 the member's epoch; -1 while we are in no group."""
        self.metadata = GroupMetadata(self._group)
        """Who we were when the reader got its partitions: kept when they are lost, so that what it still does is refused."""
        self._owned: frozenset[TopicPartition] = frozenset()
        self._polled = asyncio.Event()
        self._outside = False
        self._task: asyncio.Task[None] | None = None
        self._refused: type[TidelogError] | None = None

    @property
    def instance_id(self) -> str | None:
        return self._settings.group_instance_id or None

    def subscribe(self, wish: Wish) -> None:
        """Want this from now on."""
        self.wish = wish
        self.last_poll = self._loop.time()
        self._wish_changed()
        if self._task is None:
            self._task = asyncio.ensure_future(self._run())

    def polled(self) -> None:
        """The reader is alive; from any thread."""
        self.last_poll = self._loop.time()
        if self._outside:
            self._outside = False
            self._loop.call_soon_threadsafe(self._polled.set)

    @abstractmethod
    async def close(self) -> None:
        """Leave; a static member stays, so that it can come back without a rebalance."""

    @abstractmethod
    async def abandon(self) -> None:
        """Be a member no more at once; the coordinator is told, but not waited for long."""

    async def _leave_in_a_hurry(self) -> None:
        try:
            async with asyncio.timeout(_HURRY_S):
                await self._leave("the consumer is closed in a hurry")
        except TimeoutError:
            _log.warning(
                "the coordinator of group %s does not know that this member has left; it will see when its session is over",
                self._group,
            )

    async def _run(self) -> None:
        """Be a member, or try to be, until cancelled; only one who was replaced by another does not try again."""
        pauses = iter(self._cluster.pauses())
        while True:
            try:
                await self._take_part()
                pauses = iter(self._cluster.pauses())
                self._assignment.trouble_is_over(_ABOUT)
                self._refused = None
                await self._rest()
            except KafkaError as error:
                if not await self._recover(error):
                    self._tell(error)
                    if isinstance(error, FencedInstanceId):
                        return
                await asyncio.sleep(next(pauses))
            except Exception as error:  # noqa: BLE001 - the task's root
                _log.exception("the group membership failed in a way that was not expected")
                self._tell(TidelogError(f"the group membership failed: {error!r}"))
                await asyncio.sleep(next(pauses))

    def _tell(self, error: TidelogError) -> None:
        """We cannot be a member: a refusal is raised at once, and both it and silence whenever a reader has waited in vain."""
        if not isinstance(error, NetworkException) and type(error) is not self._refused:
            self._refused = type(error)
            self._assignment.fail(error)
        self._assignment.trouble(_ABOUT, error)

    @abstractmethod
    async def _take_part(self) -> None:
        """Hear from the coordinator what is ours."""

    @abstractmethod
    async def _rest(self) -> None:
        """Wait until it is time to take part again."""

    @abstractmethod
    async def _recover(self, error: KafkaError) -> bool:
        """Set the state right after a failure; False if there is nothing to be done."""

    @abstractmethod
    def _wish_changed(self) -> None: ...

    @abstractmethod
    async def _leave(self, reason: str) -> None:
        """Tell the coordinator that we go; it does not matter if that fails."""

    async def _cancel(self, *tasks: "asyncio.Task[None] | None") -> None:
        running = [task for task in tasks if task is not None]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    # A reader that does not come back.

    def _reader_is_gone(self) -> bool:
        return self._loop.time() - self.last_poll > self._settings.max_poll_interval_ms / 1000

    async def _sleep_outside(self) -> None:
        """The reader has not come back for too long: leave the group until it does."""
        limit = self._settings.max_poll_interval_ms
        _log.warning(
            "nobody asked for messages for max.poll.interval.ms=%s; leaving group %s",
            limit,
            self._group,
        )
        await self._leave("the reader did not come back in time")
        self._polled.clear()
        self._outside = True
        await self._polled.wait()

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

    async def _take(self, share: frozenset[TopicPartition]) -> None:
        """Make the share ours, of which nothing else may be left to give up."""
        added = share - self._owned
        self._owned = share
        self._note_metadata()
        self._assignment.replace(share)
        if self.on_assigned is not None:
            await self._in_reader(self.on_assigned, added)

    async def _lose(self) -> None:
        """The coordinator has given our partitions to others already."""
        lost, self._owned = self._owned, frozenset()
        self.generation = -1
        if not lost:
            return
        # Not before the reader is back: where it stands is what it will try to commit, and be refused.
        await self._in_reader(lambda _: self._assignment.replace(frozenset()), lost)
        listener = self.on_lost or self.on_revoked
        if listener is not None:
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

    def _note_metadata(self) -> None:
        self.metadata = GroupMetadata(
            self._group, self.generation, self.member_id, self.instance_id
        )

    def _check(self, code: int, message: str | None = None) -> None:
        if code == FencedInstanceId.code:
            raise FencedInstanceId(
                f"another consumer has taken over group.instance.id={self.instance_id!r} of group "
                f"{self._group!r}"
            )
        if code:
            raise error_of(code, f"group {self._group!r}: {message or error_of(code).text}")
