"""This broker as a member of its cluster: session, election, registration, and the way to the controller.

member = Member(…)
await member.join()                  # a session; this broker or another is the controller
await member.register(record, last_epoch=…, registered=…, adopted=…)
…                                    # partitions are opened, connections accepted
await member.take_part()
…
await member.hand_over()             # others lead what this broker led
await member.leave()
"""

import asyncio
import logging
import math
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from random import Random
from typing import TYPE_CHECKING
from uuid import UUID

from tidelog.broker.background import Background
from tidelog.broker.configs import check_topic_settings
from tidelog.broker.internal_topics import automatic_topic
from tidelog.broker.peers import BrokerPeers
from tidelog.broker.registration import Registration
from tidelog.broker.settings import BrokerSettings
from tidelog.clock import Clock
from tidelog.cluster.control import Control
from tidelog.cluster.controller import Controller
from tidelog.cluster.election_news import Elections
from tidelog.cluster.image import MIN_IN_SYNC, Image
from tidelog.cluster.lease import Lease
from tidelog.cluster.membership import Membership
from tidelog.cluster.metadata import BrokerRecord, Record, topic_id_text
from tidelog.cluster.tail import Tail
from tidelog.cluster.topics import NewTopic, Rules, may_be_unclean
from tidelog.errors import KafkaError, StartError
from tidelog.metastore.contract import MemberTaken, Metastore, MetastoreError
from tidelog.storage.checkpoints import META_PROPERTIES, read_properties
from tidelog.storage.files import Files

if TYPE_CHECKING:
    from tidelog.client.security import ClientSecurity

log = logging.getLogger(__name__)

_HAND_OVER_MS = 10_000
_TAKEN_RETRY_SECONDS = 0.25


