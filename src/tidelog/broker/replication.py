"""Replication, put together: what partitions need of their broker, the fetchers, and the keeper of ISRs."""

from collections.abc import Callable, Set
from random import Random

from tidelog.broker.background import Background
from tidelog.broker.settings import BrokerSettings
from tidelog.clock import Clock
from tidelog.cluster.elections import Unclean
from tidelog.cluster.fetcher import Fetchers
from tidelog.cluster.image import Image
from tidelog.cluster.in_sync import AlterPartition, InSync
from tidelog.cluster.lease import heard_since
from tidelog.cluster.offline import AssignDirectories, Offline
from tidelog.cluster.partitions import Partitions
from tidelog.cluster.peers import Peers
from tidelog.cluster.resigning import Place, Resigning
from tidelog.cluster.surroundings import Surroundings
from tidelog.cluster.unreachable import Complaints
from tidelog.storage.flusher import Flusher
from tidelog.storage.log import Log

Truncated = Callable[[Log, int], None]

_OPEN_AGAIN_MS = 2_000


class Replication:
    """See the module's docstring."""

    def __init__(
        self,
        *,
        broker_id: int,
        image: Callable[[], Image],
        partitions: Partitions,
        peers: Peers,
        alter: AlterPartition,
        assign: AssignDirectories,
        unclean: Unclean,
        clock: Clock,
        random: Random,
        flusher: Flusher,
        settings: Callable[[], BrokerSettings],
    ) -> None:
        self._broker_id = broker_id
        self._image = image
        self.open_again: Callable[[], None] | None = None
        """Called now and then, for partitions that a full disk kept from being opened."""
        self._truncated: Truncated | None = None
        self._cut: list[tuple[Log, int]] = []
        """Truncations that the cleaner has not been told of yet."""

        def max_lag_ms() -> int:
            return settings().replication.lag_time_max_ms

        self.in_sync = InSync(
            partitions,
            alter,
            clock,
            random,
            max_lag_ms,
            lambda each: self._eligible(each, -1),
            lambda: settings().replication.silence_max_ms,
        )

        def heard(place: Place, since: float) -> Set[int]:
            name = image().topic_names.get(place[0], "")
            partition = partitions.maybe_get(name, place[1])
            return frozenset() if partition is None else heard_since(partition, int(since * 1000))

        self.resigning = Resigning(broker_id, image, alter, clock, heard)
        self.offline = Offline(broker_id, image, assign, unclean)
        self.surroundings = Surroundings(
            broker_id=broker_id,
            now_ms=lambda: int(clock.monotonic() * 1000),
            max_lag_ms=max_lag_ms,
            eligible=self._eligible,
            propose=self.in_sync.propose,
            truncated=self._was_truncated,
            isr_changed=self.in_sync.changed,
            heard_ms=partitions.heard_ms,
            silent_ms=self.in_sync.silent_ms,
        )
        self.fetchers = Fetchers(
            broker_id=broker_id,
            broker_epoch=self._own_epoch,
            peers=peers,
            clock=clock,
            random=random,
            config=lambda: settings().replication,
            flusher=flusher,
        )

        self._complaints = Complaints(
            broker_id,
            image,
            self.fetchers,
            alter,
            lambda: settings().replication.silence_max_ms,
        )

    def start(self, background: Background) -> None:
        background.run("silent leaders", self._complaints.run(), vital=True)
        background.run("in-sync replicas", self.in_sync.run(), vital=True)
        background.run("handing on", self.resigning.run(), vital=True)
        background.run("failed directories", self.offline.run(), vital=True)
        background.every("opening of partitions", _OPEN_AGAIN_MS, self._open_again)

    async def _open_again(self) -> None:
        if self.open_again is not None:
            self.open_again()

    async def stop(self) -> None:
        """Fetch no more."""
        await self.fetchers.stop()

    def tell_of_truncations(self, truncated: Truncated) -> None:
        """Tell the cleaner, now that there is one, of logs that were and will be cut back."""
        self._truncated = truncated
        cut, self._cut = self._cut, []
        for each in cut:
            truncated(*each)

    def _was_truncated(self, log: Log, offset: int) -> None:
        if self._truncated is None:
            self._cut.append((log, offset))
        else:
            self._truncated(log, offset)

    def _eligible(self, broker_id: int, broker_epoch: int) -> bool:
        broker = self._image().brokers.get(broker_id)
        return broker is not None and broker.is_live and broker_epoch in (-1, broker.epoch)

    def _own_epoch(self) -> int:
        own = self._image().brokers.get(self._broker_id)
        return -1 if own is None else own.epoch
