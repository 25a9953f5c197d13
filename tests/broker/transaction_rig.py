"""A broker of groups and transactions: dispatcher, coordinators and real logs, without sockets and metastore.

It may be put over a directory that another one has left behind, at whatever moment.
"""

import asyncio
import itertools
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

from hot_path import TOPIC_ID, HotPath, NoPeers, batch, fetch_request, produce_request

from tidelog.broker.dispatch import Dispatcher, Handlers
from tidelog.cluster.image import Broker, Image, PartitionState, Topic
from tidelog.coordination.groups.config import GroupConfig
from tidelog.coordination.groups.coordinator import GroupCoordinator
from tidelog.coordination.transactions.config import TransactionConfig
from tidelog.coordination.transactions.coordinator import TransactionCoordinator
from tidelog.coordination.transactions.transaction import Identity
from tidelog.names import CONSUMER_OFFSETS, TRANSACTION_STATE
from tidelog.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from tidelog.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from tidelog.protocol.messages.end_txn import EndTxnRequest
from tidelog.protocol.messages.init_producer_id import InitProducerIdRequest
from tidelog.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tidelog.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tidelog.records.batch import iterate_batches, read_records
from tidelog.records.control import read_marker

STATE = PartitionState(1, 0, 0, (1,), (1,))
INTERNAL = {CONSUMER_OFFSETS: UUID(int=1), TRANSACTION_STATE: UUID(int=2)}
SHARDS = 2
FIRST_IDS = itertools.count(1000, 1000)
"""A broker that starts anew never gives an id a second time."""