class Member:
    """See the module's docstring."""

    def __init__(
        self,
        *,
        metastore: Metastore,
        tail: Tail,
        settings: Callable[[], BrokerSettings],
        cluster_id: str,
        background: Background,
        clock: Clock,
        random: Random,
        security: "ClientSecurity | None" = None,
    ) -> None:
        """`security` is how this broker shows itself to the others."""
        self._metastore = metastore
        self._tail = self.tail = tail
        self._settings = settings
        self._background = background
        self._random = random
        broker = settings().broker
        self._broker_id = broker.broker_id
        given = settings().changed()  # as the settings file has them
        self._shared = {MIN_IN_SYNC: str(given.log.min_insync_replicas)}
        self.elections = Elections()
        """Those that this broker held as the controller."""
        self._members = Membership(
            metastore,
            broker.broker_id,
            timeout_ms=broker.session_timeout_ms,
            elected=lambda epoch: Controller(metastore, tail, epoch, self._rules, self.elections),
            clock=clock,
        )
        self._registration: Registration | None = None
        self.lease = Lease(
            broker.broker_id,
            lambda: tail.image,
            clock,
            lambda: 2 * settings().replication.fetch_wait_max_ms,
        )
        """Whether this broker may answer as a leader."""
        self.peers = BrokerPeers(
            broker.broker_id,
            lambda: tail.image,
            random,
            listener=settings().inter_broker_listener().name,
            security=security,
        )
        self.control = Control(self._members, tail, self.peers, cluster_id, self._automatic)

    async def join(self) -> None:
        """Open the session, and find or be the controller; `StartError` where the broker's id is in use."""
        broker = self._settings().broker
        loop = asyncio.get_running_loop()
        # The session of a process that was killed may have to run out first.
        patience = 0.0 if self._metastore.ends_with_process else 1.5 * broker.session_timeout_ms
        deadline = loop.time() + patience / 1000
        while True:
            try:
                await self._members.join()
                break
            except MemberTaken as error:
                if loop.time() >= deadline:
                    raise StartError(
                        f"{error}; give every broker of the cluster an id of its own (--broker-id)"
                    ) from error
                await asyncio.sleep(_TAKEN_RETRY_SECONDS)
            except MetastoreError as error:
                raise StartError(str(error)) from error
        self._background.every("heartbeat", broker.heartbeat_interval_ms, self._heartbeat)
        self._background.run("membership", self._members.watch(), vital=True)

    async def register(
        self,
        record: BrokerRecord,
        *,
        last_epoch: int,
        registered: Callable[[int], Awaitable[None]],
        adopted: Callable[[Image], list[Record]],
    ) -> None:
        """Make this broker known; the first one of a cluster brings the topics that it has `adopted`."""
        if self.control.is_active:
            await self.control.submit(lambda image: (adopted(image), None))
        self._registration = Registration(
            self.control,
            self._members,
            self._tail,
            record,
            last_epoch=last_epoch,
            registered=registered,
        )
        await self._registration.register()

    async def take_part(self) -> None:
        """Lead from now on, and stay a member whatever happens."""
        assert self._registration is not None
        await self._registration.unfence()
        self._renew_lease()
        self._background.run("registration", self._registration.run(), vital=True)
        interval_ms = self._settings().cluster.leader_imbalance_check_interval_s * 1000
        self._background.every("balance of leaders", interval_ms, self._rebalance)

    @property
    def is_settled(self) -> bool:
        """Whether this broker is registered and may lead."""
        found = None if self._registration is None else self._registration.broker
        return found is not None and not found.fenced

    async def hand_over(self) -> None:
        """Before the broker stops: let others lead what it leads, if there are others."""
        if self._registration is None or self._registration.broker is None:
            return
        self._registration.close()
        others = self._tail.image.live_brokers - {self._broker_id}
        if not others or not self._settings().cluster.controlled_shutdown:
            return
        try:
            await self.control.heartbeat(want_shut_down=True, timeout_ms=_HAND_OVER_MS)
        except KafkaError as error:
            log.warning("what this broker leads could not be handed over: %s", error)

    async def leave(self) -> None:
        """Give up the session, and controllership with it."""
        self.peers.close()
        await self._members.leave()

    async def _heartbeat(self) -> None:
        await self._members.heartbeat()
        self._renew_lease()

    def _renew_lease(self) -> None:
        # With another session it may have lost what it led, and not have heard of it.
        self.lease.until = self._members.deadline if self.is_settled else -math.inf

    async def _rebalance(self) -> None:
        cluster = self._settings().cluster
        if cluster.auto_leader_rebalance and self.control.is_active:
            moved = await self.control.local.rebalance(cluster.leader_imbalance_percentage)
            if moved:
                log.info("%d partition(s) are led by their preferred leaders again", moved)

    def _rules(self) -> Rules:
        settings = self._settings()

        def check(configs: Mapping[str, str]) -> None:
            check_topic_settings(settings, configs)

        return Rules(
            partitions=settings.broker.num_partitions,
            replication_factor=settings.broker.default_replication_factor,
            check_config=check,
            new_id=lambda: new_topic_id(self._random),
            unclean=settings.log.unclean_leader_election,
            shared=self._shared,
        )

    def may_be_unclean(self, topic: str) -> bool:
        """Whether the topic would rather lose records than have no leader."""
        return may_be_unclean(self._tail.image, topic, self._rules())

    def _automatic(self, name: str) -> NewTopic:
        return automatic_topic(name, self._settings(), len(self._tail.image.live_brokers))


def new_topic_id(random: Random) -> UUID:
    """Random, and never one whose text begins with a dash, which command lines would take for an option."""
    while True:
        topic_id = UUID(int=random.getrandbits(128), version=4)
        if not topic_id_text(topic_id).startswith("-"):
            return topic_id


def new_cluster_id(random: Random) -> str:
    """22 characters of base64url, as Kafka's."""
    return topic_id_text(new_topic_id(random))


def proposed_cluster_id(directories: Iterable[str], files: Files, random: Random) -> str:
    """The id that a data directory has already, from Kafka perhaps, or a new one."""
    for directory in directories:
        path = os.path.join(directory, META_PROPERTIES)
        try:
            known = read_properties(files, path) if files.exists(path) else {}
        except OSError:
            continue  # which is told when its logs are opened
        if known.get("cluster.id"):
            return known["cluster.id"]
    return new_cluster_id(random)
