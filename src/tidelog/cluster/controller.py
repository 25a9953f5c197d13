"""The controller: decide on the newest image, append what was decided, apply it, answer.

Decisions are pure functions (`cluster/topics.py`, `broker/configs.py`); `submit` is the one door through which they take
effect, one at a time.  When a call returns, this broker's image and its partitions show the change.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar
from uuid import UUID

from tidelog.cluster import metadata, topics
from tidelog.cluster.image import Image, Topic
from tidelog.cluster.metadata import BrokerRecord, ProducerIdsRecord, Record
from tidelog.cluster.tail import Tail
from tidelog.cluster.topics import Created, MorePartitions, NewTopic, Rules
from tidelog.errors import KafkaError, LeaderNotAvailable, NotController, TopicAlreadyExists
from tidelog.metastore.contract import Fenced, Metastore, Snapshot

log = logging.getLogger(__name__)

T = TypeVar("T")
Decision = Callable[[Image], tuple[list[Record], T]]

PRODUCER_ID_BLOCK = 1000
SNAPSHOT_EVERY = 1000
"""Log entries after which the image is saved and the log cut."""


class Controller:
    """Changes cluster metadata in the name of the controller epoch it was elected with."""

    def __init__(
        self,
        metastore: Metastore,
        tail: Tail,
        epoch: int,
        rules: Callable[[], Rules],
        automatic: Callable[[str], NewTopic],
    ) -> None:
        """`rules` are asked for at every use, because settings change.

        `automatic` says how a topic is to be made that somebody uses before anybody created it.
        """
        self._metastore = metastore
        self._tail = tail
        self._rules = rules
        self._automatic = automatic
        self._one_at_a_time = asyncio.Lock()
        self.epoch = epoch

    @property
    def image(self) -> Image:
        return self._tail.image

    async def submit(self, decide: Decision[T]) -> T:
        """Decide on the newest image, make the decision last, apply it, and return its outcome."""
        async with self._one_at_a_time:
            image = await self._tail.catch_up()
            records, outcome = decide(image)
            if records:
                await self._append(records)
                await self._tail.catch_up()
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

    async def ensure_topics(self, names: Sequence[str]) -> Mapping[str, Topic | KafkaError]:
        """The topics, made with the default settings where they are missing.

        The internal topics get the settings that belong to them.
        """
        missing = [name for name in names if name not in self.image.topics]
        failed: dict[str, KafkaError] = {}
        if missing:
            outcomes = await self.create_topics([self._automatic(name) for name in missing])
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

        def decide(image: Image) -> tuple[list[Record], range]:
            block = range(image.next_producer_id, image.next_producer_id + PRODUCER_ID_BLOCK)
            return [ProducerIdsRecord(block.stop)], block

        return await self.submit(decide)

    async def register_broker(self, record: BrokerRecord) -> None:
        """Make this broker known to the cluster."""
        await self.submit(lambda _: ([record], None))

    async def save_snapshot(self) -> None:
        """Save the image and cut the log."""
        image = self.image
        data = metadata.encode(image.records())
        await self._metastore.save_snapshot(self.epoch, Snapshot(image.number, data))

    async def _append(self, records: Sequence[Record]) -> None:
        try:
            number = await self._metastore.append(self.epoch, metadata.encode(records))
        except Fenced as error:
            raise NotController(str(error)) from error
        if number % SNAPSHOT_EVERY == 0:
            await self._tail.catch_up()
            await self.save_snapshot()
