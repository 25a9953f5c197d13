"""The controller as every broker sees it: itself, or another one over the wire.

What clients ask for (topics, settings, elections, reassignments) is handed on whole by `broker/forwarding.py`, so those
methods work on the active controller alone and raise `NotController` elsewhere.  What brokers need themselves works
anywhere: the controller is found, asked, and asked again when it has changed.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, TypeVar, Union
from uuid import UUID

from tidelog.cluster.controller import Controller, Decision, Standing
from tidelog.cluster.image import Image, PartitionState, Topic
from tidelog.cluster.isr import IsrChange
from tidelog.cluster.membership import Membership
from tidelog.cluster.metadata import METADATA_VERSION, BrokerRecord
from tidelog.cluster.offline import Place
from tidelog.cluster.peers import Peers
from tidelog.cluster.tail import Tail
from tidelog.cluster.topics import Created, MorePartitions, NewTopic
from tidelog.errors import (
    BrokerNotAvailable,
    KafkaError,
    LeaderNotAvailable,
    NetworkException,
    NotController,
    RequestTimedOut,
    TopicAlreadyExists,
)
from tidelog.metastore.contract import Controller as Elected
from tidelog.metastore.contract import MetastoreError

if TYPE_CHECKING:  # imported when another broker is the controller: a start must be quick
    from tidelog.cluster.remote_controller import RemoteController

T = TypeVar("T")
Anybody = Union[Controller, "RemoteController"]

_PATIENCE_MS = 30_000
_PAUSE_SECONDS = 0.1


class Control:
    """See the module's docstring."""

    def __init__(
        self,
        members: Membership,
        tail: Tail,
        peers: Peers,
        cluster_id: str,
        automatic: Callable[[str], NewTopic],
    ) -> None:
        """`automatic` says how a topic is to be made that somebody uses before anybody created it."""
        self._members = members
        self._tail = tail
        self._peers = peers
        self._cluster_id = cluster_id
        self._automatic = automatic
        self._broker_id = members.member

    @property
    def image(self) -> Image:
        return self._tail.image

    @property
    def is_active(self) -> bool:
        """Whether this broker is the controller."""
        active = self._members.active
        return active is not None and not active.resigned

    @property
    def controller_id(self) -> int:
        """Who the controller is, -1 while nobody is."""
        known = self._members.controller
        return -1 if known is None else known.member

    @property
    def local(self) -> Controller:
        """The controller, if it is this broker; raises `NotController`."""
        active = self._members.active
        if active is None or active.resigned:
            raise NotController
        return active

    # ------------------------------------------------------------------ on the controller alone

    async def submit(self, decide: Decision[T]) -> T:
        return await self.local.submit(decide)

    async def create_topics(
        self, wanted: Sequence[NewTopic], *, validate_only: bool = False
    ) -> list[Created | KafkaError]:
        return await self.local.create_topics(wanted, validate_only=validate_only)

    async def delete_topics(self, wanted: Sequence[str | UUID]) -> list[Topic | KafkaError]:
        return await self.local.delete_topics(wanted)

    async def create_partitions(
        self, wanted: Sequence[MorePartitions], *, validate_only: bool = False
    ) -> list[KafkaError | None]:
        return await self.local.create_partitions(wanted, validate_only=validate_only)

    # ------------------------------------------------------------------ on any broker

    async def ensure_topics(self, names: Sequence[str]) -> Mapping[str, Topic | KafkaError]:
        """The topics, made with the default settings where they are missing.

        The internal topics get the settings that belong to them.
        """
        missing = [name for name in names if name not in self.image.topics]
        failed: dict[str, KafkaError] = {}
        if missing:
            wanted = [self._automatic(name) for name in missing]
            outcomes = await self.anywhere(lambda controller: controller.create_topics(wanted))
            await self.catch_up()
            for name, outcome in zip(missing, outcomes, strict=True):
                # Somebody else made it in the meantime: that is what was wanted.
                if isinstance(outcome, KafkaError) and not isinstance(outcome, TopicAlreadyExists):
                    failed[name] = outcome
        return {
            name: failed.get(name) or self.image.topics.get(name) or LeaderNotAvailable()
            for name in names
        }

    async def ensure_topic(self, name: str) -> Topic:
        """The topic, made when it is missing; raises what keeps it from being made."""
        found = self.image.topics.get(name) or (await self.ensure_topics([name]))[name]
        if isinstance(found, KafkaError):
            raise found
        return found

    async def allocate_producer_ids(self) -> range:
        """A block of producer ids that nobody has had or will have."""
        return await self.anywhere(lambda controller: controller.allocate_producer_ids())

    async def alter_partition(
        self, changes: Sequence[IsrChange]
    ) -> list[PartitionState | KafkaError]:
        """Change the in-sync replicas of partitions that this broker leads; outcomes in the order of `changes`.

        Raises `KafkaError` when the controller cannot be asked, or refuses this broker (StaleBrokerEpoch).
        """
        epoch = self.broker_epoch
        return await self.anywhere(
            lambda controller: controller.alter_partition(self._broker_id, epoch, changes)
        )

    async def assign_directories(self, lost: Set[Place], back: Set[Place]) -> None:
        """Tell which replicas of this broker are offline, and which are back; when it returns, this broker's image shows it."""
        epoch = self.broker_epoch
        await self.anywhere(
            lambda controller: controller.assign_directories(
                self._broker_id, epoch, lost=lost, back=back
            )
        )
        await self.catch_up()

    async def register(self, record: BrokerRecord, previous_epoch: int) -> None:
        """Make this broker known; when it returns, this broker's image shows it."""
        await self.anywhere(
            lambda controller: controller.register(record, previous_epoch, METADATA_VERSION)
        )
        await self.catch_up()

    async def heartbeat(
        self, *, want_shut_down: bool = False, timeout_ms: int = _PATIENCE_MS
    ) -> Standing:
        """Ask to be unfenced, or to be relieved of everything before this broker stops."""
        epoch, offset = self.broker_epoch, self.image.number
        standing = await self.anywhere(
            lambda controller: controller.heartbeat(
                self._broker_id, epoch, metadata_offset=offset, want_shut_down=want_shut_down
            ),
            timeout_ms=timeout_ms,
        )
        await self.catch_up()
        return standing

    async def anywhere(
        self, do: Callable[[Anybody], Awaitable[T]], *, timeout_ms: int = _PATIENCE_MS
    ) -> T:
        """Have the controller `do` it, whoever that is; again while there is none, or another one.

        What is done must be right to do twice: an answer may be lost.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        while True:
            known = self._members.controller
            left = deadline - loop.time()
            try:
                controller = self._controller(max(1, int(left * 1000)))
                if isinstance(controller, Controller):
                    return await do(controller)
                return await self._while_it_is(known, do(controller), left)
            except (NotController, NetworkException, RequestTimedOut, BrokerNotAvailable):
                if (left := deadline - loop.time()) <= 0:
                    raise
                # While it starts, a broker does not follow the metadata yet: the controller may have moved.
                with contextlib.suppress(RequestTimedOut):
                    await self.catch_up()
            await self._members.another(known, min(left, _PAUSE_SECONDS))

    async def _while_it_is(
        self, known: Elected | None, asking: Awaitable[T], timeout_s: float
    ) -> T:
        """The answer, unless another broker becomes the controller first: a paused one may not answer for long."""
        answer = asyncio.ensure_future(asking)
        deposed = asyncio.ensure_future(self._members.another(known, timeout_s))
        try:
            await asyncio.wait((answer, deposed), return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                raise NotController("another broker has become the controller")
            return answer.result()
        finally:
            for each in (answer, deposed):
                each.cancel()

    async def catch_up(self) -> None:
        """Let this broker's image show everything that was decided so far."""
        try:
            await self._tail.catch_up()
        except MetastoreError as error:
            raise RequestTimedOut(f"the metadata cannot be read at the moment: {error}") from error

    @property
    def broker_epoch(self) -> int:
        """Of this broker's registration, -1 before there is one."""
        this = self.image.brokers.get(self._broker_id)
        return -1 if this is None else this.epoch

    def _controller(self, timeout_ms: int) -> Anybody:
        if self.is_active:
            return self.local
        known = self._members.controller
        if known is None or known.member == self._broker_id:
            raise NotController("the cluster has no controller at the moment")
        from tidelog.cluster.remote_controller import RemoteController

        return RemoteController(
            self._broker_id, known.member, self._peers, self._tail, self._cluster_id, timeout_ms
        )
