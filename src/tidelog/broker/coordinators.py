"""The coordinators of groups and transactions on this broker: made when they are first needed, led by the image.

A broker without groups and transactions never imports them.  With the internal topics in the image they are made
at the start, and follow every change of who leads what.
"""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import TYPE_CHECKING, cast
from uuid import UUID

from tidelog.broker.background import Background
from tidelog.broker.late import Late
from tidelog.broker.settings import BrokerSettings
from tidelog.clock import Clock
from tidelog.cluster.image import Delta, Image
from tidelog.cluster.lease import Lease
from tidelog.cluster.partitions import Partitions
from tidelog.cluster.peers import Peers
from tidelog.names import CONSUMER_OFFSETS, TRANSACTION_STATE

if TYPE_CHECKING:
    from tidelog.coordination.groups.coordinator import GroupCoordinator
    from tidelog.coordination.transactions.coordinator import TransactionCoordinator


class Coordinators:
    """See the module's docstring; `groups` and `transactions` are what handlers use."""

    def __init__(
        self,
        *,
        broker_id: int,
        clock: Clock,
        settings: Callable[[], BrokerSettings],
        image: Callable[[], Image],
        partitions: Partitions,
        peers: Peers,
        ensure_topic: Callable[[str], Awaitable[object]],
        new_producer_id: Callable[[], Awaitable[int]],
        background: Background,
        random: Random,
        lease: Lease,
    ) -> None:
        self._background = background
        loop = asyncio.get_running_loop()

        def make_groups() -> "GroupCoordinator":
            from tidelog.coordination.groups.coordinator import GroupCoordinator

            return GroupCoordinator(
                broker_id=broker_id,
                clock=clock,
                image=image,
                partitions=partitions,
                ensure_topic=ensure_topic,
                config=lambda: settings().groups,
                call_later=loop.call_later,
                lease=lease,
                new_id=lambda: str(UUID(int=random.getrandbits(128), version=4)),
            )

        def make_transactions() -> "TransactionCoordinator":
            from tidelog.coordination.transactions.coordinator import TransactionCoordinator

            return TransactionCoordinator(
                broker_id=broker_id,
                clock=clock,
                image=image,
                partitions=partitions,
                peers=peers,
                ensure_topic=ensure_topic,
                config=lambda: settings().transactions,
                groups=self.groups,
                new_producer_id=new_producer_id,
                call_later=loop.call_later,
                lease=lease,
            )

        self._groups = Late(make_groups)
        self._transactions = Late(make_transactions)
        self.groups = cast("GroupCoordinator", self._groups)
        self.transactions = cast("TransactionCoordinator", self._transactions)

    @property
    def made_groups(self) -> "GroupCoordinator | None":
        """The coordinator of groups, if there was a use for one so far."""
        return self.groups if self._groups.is_made else None

    @property
    def made_transactions(self) -> "TransactionCoordinator | None":
        return self.transactions if self._transactions.is_made else None

    def start(self, image: Image) -> None:
        """Load the groups and transactions that there are; a broker without any waits for the first."""
        loop = asyncio.get_running_loop()
        # Produce and fetch need not wait for it.
        if CONSUMER_OFFSETS in image.topics:
            loop.call_soon(lambda: self.groups.follow())
        if TRANSACTION_STATE in image.topics:
            loop.call_soon(lambda: self.transactions.follow())

    def follow(self, image: Image, delta: Delta) -> None:
        """A listener of the image, to be told after the partitions were."""
        touched = delta.partitions.keys() | {topic.name for topic in delta.created}
        if CONSUMER_OFFSETS in touched:
            self.groups.follow()
        if TRANSACTION_STATE in touched:
            self.transactions.follow()
        if self._transactions.is_made:
            for broker_id in delta.brokers:
                broker = image.brokers.get(broker_id)
                if broker is None or broker.fenced:
                    self.transactions.broker_gone(broker_id)
        if delta.deleted and self._groups.is_made:
            names = [topic.name for topic in delta.deleted]
            self._background.run("deletion of offsets", self.groups.topics_deleted(names))

    async def stop(self) -> None:
        for each in (self._transactions, self._groups):
            if each.is_made:
                await each.stop()