class TransactionRig(HotPath):
    """Topic `events` with two partitions; internal topics come when they are needed.

    By default one broker leads everything; `leaders` may say otherwise by topic, or by topic and index, and `peers` leads
    to the others.
    """

    def __init__(
        self,
        directory: Path,
        *,
        broker_id: int = 1,
        leaders: Mapping[str | tuple[str, int], int] | None = None,
        peers: Any = None,
        **config: Any,
    ) -> None:
        self.broker_id = broker_id
        self.leaders = leaders or {}
        super().__init__(directory, partitions=0, **config)
        for index in range(2):
            if self.leads("events", index):
                self.add("events", index, TOPIC_ID, **config)
        self.config = config
        states = tuple(self._state("events", index) for index in range(2))
        self.image = Image(
            number=1,
            brokers={
                each: Broker(each, 1, (("PLAINTEXT", "", 9091 + each),), None)
                for each in {1, broker_id, *self.leaders.values()}
            },
            topics={"events": Topic("events", TOPIC_ID, states)},
            topic_names={TOPIC_ID: "events"},
        )
        for name in INTERNAL:
            if (directory / f"{name}-0").exists():
                self._open(name)
        ids = itertools.count(next(FIRST_IDS))

        async def new_id() -> int:
            return next(ids)

        services = self.services
        services.broker_id = broker_id
        services.image = lambda: self.image
        services.handlers = Handlers()
        services.groups = GroupCoordinator(
            broker_id=broker_id,
            clock=self.clock,
            image=lambda: self.image,
            partitions=services.partitions,
            ensure_topic=self._make_topic,
            config=GroupConfig,
            call_later=self.timers.call_later,
        )
        services.transactions = TransactionCoordinator(
            broker_id=broker_id,
            peers=peers or NoPeers(),
            clock=self.clock,
            image=lambda: self.image,
            partitions=services.partitions,
            ensure_topic=self._make_topic,
            config=lambda: TransactionConfig(),
            groups=services.groups,
            new_producer_id=new_id,
            call_later=self.timers.call_later,
        )
        self.dispatcher = Dispatcher(services)

    def start(self) -> None:
        self.services.groups.follow()
        self.services.transactions.follow()

    async def stop(self) -> None:
        await self.services.transactions.stop()
        await self.services.groups.stop()

    async def settle(self) -> None:
        """Let loads and completions come to their end."""
        for _ in range(50):
            await asyncio.sleep(0)

    def leads(self, topic: str, index: int) -> bool:
        return self._leader(topic, index) == self.broker_id

    def _leader(self, topic: str, index: int) -> int:
        return self.leaders.get((topic, index), self.leaders.get(topic, 1))

    def _state(self, topic: str, index: int) -> PartitionState:
        return replace(STATE, leader=self._leader(topic, index))

    async def _make_topic(self, name: str) -> None:
        self._open(name)

    def _open(self, name: str) -> None:
        states = tuple(self._state(name, index) for index in range(SHARDS))
        topic = Topic(name, INTERNAL[name], states)
        topics = {**self.image.topics, name: topic}
        self.image = replace(self.image, number=self.image.number + 1, topics=topics)
        for index in range(SHARDS):
            if self.leads(name, index):
                self.add(name, index, INTERNAL[name], 0, **self.config)

    # ------------------------------------------------------------------ what a producer asks

    async def init(self, key: str = "x", version: int = 4, **rest: Any) -> Identity:
        request = InitProducerIdRequest(
            transactional_id=key, **{"transaction_timeout_ms": 60_000, **rest}
        )
        told = await self.ask(request, version)
        assert told.error_code == 0, told
        return Identity(told.producer_id, told.producer_epoch)

    async def add_partitions(
        self, producer: Identity, *indexes: int, key: str = "x", version: int = 3
    ) -> int:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=key,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name="events", partitions=list(indexes))],
        )
        told = await self.ask(request, version)
        (code,) = {
            each.partition_error_code
            for topic in told.results_by_topic_v3_and_below
            for each in topic.results_by_partition
        }
        return code

    async def produce(
        self,
        producer: Identity,
        index: int,
        *values: bytes,
        sequence: int = 0,
        key: str | None = "x",
        version: int = 11,
    ) -> int:
        made = batch(
            *values,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=sequence,
            transactional=True,
        )
        request = produce_request(made, index=index, transactional_id=key)
        told = await self.ask(request, version)
        return told.responses[0].partition_responses[0].error_code

    async def add_offsets(
        self, producer: Identity, group: str = "g", key: str = "x", version: int = 3
    ) -> int:
        request = AddOffsetsToTxnRequest(
            transactional_id=key,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            group_id=group,
        )
        return (await self.ask(request, version)).error_code

    async def commit_offset(
        self,
        producer: Identity,
        offset: int,
        *,
        group: str = "g",
        key: str = "x",
        version: int = 3,
        **member: Any,
    ) -> int:
        row = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        request = TxnOffsetCommitRequest(
            transactional_id=key,
            group_id=group,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            topics=[TxnOffsetCommitRequestTopic(name="events", partitions=[row])],
            **member,
        )
        told = await self.ask(request, version)
        return told.topics[0].partitions[0].error_code

    async def end(
        self, producer: Identity, commit: bool = True, *, key: str = "x", version: int = 4
    ) -> Any:
        request = EndTxnRequest(
            transactional_id=key,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            committed=commit,
        )
        return await self.ask(request, version)

    # ------------------------------------------------------------------ what readers see

    async def read(self, isolation: int = 1) -> list[list[bytes]]:
        """The values in each partition of `events`, as a consumer of this isolation level gets them."""
        request = fetch_request(0, 0, isolation_level=isolation, max_wait_ms=0)
        told = await self.ask(request, 12)
        return [_visible(each) for each in told.responses[0].partitions]

    async def offset(self, group: str = "g", require_stable: bool = False) -> tuple[int, int]:
        """The offset that the group has committed for the first partition, and the error."""
        topics = [OffsetFetchRequestTopics(name="events", partition_indexes=[0])]
        asked = OffsetFetchRequestGroup(group_id=group, topics=topics)
        request = OffsetFetchRequest(groups=[asked], require_stable=require_stable)
        told = (await self.ask(request, 8)).groups[0].topics[0].partitions[0]
        return told.committed_offset, told.error_code


def _visible(fetched: Any) -> list[bytes]:
    """Without what the list of aborted transactions and the markers hide."""
    data = bytes(fetched.records or b"")
    aborted = sorted(
        fetched.aborted_transactions or (), key=lambda each: each.first_offset, reverse=True
    )
    hidden: set[int] = set()
    values: list[bytes] = []
    for pos, header in iterate_batches(data):
        while aborted and aborted[-1].first_offset <= header.last_offset:
            hidden.add(aborted.pop().producer_id)
        if header.is_control:
            marker = read_marker(data, pos)
            if marker is not None and not marker.commit:
                hidden.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in hidden):
            values += [bytes(each.value or b"") for each in read_records(data, pos)]
    return values
