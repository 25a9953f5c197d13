"""The controller: decide on the newest image, append what was decided, apply it, answer.

Decisions are pure functions (`topics.py`, `elections.py`, `registration.py`, `isr.py`, `reassignment.py`,
`broker/configs.py`); `submit` is the one door through which they take effect, one at a time.  When a call that a
client waits for returns, this broker's image and its partitions show the change.

A controller acts in the name of the epoch it was elected with, and the metastore refuses what it appends under an
older one.  So a controller that was paused, or cut off, finds out at its next decision and resigns.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence, Set
from typing import NamedTuple, TypeVar
from uuid import UUID

from tidelog.cluster import elections, isr, metadata, offline, reassignment, registration, topics
from tidelog.cluster.election_news import Elections, elected, tell
from tidelog.cluster.eligible import with_eligible
from tidelog.cluster.image import Image, PartitionState, Topic
from tidelog.cluster.isr import IsrChange
from tidelog.cluster.metadata import (
    BrokerChangeRecord,
    BrokerRecord,
    ProducerIdsRecord,
    Record,
)
from tidelog.cluster.reassignment import Move
from tidelog.cluster.shared import shared_settings
from tidelog.cluster.tail import Tail
from tidelog.cluster.topics import Created, MorePartitions, NewTopic, Rules
from tidelog.cluster.versions import check_readable
from tidelog.cluster.votes import Votes
from tidelog.errors import (
    KafkaError,
    NotController,
    RequestTimedOut,
)
from tidelog.metastore.contract import Fenced, Metastore, MetastoreError, Snapshot

log = logging.getLogger(__name__)

T = TypeVar("T")
Decision = Callable[[Image], tuple[list[Record], T]]

PRODUCER_ID_BLOCK = 1000
SNAPSHOT_EVERY = 1000
"""Log entries after which the image is saved and the log cut."""


class Standing(NamedTuple):
    """How the controller sees a broker."""

    is_caught_up: bool
    is_fenced: bool
    should_shut_down: bool


class Controller:
    """Changes cluster metadata in the name of the controller epoch it was elected with."""

    def __init__(
        self,
        metastore: Metastore,
        tail: Tail,
        epoch: int,
        rules: Callable[[], Rules],
        elections: Elections | None = None,
    ) -> None:
        """`rules` are asked for at every use, because settings change; `elections` outlive this controller."""
        self._metastore = metastore
        self._tail = tail
        self._view = Tail(metastore, tail.image)
        """What is decided on.  The broker's own tail makes logs before it shows them: nobody may wait for that."""
        self._rules = rules
        self._elections = elections or Elections()
        self._one_at_a_time = asyncio.Lock()
        self._votes = Votes()
        self.epoch = epoch
        self.resigned = False
        self.sessions_seen: frozenset[tuple[int, str]] | None = None
        """On which brokers were last fenced or unfenced; None before the first time."""

    @property
    def image(self) -> Image:
        """What has been decided, whether or not this broker has followed yet."""
        return self._view.image

    def resign(self) -> None:
        """Decide nothing any more; whoever waits is told to ask somebody else."""
        self.resigned = True

    async def submit(self, decide: Decision[T]) -> T:
        """Decide on the newest image, make the decision last, and return its outcome when this broker shows it."""
        async with self._one_at_a_time:
            outcome = await self._decide(decide)
        if self._tail.image.number < self.image.number:
            try:
                await self._tail.catch_up()
            except MetastoreError as error:
                raise _not_now(error) from error
        return outcome

    async def _submit_with_sessions(
        self, decide: Callable[[Image, Set[str]], tuple[list[Record], T]]
    ) -> tuple[frozenset[tuple[int, str]], T]:
        """As `submit`, for what depends on which brokers are alive: their incarnations are passed along."""
        async with self._one_at_a_time:
            try:
                tick = await self._metastore.tick()
            except MetastoreError as error:
                raise _not_now(error) from error
            self.sessions_seen = None  # whoever is gone by now is fenced by the next reconciliation
            alive = registration.incarnations(tick.sessions)
            return tick.sessions, await self._decide(lambda image: decide(image, alive))

    async def _decide(self, decide: Decision[T]) -> T:
        if self.resigned:
            raise NotController
        begun = asyncio.get_running_loop().time()
        try:
            image = await self._view.catch_up()
            shared = shared_settings(image, self._rules().shared)
            if shared:
                await self._append(with_eligible(image, shared))
                image = self.image
            records, outcome = decide(image)
            if records:
                await self._append(with_eligible(image, records))
                self._note_elections(image, records, begun)
                _tell_of_brokers(image, self.image, records)
        except Fenced as error:
            self.resign()
            raise NotController(str(error)) from error
        except MetastoreError as error:
            raise _not_now(error) from error
        return outcome

    async def create_topics(
        self, wanted: Sequence[NewTopic], *, validate_only: bool = False
    ) -> list[Created | KafkaError]:
        """Make topics; the outcomes are in the order of `wanted`."""

        def decide(image: Image) -> tuple[list[Record], list[Created | KafkaError]]:
            records, outcomes = topics.create(image, wanted, self._rules())
            return ([] if validate_only else records), outcomes

        outcomes = await self.submit(decide)
        if not validate_only:
            for outcome in outcomes:
                if isinstance(outcome, Created):
                    log.info(
                        "topic %s created: %d partition(s), replication factor %d",
                        outcome.name,
                        outcome.partitions,
                        outcome.replication_factor,
                    )
        return outcomes

    async def delete_topics(self, wanted: Sequence[str | UUID]) -> list[Topic | KafkaError]:
        """Remove topics by name or id; the outcomes are in the order of `wanted`."""
        outcomes = await self.submit(lambda image: topics.delete(image, wanted))
        for outcome in outcomes:
            if isinstance(outcome, Topic):
                log.info("topic %s deleted", outcome.name)
        return outcomes

    async def create_partitions(
        self, wanted: Sequence[MorePartitions], *, validate_only: bool = False
    ) -> list[KafkaError | None]:
        """Add partitions; None for each topic that has grown."""

        def decide(image: Image) -> tuple[list[Record], list[KafkaError | None]]:
            records, outcomes = topics.grow(image, wanted)
            return ([] if validate_only else records), outcomes

        outcomes = await self.submit(decide)
        for each, outcome in zip(wanted, outcomes, strict=True):
            if outcome is None and not validate_only:
                log.info("topic %s has %d partitions now", each.name, each.count)
        return outcomes

    async def allocate_producer_ids(self) -> range:
        """A block of producer ids that nobody has had or will have."""

        def decide(image: Image) -> tuple[list[Record], range]:
            block = range(image.next_producer_id, image.next_producer_id + PRODUCER_ID_BLOCK)
            return [ProducerIdsRecord(block.stop)], block

        return await self.submit(decide)

    # ------------------------------------------------------------------ brokers

    async def reconcile(self) -> None:
        """Fence the brokers that are gone, and give every partition the best leader it can have."""

        def decide(image: Image, alive: Set[str]) -> tuple[list[Record], None]:
            return registration.fence_gone(image, alive, self._unclean(image)), None

        before = self.image
        sessions, _ = await self._submit_with_sessions(decide)
        self.sessions_seen = sessions
        _tell_of_fenced(before, self.image, {member for member, _ in sessions})

    async def register(self, record: BrokerRecord, previous_epoch: int, version: int = 1) -> int:
        """Make a broker known that can read metadata of this version, and return its epoch.

        `previous_epoch` is the epoch of its last registration, if it stopped cleanly after that.
        """

        def decide(image: Image, alive: Set[str]) -> tuple[list[Record], None]:
            known = image.brokers.get(record.broker_id)
            clean = known is None or known.epoch == previous_epoch
            unclean = self._unclean(image)
            records = registration.register(
                image, record, alive, clean=clean, unclean=unclean, version=version
            )
            return records, None

        await self._submit_with_sessions(decide)
        return self.image.brokers[record.broker_id].epoch

    async def heartbeat(
        self,
        broker_id: int,
        broker_epoch: int,
        *,
        metadata_offset: int,
        want_fence: bool = False,
        want_shut_down: bool = False,
    ) -> Standing:
        """Let a broker that has caught up take part, or move away what it leads before it stops."""

        def decide(image: Image, alive: Set[str]) -> tuple[list[Record], bool]:
            broker = registration.registered(image, broker_id, broker_epoch)
            caught_up = metadata_offset >= broker.epoch
            if want_shut_down:
                return registration.shut_down(image, broker, self._unclean(image)), caught_up
            if caught_up and not want_fence and broker.incarnation in alive:
                return registration.unfence(image, broker, self._unclean(image)), caught_up
            return [], caught_up

        _, caught_up = await self._submit_with_sessions(decide)
        broker = self.image.brokers[broker_id]
        return Standing(caught_up, broker.fenced, broker.fenced or broker.stopping)

    async def unregister(self, broker_id: int) -> None:
        """Forget a broker that will not come back."""
        await self.submit(lambda image: (registration.unregister(image, broker_id), None))
        log.info("broker %d is no longer registered", broker_id)

    # ------------------------------------------------------------------ leaders and replicas

    async def alter_partition(
        self, broker_id: int, broker_epoch: int, changes: Sequence[IsrChange]
    ) -> list[PartitionState | KafkaError]:
        """Change in-sync replicas as their leader asks; the outcomes are in the order of `changes`."""

        def voters(change: IsrChange) -> frozenset[int]:
            return self._votes.cast(change, broker_id)

        def decide(image: Image) -> tuple[list[Record], list[PartitionState | KafkaError]]:
            records, outcomes = isr.alter(image, broker_id, broker_epoch, changes, voters)
            for change, outcome in zip(changes, outcomes, strict=True):
                state = image.maybe_partition(change.topic_id, change.index)
                if (
                    isinstance(outcome, PartitionState)
                    and state is not None
                    and isr.is_vote(state, broker_id, change)
                ):
                    self._votes.carried_out(change)
                    log.warning(
                        "%s-%d is taken from broker %d, which %s cannot reach",
                        image.topic_names[change.topic_id],
                        change.index,
                        state.leader,
                        list(outcome.isr),
                    )
            return [*records], outcomes

        return await self.submit(decide)

    async def assign_directories(
        self,
        broker_id: int,
        broker_epoch: int,
        *,
        lost: Set[offline.Place],
        back: Set[offline.Place],
    ) -> None:
        """Note which replicas of a broker lie on a directory that failed, and which do no longer."""

        def decide(image: Image) -> tuple[list[Record], None]:
            changes = offline.assign(image, broker_id, broker_epoch, lost, back)
            return offline.settled(image, changes, self._unclean(image)) if changes else [], None

        await self.submit(decide)

    async def elect_leaders(
        self, kind: int, wanted: Sequence[tuple[str, int]] | None
    ) -> list[tuple[str, int, KafkaError | None]]:
        """Elections that somebody asked for; None asks for all partitions."""

        def decide(image: Image) -> tuple[list[Record], list[tuple[str, int, KafkaError | None]]]:
            each = list(elections.all_partitions(image)) if wanted is None else wanted
            changes, outcomes = elections.elect(image, image.live_brokers, kind, each)
            told = [(*where, error) for where, error in zip(each, outcomes, strict=True)]
            return [*changes], told

        return await self.submit(decide)

    async def rebalance(self, percentage: int) -> int:
        """Let preferred leaders lead again where too many do not; returns how many partitions moved."""

        def decide(image: Image) -> tuple[list[Record], int]:
            worst = max(elections.imbalance(image).values(), default=0.0)
            if worst * 100 <= percentage:
                return [], 0
            changes = elections.prefer(image, image.live_brokers)
            return [*changes], len(changes)

        return await self.submit(decide)

    async def reassign(
        self, moves: Sequence[Move], *, allow_factor_change: bool = True
    ) -> list[KafkaError | None]:
        """Begin reassignments, or call them off."""
        return await self.submit(
            _typed(
                lambda image: reassignment.reassign(
                    image, moves, allow_factor_change=allow_factor_change
                )
            )
        )

    # ------------------------------------------------------------------ the log

    async def save_snapshot(self) -> None:
        """Save the image and cut the log."""
        image = self.image
        data = metadata.encode(image.records())
        await self._metastore.save_snapshot(self.epoch, Snapshot(image.number, data))

    async def _append(self, records: list[Record]) -> None:
        check_readable(self.image, records)
        number = await self._metastore.append(self.epoch, metadata.encode(records))
        await self._view.advance(records, number)
        if number % SNAPSHOT_EVERY == 0:
            try:
                await self.save_snapshot()
            except MetastoreError as error:  # what was decided is in the log all the same
                log.warning("the metadata log could not be cut: %s", error)

    def _note_elections(self, before: Image, records: Sequence[Record], begun: float) -> None:
        found = list(elected(before, self.image, records))
        if not found:
            return
        seconds = asyncio.get_running_loop().time() - begun
        self._elections.times.add(seconds, len(found))
        self._elections.unclean += sum(each.unclean for each in found)
        tell(found)

    def _unclean(self, image: Image) -> elections.Unclean:
        rules = self._rules()
        return lambda topic: topics.may_be_unclean(image, topic, rules)


