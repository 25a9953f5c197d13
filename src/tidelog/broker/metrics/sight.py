"""What the sources of metrics look at: the parts of a broker, put there by `broker/broker.py`, and one count of its partitions."""

import asyncio
from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING

from tidelog.broker.context import Services
from tidelog.broker.coordinators import Coordinators
from tidelog.broker.member import Member
from tidelog.broker.metrics.group_lag import GroupLags
from tidelog.broker.metrics.loop_watch import LoopWatch
from tidelog.broker.replication import Replication
from tidelog.cluster.partition import Partition
from tidelog.dataclass import dataclass
from tidelog.network.hub import Hub
from tidelog.storage.flusher import Flusher

if TYPE_CHECKING:
    from tidelog.broker.gate import LoginCounts
    from tidelog.storage.cleaner import Cleaner

_AT_A_TIME = 500
"""Partitions that are looked at before others have their turn."""


@dataclass(slots=True)
class Census:
    """What the partitions of this broker add up to."""

    partitions: list[Partition] = field(default_factory=list)
    """All that are here, led or followed."""
    leaders: int = 0
    under_replicated: int = 0
    under_min_isr: int = 0
    at_min_isr: int = 0
    waiting_produces: int = 0

    def add(self, partition: Partition) -> None:
        if partition.not_leading is not None:
            return
        partition.count_in()
        self.leaders += 1
        self.waiting_produces += partition.waiting_produces
        followers = partition.followers
        if followers is None:
            return
        in_sync, replicas = len(followers.isr), len(followers.replicas)
        least = min(partition.log.config.min_insync_replicas, replicas)
        self.under_replicated += in_sync < replicas
        self.under_min_isr += in_sync < least
        self.at_min_isr += in_sync == least < replicas


@dataclass(slots=True, kw_only=True)
class Sight:
    """Everything that sources may look at."""

    services: Services
    hub: Hub
    flusher: Flusher
    member: Member
    replication: Replication
    coordinators: Coordinators
    cleaner: "Callable[[], Cleaner | None]"
    logins: "LoginCounts | None"
    loop: LoopWatch
    lags: GroupLags
    census: Census = field(default_factory=Census)

    async def prepare(self) -> None:
        """Before a scrape: what takes long, in slices."""
        census = Census(self.services.partitions.all_hosted())
        for number, partition in enumerate(census.partitions, 1):
            census.add(partition)
            if number % _AT_A_TIME == 0:
                await asyncio.sleep(0)
        self.census = census
        await self.lags.refresh()