def _typed(
    decide: "Callable[[Image], tuple[Iterable[Record], T]]",
) -> Decision[T]:
    def decided(image: Image) -> tuple[list[Record], T]:
        records, outcome = decide(image)
        return list(records), outcome

    return decided


def _not_now(error: MetastoreError) -> KafkaError:
    return RequestTimedOut(f"the controller cannot decide at the moment: {error}")


def _tell_of_brokers(before: Image, after: Image, records: Sequence[Record]) -> None:
    """One line for each that has come, or is about to stop; of who is gone `reconcile` tells."""
    if len(after.brokers) < 2 or not any(
        isinstance(each, BrokerRecord | BrokerChangeRecord) for each in records
    ):
        return  # a broker that is alone has no news for anybody
    for broker in after.brokers.values():
        old = before.brokers.get(broker.id)
        if not broker.fenced and (old is None or old.fenced or old.epoch != broker.epoch):
            log.info("broker %d takes part (epoch %d)", broker.id, broker.epoch)
        elif broker.stopping and old is not None and not old.stopping:
            log.info("broker %d is about to stop: others lead what it led", broker.id)


def _tell_of_fenced(before: Image, after: Image, present: Set[int]) -> None:
    for broker in after.brokers.values():
        old = before.brokers.get(broker.id)
        # One that is there under another session is about to register again.
        if broker.fenced and old is not None and not old.fenced and broker.id not in present:
            log.warning("broker %d is gone: others take over what it led", broker.id)
